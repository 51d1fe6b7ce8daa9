package simserver

import "net/http"

type vllm struct{ *Server }

func (s vllm) routes(mux *http.ServeMux) {}
func (s vllm) problem(p *problem) any    { return nil }
func (s vllm) guarded(path string) bool  { return false }
func (s vllm) unauthorized() any         { return nil }

type llama struct{ vllm }
type openai struct{ vllm }
