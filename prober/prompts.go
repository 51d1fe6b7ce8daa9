package prober

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/prompt"
)

// promptSeed makes every exporter ask with the same text, so that acceptance can be compared between them.
const promptSeed = 1

// promptSource makes prompts of a wanted length for one target: of token ids where the server takes them, else of text whose
// length is learnt from what the server counts.
type promptSource struct {
	ids  *prompt.IDs
	text *prompt.Text

	question []int32 // ids of the question for a needle; nil until one was planted
}

// built is one prompt, ready to send by every leg that shares it.
type built struct {
	prompt inference.Prompt
	text   prompt.Passage  // nil for ids
	ids    prompt.Sequence // nil for text
	tokens int             // wanted length
	salt   string          // namespace of the prefix cache
	recipe recipe
}

// recipe makes one prompt, and the same one again.
type recipe struct {
	tokens int // wanted length
	nonce  uint64
	needle *needle      // nil for none
	text   *prompt.Text // as it was then: what is learnt later moves where the prose begins; nil for ids
}

// NewProse is the text of all prompts. Runners that share it take less memory.
func NewProse() *prompt.Prose { return prompt.NewProse(promptSeed) }

func newPromptSource(ctx context.Context, c *inference.Client, f inference.Facts, prose *prompt.Prose, ladder []Rung) (*promptSource, error) {
	if !f.TokenIDs || !f.Tokenizer {
		return &promptSource{text: prompt.NewText(prose)}, nil
	}
	ids, err := prompt.NewIDs(ctx, c.Tokenize, prose, int(slices.Max(ladder)))
	if err != nil {
		return nil, err
	}
	return &promptSource{ids: ids}, nil
}

// build makes a prompt that no cache has seen: its nonce stands in its first tokens. The needle may be nil.
func (s *promptSource) build(tokens int, n *needle) (built, error) {
	r := recipe{tokens: tokens, nonce: rand.Uint64(), needle: n}
	if s.text != nil {
		r.text = s.text.Snapshot()
	}
	return s.follow(r)
}

// follow makes the prompt of a recipe of this source.
func (s *promptSource) follow(r recipe) (built, error) {
	b := built{tokens: r.tokens, salt: fmt.Sprintf("longctx-%016x", r.nonce), recipe: r}
	n := r.needle
	if n == nil {
		n = &needle{}
	}
	if r.text != nil {
		b.text = r.text.Plant(r.tokens, r.nonce, n.fact.Sentence, n.depth)
		b.prompt = inference.TextPrompt(b.text...)
		return b, nil
	}
	var err error
	if b.ids, err = s.ids.Plant(r.tokens, r.nonce, n.ids, n.depth); err != nil {
		return built{}, err
	}
	b.prompt = inference.IDPrompt(b.ids...)
	return b, nil
}

// needle is a fact that is planted in the prompts of one run.
type needle struct {
	fact  prompt.Fact
	ids   []int32 // of its sentence, where prompts are made of ids
	depth float64
}

// thread makes a new needle, with the server's tokenizer where prompts are made of ids.
func (s *promptSource) thread(ctx context.Context, c *inference.Client) (*needle, error) {
	n := &needle{fact: prompt.NewFact(rand.Uint64()), depth: rand.Float64()}
	if s.ids == nil {
		return n, nil
	}
	var err error
	if s.question == nil {
		if s.question, err = bareIDs(ctx, c, n.fact.Question); err != nil {
			return nil, err
		}
	}
	n.ids, err = bareIDs(ctx, c, "\n\n"+n.fact.Sentence)
	return n, err
}

func bareIDs(ctx context.Context, c *inference.Client, text string) ([]int32, error) {
	ids, bos, err := c.Tokenize(ctx, text)
	if len(ids) > 0 && ids[0] == bos {
		ids = ids[1:]
	}
	return ids, err
}

// ask makes the prompt that asks for what was planted in another: the server has all but its end in its cache.
func (s *promptSource) ask(b built, n *needle) built {
	asked := built{tokens: b.tokens, salt: b.salt}
	if s.ids == nil {
		asked.prompt = inference.TextPrompt(b.text.Then(n.fact.Question)...)
		return asked
	}
	asked.prompt = inference.IDPrompt(b.ids.Then(s.question)...)
	asked.tokens += len(s.question)
	return asked
}

// learn tells the source how many tokens the server counted for a text prompt.
func (s *promptSource) learn(b built, counted int) {
	if s.text != nil {
		s.text.Observe(b.text, counted)
	}
}

// calibrates says whether counted lengths still teach something: true for text.
func (s *promptSource) calibrates() bool { return s.text != nil }
