package inference

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// BenchmarkSSEEvent is the cost of one event of a stream, from bytes to facts.
func BenchmarkSSEEvent(b *testing.B) {
	for name, event := range map[string]string{
		"completions": `data: {"id":"9b2f1c7d8e","object":"text_completion","created":1784548800,"model":"kimi-k2.6","choices":[{"index":0,"text":" quick brown fox","logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":{"prompt_tokens":131072,"total_tokens":131077,"completion_tokens":5,"prompt_tokens_details":null,"reasoning_tokens":0}}`,
		"chat":        `data: {"id":"chatcmpl-0001","object":"chat.completion.chunk","created":1700000000,"model":"probe-model","choices":[{"index":0,"delta":{"content":" alpha"},"logprobs":null,"finish_reason":null}]}`,
		"generate":    `data: {"text":" The quick brown fox","output_ids":[1,22,333,4444],"meta_info":{"id":"probe-8f0c","finish_reason":null,"prompt_tokens":131072,"weight_version":"default","num_retractions":0,"completion_tokens":4,"cached_tokens":0,"dp_rank":null}}`,
	} {
		b.Run(name, func(b *testing.B) {
			line := []byte(event + "\n\n")
			read := bytes.Repeat(line, 16)
			a := newAnswer(&Response{}, 1<<30)
			var s splitter
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += 16 {
				a.resp.Chunks = a.resp.Chunks[:0]
				if err := s.feed(read, func(data []byte, fault bool) { a.event(data, fault, time.Second) }); err != nil {
					b.Fatal(err)
				}
			}
			if a.events < b.N || a.resp.Malformed > 0 {
				b.Fatalf("%d of %d events, %d malformed", a.events, b.N, a.resp.Malformed)
			}
		})
	}
}

// BenchmarkRequest192k is the cost of a request of 192k tokens: the prompt marshalled, and the body read to its end. Token ids come as
// lists that need no marshalling.
func BenchmarkRequest192k(b *testing.B) {
	var ids strings.Builder
	for i := range 192 << 10 {
		fmt.Fprintf(&ids, ",%d", i*7919%163584)
	}
	list := ids.String()[1:]
	b.Run("ids", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			drain(b, IDPrompt(list))
		}
	})
	b.Run("text", func(b *testing.B) {
		text := string(bytes.Repeat([]byte("The quick \"brown\" fox.\n"), 192<<10*5/23))
		b.ReportAllocs()
		for range b.N {
			drain(b, TextPrompt(text))
		}
	})
}

func drain(b *testing.B, p Prompt) {
	l, err := sglang{}.leg(Native, session{}, Request{Prompt: p, MaxTokens: 17, Salt: "salt"})
	if err != nil {
		b.Fatal(err)
	}
	body, size, err := l.body(p, nil)
	if err != nil {
		b.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, body); err != nil || n != size {
		b.Fatal(fmt.Errorf("%d of %d bytes: %w", n, size, err))
	}
}
