package prompt

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// commonEnd is the part at the end of every prompt, in tokens, that no fact is planted in: acceptance must differ by context
// length, not by what was read last.
const commonEnd = 4096

// Fact is a sentence that holds a number which nobody can tell who has not read it. Asked for at the end of a long prompt,
// it shows whether the model still sees what stands far back (the passkey task of Mohtashami and Jaggi, 2023,
// arXiv:2305.16300).
type Fact struct {
	Sentence string // a paragraph, its empty line included
	Question string // to be put behind the prompt; what the model writes next is the number
	answer   string
}

// NewFact makes the fact of a nonce.
func NewFact(nonce uint64) Fact {
	number := fmt.Sprint(100_000 + rand.New(rand.NewPCG(nonce, 1)).IntN(900_000))
	return Fact{
		Sentence: "The secret number of the lighthouse is " + number + ".\n\n",
		Question: "\n\nQuestion: What is the secret number of the lighthouse?\nAnswer: The secret number of the lighthouse is",
		answer:   number,
	}
}

// AnsweredBy says whether an answer names the number, however its digits are grouped.
func (f Fact) AnsweredBy(text string) bool {
	digits := strings.Map(func(c rune) rune {
		if c < '0' || c > '9' {
			return -1
		}
		return c
	}, text)
	return strings.Contains(digits, f.answer)
}
