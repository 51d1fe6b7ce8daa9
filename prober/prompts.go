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
}

// built is one prompt, ready to send by every leg that shares it.
type built struct {
	prompt inference.Prompt
	text   string // "" for ids
	tokens int    // wanted length
	salt   string // namespace of the prefix cache
}

func newPromptSource(ctx context.Context, c *inference.Client, f inference.Facts, ladder []Rung) (*promptSource, error) {
	if !f.TokenIDs || !f.Tokenizer {
		return &promptSource{text: prompt.NewText(promptSeed)}, nil
	}
	ids, err := prompt.NewIDs(ctx, c.Tokenize, promptSeed, int(slices.Max(ladder)))
	if err != nil {
		return nil, err
	}
	return &promptSource{ids: ids}, nil
}

// build makes a prompt that no cache has seen: its nonce stands in its first tokens.
func (s *promptSource) build(tokens int) (built, error) {
	nonce := rand.Uint64()
	b := built{tokens: tokens, salt: fmt.Sprintf("longctx-%016x", nonce)}
	if s.ids == nil {
		b.text = s.text.Build(tokens, nonce)
		b.prompt = inference.TextPrompt(b.text)
		return b, nil
	}
	ids, err := s.ids.Build(tokens, nonce)
	if err != nil {
		return built{}, err
	}
	b.prompt = inference.IDPrompt(ids)
	return b, nil
}

// learn tells the source how many tokens the server counted for a text prompt.
func (s *promptSource) learn(b built, counted int) {
	if s.text != nil {
		s.text.Observe(b.text, counted)
	}
}

// calibrates says whether counted lengths still teach something: true for text.
func (s *promptSource) calibrates() bool { return s.text != nil }
