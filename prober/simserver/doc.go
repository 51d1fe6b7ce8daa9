// Package simserver is an inference server whose truth is known: it obeys stated physics, speaks as SGLang, vLLM,
// llama.cpp or a plain OpenAI-compatible server would, and tells at /truth what really happened to each request.
//
// It reads the protocols on its own and shares no code with the packages that it is there to judge.
package simserver
