// Package inference speaks to inference servers: it sends one request, stamps every chunk of the answer as it arrives and
// turns the bytes into facts. It judges nothing and knows no metrics.
package inference

import "time"

// Dialect names how one kind of server is spoken to.
type Dialect string

// The dialects.
const (
	Auto     Dialect = "auto" // found by Identify
	SGLang   Dialect = "sglang"
	VLLM     Dialect = "vllm"
	LlamaCpp Dialect = "llamacpp"
	TRTLLM   Dialect = "trtllm"
	LMDeploy Dialect = "lmdeploy"
	Ollama   Dialect = "ollama"
	OpenAI   Dialect = "openai" // any server with an OpenAI-compatible API
)

// API names the endpoint family that legs are sent to.
type API string

// The endpoint families. AutoAPI picks the one that tells most: native for SGLang and LMDeploy, completions elsewhere, chat where the
// server has no completions endpoint.
const (
	AutoAPI     API = "auto"
	Completions API = "completions"
	Chat        API = "chat"
	Native      API = "native" // SGLang's and LMDeploy's /generate
)

// Facts are what a server says of itself. A zero field is not known.
type Facts struct {
	Dialect       Dialect
	API           API // the endpoint family that Complete uses, never AutoAPI
	ServerVersion string
	Models        []string // every served model
	Model         string   // the one that requests name
	ContextLimit  int      // tokens, prompt plus output
	MaxPrompt     int      // tokens; the longest prompt where the server has a lower bound of its own
	KVPoolTokens  int      // KV cache capacity of one replica
	PageSize      int      // tokens; granularity of the prefix cache
	Speculation   string   // algorithm as the server names it, "none" where it says that there is none
	BlockSize     int      // largest number of tokens that one step can commit; 1 without speculation
	Replicas      int      // data-parallel ranks behind the URL
	StreamEvery   int      // steps that the server gathers into one chunk (stream interval)
	PrefixCache   string   // "on", "off", "" unknown
	Attention     string   // attention backend as the server names it
	Settings      Settings // how it was started; empty where it does not tell
	Started       float64  // Unix seconds at which it says that it was started
	TokenIDs      bool     // prompts may be lists of token ids
	Tokenizer     bool     // the server has a tokenize endpoint
}

// Request is one leg.
type Request struct {
	Prompt    Prompt
	MaxTokens int
	// Salt separates prefix-cache namespaces where the server offers that; legs that must share a cached prefix share it.
	Salt string
	// Progress, where set, is called after each read that brought a token, with the number of content chunks so far.
	Progress func(chunks int)
}

// Response is what came back on one leg. Durations are monotonic and run from just before the first request byte on a
// ready connection. Pointers are nil where the server did not tell: unknown is never 0.
type Response struct {
	HTTPStatus int
	Streamed   bool
	Connect    time.Duration // dial and TLS, not part of any other duration
	Headers    time.Duration // response head
	TTFT       time.Duration // first evidence of a token; 0 where none was stamped (answers that are not streamed)
	LastToken  time.Duration // last evidence of a token; the whole body where it is not streamed
	Total      time.Duration // end of the body
	Chunks     []Chunk       // chunks that brought a token, in order
	Reads      int           // distinct reads among Chunks: 1 means that everything came at once
	Text       string        // generated text of all channels, capped at 64 KiB

	PromptTokens     *int
	CompletionTokens *int
	CachedTokens     *int
	FinishReason     string // "length", "stop", "abort", …, "" unknown
	Done             bool   // [DONE] seen
	Malformed        int    // events that were not JSON
	Retried          bool   // a gateway tried more than once: no duration is that of one request; comes with an Error
	Encoded          bool   // the body came compressed though identity was asked for: stamps mean nothing

	Spec    *Spec         // speculation facts of the whole request, as the best source in the response tells them
	Clash   string        // how two counts of speculation in the response contradict each other, "" where they do not
	Queued  time.Duration // queue wait as the server tells it
	Prefill time.Duration // prefill time as the server tells it
	Replica string        // data-parallel rank, or whatever names the replica that answered
}

// Chunk is one event that brought at least one token.
type Chunk struct {
	At     time.Duration // when the read that completed it returned
	Tokens int           // tokens that it brought, 0 where the server does not tell
}

// Spec are the speculation facts of one request.
type Spec struct {
	Steps     int   // verify passes
	Drafts    int   // correct drafts over all passes, bonus tokens left out, not truncated at max_tokens; -1 where not told
	Histogram []int // [i] counts passes that committed exactly i+1 tokens; nil where not told
	Block     int   // largest number of tokens that one pass can commit; 0 where not told
	Source    string
	AtLeast   bool // Steps is derived from tokens: too low by what a last pass may have accepted beyond max_tokens
}

// Class is the closed set of failures: the server did not answer the question.
type Class string

// The failure classes.
const (
	Connect         Class = "connect"
	Timeout         Class = "timeout"
	ConnReset       Class = "conn_reset"
	TLS             Class = "tls"
	Auth            Class = "auth"
	ModelNotFound   Class = "model_not_found"
	BadRequest      Class = "bad_request"
	ContextOverflow Class = "context_overflow"
	Truncated       Class = "truncated"
	Overloaded      Class = "overloaded"
	RateLimited     Class = "rate_limited"
	Loading         Class = "loading"
	GatewayTimeout  Class = "gateway_timeout"
	GatewayError    Class = "gateway_error"
	ServerError     Class = "server_error"
	Protocol        Class = "protocol"
	StreamTruncated Class = "stream_truncated"
	StreamError     Class = "stream_error"
	Aborted         Class = "aborted"
)

// Classes lists every failure class, in the order of the documentation.
func Classes() []Class {
	return []Class{
		Connect, Timeout, ConnReset, TLS, Auth, ModelNotFound, BadRequest, ContextOverflow, Truncated, Overloaded,
		RateLimited, Loading, GatewayTimeout, GatewayError, ServerError, Protocol, StreamTruncated, StreamError, Aborted,
	}
}

// Error is a failed request.
type Error struct {
	Class   Class
	Status  int    // HTTP status, 0 where no head came
	Message string // one bounded sentence for people, free of secrets; never a label
	Limit   int    // tokens; the limit that a context_overflow names, 0 where it names none
	Err     error  // the cause, where there is one
}

func (e *Error) Error() string { return string(e.Class) + ": " + e.Message }

func (e *Error) Unwrap() error { return e.Err }
