package simserver

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// The shapes.
const (
	shapeSGLang   = "sglang"
	shapeVLLM     = "vllm"
	shapeLlama    = "llamacpp"
	shapeTRTLLM   = "trtllm"
	shapeLMDeploy = "lmdeploy"
	shapeOllama   = "ollama"
	shapeOpenAI   = "openai"
)

func shapes() []string {
	return []string{shapeSGLang, shapeVLLM, shapeLlama, shapeTRTLLM, shapeLMDeploy, shapeOllama, shapeOpenAI}
}

// Config is what a simulated server is made of.
type Config struct {
	Era        string       // version of the shape, one of Eras; "" the newest
	Shape      string       // "sglang", "vllm", "llamacpp", "trtllm", "lmdeploy", "ollama" or "openai": which server it looks like
	Profile    Profile      // physics
	TimeScale  float64      // 100: everything takes a hundredth of the time; 0 means 1
	Seed       uint64       // of all randomness
	APIKey     string       // that clients must send; "" none
	Options    Options      // how the server was started
	Faults     Faults       // zero is clean
	Ranks      Ranks        // zero is one engine
	Background Background   // other people's requests
	Traffic    []Background // more kinds of them

	Log     io.Writer // takes what the server logs, line by line; nil nothing. A slow one slows the server.
	LogWrap string    // how its lines are wrapped, one of LogWraps; "" not at all

	Deploys []Deploy // restarts to come
	Control bool     // serve POST /sim/physics and POST /sim/deploy
}

// Options are command-line options of the real servers that change what an answer tells.
type Options struct {
	CacheReport    bool // cached tokens in usage: SGLang's --enable-cache-report, vLLM's --enable-prompt-tokens-details
	SpecMetrics    bool // speculation facts on the OpenAI surface: new SGLang, vLLM's --per-request-spec-decode-metrics
	NoMetrics      bool // no /metrics page
	NoTokenizer    bool // no tokenize endpoint, as in older versions
	FlatNames      bool // metrics under sglang_ instead of sglang:, as gateways and pipelines re-export them
	StreamInterval int  // tokens between SGLang's chunks; 0 means 1

	LogRequests  string // SGLang's --log-requests: "text", "json" or "" for not
	LogTimeStats bool   // SGLang's --enable-request-time-stats-logging
}

// prepare fills in defaults and what a shape brings with it, and checks the rest.
func (c *Config) prepare() error {
	if !slices.Contains(shapes(), c.Shape) {
		return fmt.Errorf("shape %q is not one of %s", c.Shape, strings.Join(shapes(), ", "))
	}
	if c.TimeScale == 0 {
		c.TimeScale = 1
	}
	if !(c.TimeScale > 0 && c.TimeScale <= 1e6) {
		return errors.New("the time scale must be above 0 and at most a million")
	}
	if c.Profile.Name == "" {
		c.Profile, _ = ProfileByName("")
	}
	switch c.Shape {
	case shapeVLLM:
		c.Profile.PageSize = max(c.Profile.PageSize, 16)
	case shapeTRTLLM:
		c.Profile.PageSize = max(c.Profile.PageSize, 32)
	case shapeLlama, shapeOllama:
		c.Profile.MaxRunning, c.Profile.PageSize, c.Profile.BOS = 1, 1, 1
	}
	if c.Options.StreamInterval < 1 {
		c.Options.StreamInterval = 1
	}
	if err := c.checkRanks(); err != nil {
		return err
	}
	if err := c.checkLog(); err != nil {
		return err
	}
	if err := c.Faults.validate(); err != nil {
		return err
	}
	for _, load := range append([]Background{c.Background}, c.Traffic...) {
		if err := load.validate(c.Profile.ContextLimit); err != nil {
			return err
		}
	}
	return c.Profile.validate()
}

func (c *Config) checkLog() error {
	if c.LogWrap != "" && !slices.Contains(LogWraps(), c.LogWrap) {
		return fmt.Errorf("lines of a log are not wrapped as %q; there are %s", c.LogWrap, strings.Join(LogWraps(), ", "))
	}
	v, err := findEra(c.Shape, c.Era)
	switch format := c.Options.LogRequests; {
	case err != nil || format == "" || format == "text":
		return err
	case format != "json":
		return fmt.Errorf("requests are logged as text or json, not as %q", format)
	case c.Shape == shapeSGLang && !v.has(logRequestsJSON):
		return fmt.Errorf("%s %s logs requests as text only", c.Shape, v.name)
	}
	return nil
}
