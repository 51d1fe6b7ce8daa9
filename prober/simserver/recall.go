package simserver

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// questionTail is the end of a prompt, in tokens, that may be a question.
const questionTail = 64

// asksFor is a question that the simulated model understands: what something is, put at the end of the prompt.
var asksFor = regexp.MustCompile(`What is ([a-z][a-z ]{2,80})\?`)

// recall is the beginning of the answer where the prompt ends in a question for something that a sentence in it says, as
// "The year of the flood is 1784."; nil for any other prompt, and where the model fails.
func (s *instance) recall(prompt []int32) []int32 {
	read := s.config.Faults.visible(prompt)
	tail := s.tok.decode(read[max(0, len(read)-questionTail):])
	question := asksFor.FindStringSubmatch(tail)
	if question == nil {
		return nil
	}
	p := s.config.Profile
	long := min(1, float64(len(prompt))/longest)
	draw := rand.New(rand.NewPCG(s.config.Seed, seedOf(prompt))).Float64()
	if draw >= (1-long)*p.RecallShort+long*p.RecallLong {
		return nil
	}
	_, rest, said := strings.Cut(strings.ToLower(s.tok.decode(read)), question[1]+" is ")
	number := rest[:strings.IndexFunc(rest+".", func(r rune) bool { return r < '0' || r > '9' })]
	if !said || number == "" {
		return nil
	}
	return s.tok.encode(" " + number)
}

// visible is what of a prompt the model takes in.
func (f Faults) visible(prompt []int32) []int32 {
	if f.Window > 0 {
		prompt = prompt[max(0, len(prompt)-f.Window):]
	}
	if n := f.SeenEnds; n > 0 && len(prompt) > 2*n {
		prompt = slices.Concat(prompt[:n], prompt[len(prompt)-n:])
	}
	return prompt
}
