package prober

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// maxRungs bounds a ladder, and with it the number of series; longestRung a prompt, which is built in memory, in tokens.
const (
	maxRungs    = 24
	longestRung = 16 << 20
)

// Ladder is a list of context lengths in tokens, each like `8k` (8192), `1.5k` or `5500`, up to 16384k.
type Ladder []Rung

// ParseLadder reads a comma-separated list such as `1k,8k,5500`.
func ParseLadder(s string) (Ladder, error) {
	var entries []string
	for entry := range strings.SplitSeq(s, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			entries = append(entries, entry)
		}
	}
	return newLadder(entries)
}

func newLadder(entries []string) (Ladder, error) {
	if len(entries) == 0 {
		return nil, errors.New("the ladder is empty: list at least one context length, like [1k, 8k]")
	}
	if len(entries) > maxRungs {
		return nil, fmt.Errorf("the ladder has %d context lengths, more than %d", len(entries), maxRungs)
	}
	var ladder Ladder
	for _, entry := range entries {
		rung, err := ParseRung(entry)
		if err != nil {
			return nil, err
		}
		if rung > longestRung {
			return nil, fmt.Errorf("context length %q is longer than %s tokens", entry, Rung(longestRung))
		}
		if slices.Contains(ladder, rung) {
			return nil, fmt.Errorf("context length %s is twice in the ladder", rung)
		}
		ladder = append(ladder, rung)
	}
	slices.Sort(ladder)
	return ladder, nil
}

// UnmarshalYAML reads a list of context lengths.
func (l *Ladder) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.SequenceNode {
		return atLine(node, errors.New("the ladder is not a list like [1k, 8k]"))
	}
	entries := make([]string, len(node.Content))
	for i, entry := range node.Content {
		entries[i] = scalar(entry)
	}
	ladder, err := newLadder(entries)
	if err != nil {
		return atLine(node, err)
	}
	*l = ladder
	return nil
}

// MarshalYAML writes the lengths as they are usually written.
func (l Ladder) MarshalYAML() (any, error) {
	node := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, rung := range l {
		node.Content = append(node.Content, scalarNode(rung.String()))
	}
	return node, nil
}

// Share is a part of a whole above 0 and up to 1, like `2%` or `0.02`.
type Share float64

// ParseShare reads `2%` or `0.02`.
func ParseShare(s string) (Share, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f > 0 && f <= 1) {
		return 0, fmt.Errorf("%q is not a share like 2%%, above 0 and up to 100%%", s)
	}
	return Share(f), nil
}

// UnmarshalYAML reads `2%` or `0.02`.
func (s *Share) UnmarshalYAML(node *yaml.Node) error { return parseScalar(node, s, ParseShare) }

// MarshalYAML writes `2%`.
func (s Share) MarshalYAML() (any, error) {
	return strconv.FormatFloat(math.Round(float64(s)*1e8)/1e6, 'f', -1, 64) + "%", nil
}

// Tokens is a number of tokens from 1 up, or `auto`.
//
// Zero is auto.
type Tokens int

func parseTokens(s string) (Tokens, error) {
	if s == "auto" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 1<<20 {
		return 0, fmt.Errorf("decode_tokens %q is neither auto nor a number from 1 up", s)
	}
	return Tokens(n), nil
}

// UnmarshalYAML reads `auto` or a number from 1 up.
func (t *Tokens) UnmarshalYAML(node *yaml.Node) error { return parseScalar(node, t, parseTokens) }

// MarshalYAML writes `auto` for 0.
func (t Tokens) MarshalYAML() (any, error) {
	if t == 0 {
		return "auto", nil
	}
	return int(t), nil
}

// Length is a number of tokens, written like `128k` or `131072`.
type Length int

func parseLength(s string) (Length, error) {
	r, err := ParseRung(s)
	return Length(r), err
}

// UnmarshalYAML reads `128k` or `131072`.
func (l *Length) UnmarshalYAML(node *yaml.Node) error { return parseScalar(node, l, parseLength) }

// MarshalYAML writes what it was read from, or the same in another way.
func (l Length) MarshalYAML() (any, error) { return Rung(l).String(), nil }

// Duration is a time above 0 with its unit, like `500ms`, `1.5s`, `5m`, `1h30m` or `1d`.
type Duration time.Duration

func parseDuration(s string) (Duration, error) {
	if d, err := model.ParseDuration(s); err == nil && d > 0 {
		return Duration(d), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not a time above 0, like 90s, 5m or 1h", s)
	}
	return Duration(d), nil
}

// UnmarshalYAML reads a time above 0.
func (d *Duration) UnmarshalYAML(node *yaml.Node) error { return parseScalar(node, d, parseDuration) }

// MarshalYAML writes `5m` rather than `5m0s`.
func (d Duration) MarshalYAML() (any, error) {
	if time.Duration(d)%time.Millisecond == 0 {
		return model.Duration(d).String(), nil
	}
	return time.Duration(d).String(), nil
}

// Interval is a time from 1s up with its unit, like `90s`, `5m` or `1h`.
type Interval time.Duration

func parseInterval(s string) (Interval, error) {
	d, err := parseDuration(s)
	if err == nil && time.Duration(d) < time.Second {
		err = fmt.Errorf("interval %q is shorter than 1s", s)
	}
	return Interval(d), err
}

// UnmarshalYAML reads a time from one second up.
func (i *Interval) UnmarshalYAML(node *yaml.Node) error { return parseScalar(node, i, parseInterval) }

// MarshalYAML writes `5m` rather than `5m0s`.
func (i Interval) MarshalYAML() (any, error) { return Duration(i).MarshalYAML() }

// Timeout is a time above 0 with its unit, like `90s`, or `auto`.
//
// Zero is auto.
type Timeout time.Duration

// ParseTimeout reads `auto` or a time above 0.
func ParseTimeout(s string) (Timeout, error) {
	if s == "auto" {
		return 0, nil
	}
	d, err := parseDuration(s)
	return Timeout(d), err
}

// UnmarshalYAML reads `auto` or a time above 0.
func (t *Timeout) UnmarshalYAML(node *yaml.Node) error { return parseScalar(node, t, ParseTimeout) }

// MarshalYAML writes `auto` for 0.
func (t Timeout) MarshalYAML() (any, error) {
	if t == 0 {
		return "auto", nil
	}
	return Duration(t).MarshalYAML()
}

// Weight is a part, relative to others, from 0.01 to 100.
type Weight float64

func parseWeight(s string) (Weight, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0.01 && f <= 100) {
		return 0, fmt.Errorf("weight %q is not a number from 0.01 to 100", s)
	}
	return Weight(f), nil
}

// UnmarshalYAML reads a number from 0.01 to 100.
func (w *Weight) UnmarshalYAML(node *yaml.Node) error { return parseScalar(node, w, parseWeight) }

// RungValues is one value for all rungs, or a mapping from `default` and single rungs to values. A rung that finds
// neither takes its value from the next outer level: the top of the file, then the built-in default.
type RungValues[T Tokens | Interval | Duration | Weight] struct {
	Default *T
	Rungs   map[Rung]T
}

// ParseDecodeTokens reads `auto`, a number, or a mapping such as `{default: 16, 128k: 8}`.
func ParseDecodeTokens(s string) (RungValues[Tokens], error) {
	var v RungValues[Tokens]
	if err := yaml.Unmarshal([]byte(s), &v); err != nil {
		_, message, _ := strings.Cut(plainYAMLError(err).Error(), ": ")
		return v, errors.New(message)
	}
	if v.IsZero() {
		return v, errors.New("decode_tokens is empty")
	}
	return v, nil
}

// IsZero tells that nothing is set at this level.
func (v RungValues[T]) IsZero() bool { return v.Default == nil && len(v.Rungs) == 0 }

// UnmarshalYAML reads a value or a mapping.
func (v *RungValues[T]) UnmarshalYAML(node *yaml.Node) error {
	*v = RungValues[T]{}
	if node.Kind != yaml.MappingNode {
		v.Default = new(T)
		return node.Decode(v.Default)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := scalar(node.Content[i]), node.Content[i+1]
		if value.ShortTag() == "!!null" {
			return atLine(value, fmt.Errorf("%q has no value", key))
		}
		var t T
		if err := value.Decode(&t); err != nil {
			return err
		}
		if key == "default" {
			if v.Default != nil {
				return atLine(node.Content[i], errors.New(`"default" is there twice`))
			}
			v.Default = &t
			continue
		}
		rung, err := ParseRung(key)
		if err != nil {
			return atLine(node.Content[i], err)
		}
		if _, again := v.Rungs[rung]; again {
			return atLine(node.Content[i], fmt.Errorf("context length %s is there twice", rung))
		}
		if v.Rungs == nil {
			v.Rungs = map[Rung]T{}
		}
		v.Rungs[rung] = t
	}
	return nil
}

// valueFor looks a rung up from the innermost level outwards.
func valueFor[T Tokens | Interval | Duration | Weight](r Rung, levels ...RungValues[T]) (T, bool) {
	for _, level := range levels {
		if v, ok := level.Rungs[r]; ok {
			return v, true
		}
		if level.Default != nil {
			return *level.Default, true
		}
	}
	return 0, false
}

// MarshalYAML writes a single value plainly.
func (v RungValues[T]) MarshalYAML() (any, error) {
	if len(v.Rungs) == 0 {
		return v.Default, nil
	}
	node := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	add := func(key string, value T) error {
		n := &yaml.Node{}
		if err := n.Encode(value); err != nil {
			return err
		}
		node.Content = append(node.Content, scalarNode(key), n)
		return nil
	}
	if v.Default != nil {
		if err := add("default", *v.Default); err != nil {
			return nil, err
		}
	}
	for _, rung := range slices.Sorted(maps.Keys(v.Rungs)) {
		if err := add(rung.String(), v.Rungs[rung]); err != nil {
			return nil, err
		}
	}
	return node, nil
}

// HTTPConfig is how an HTTP client connects and logs in, in the words of Prometheus. Files are read again when they change; one
// of basic_auth, authorization and oauth2 at most.
type HTTPConfig config.HTTPClientConfig

// UnmarshalYAML starts from the defaults of the library. It checks nothing: Validate does, which can name the place.
func (h *HTTPConfig) UnmarshalYAML(unmarshal func(any) error) error {
	*h = HTTPConfig(config.DefaultHTTPClientConfig)
	type plain HTTPConfig
	err := unmarshal((*plain)(h))
	if typed := (*yaml.TypeError)(nil); err == nil || errors.As(err, &typed) {
		return err
	}
	if parse := (*url.Error)(nil); errors.As(err, &parse) {
		err = errors.New("a URL in it does not parse") // url.Error quotes the URL, which may hold a password
	}
	return fmt.Errorf("http: %w", err)
}

// MarshalYAML hides also what the library shows: the values of headers and what is sent to a token endpoint may be secrets.
func (h HTTPConfig) MarshalYAML() (any, error) {
	type plain HTTPConfig
	shown := plain(h)
	if h.HTTPHeaders != nil {
		shown.HTTPHeaders = &config.Headers{Headers: map[string]config.Header{}}
		for name, header := range h.HTTPHeaders.Headers {
			header.Values = hidden(header.Values)
			shown.HTTPHeaders.Headers[name] = header
		}
	}
	if h.OAuth2 != nil {
		o := *h.OAuth2
		o.EndpointParams = maps.Clone(o.EndpointParams)
		for name := range o.EndpointParams {
			o.EndpointParams[name] = secretToken
		}
		o.TokenURL = publicURL(o.TokenURL)
		shown.OAuth2 = &o
	}
	return shown, nil
}

// secretToken stands for a secret, as the library has it.
const secretToken = "<secret>"

// publicURL is a URL without what may log somebody in: password and query.
func publicURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return secretToken
	}
	if u.RawQuery != "" {
		u.RawQuery = "xxxxx"
	}
	return u.Redacted()
}

func hidden(values []string) []string { return slices.Repeat([]string{secretToken}, len(values)) }

// client gives the checked configuration, or the library's default where none is given.
func (h *HTTPConfig) client() (config.HTTPClientConfig, error) {
	c := config.DefaultHTTPClientConfig
	if h != nil {
		c = config.HTTPClientConfig(*h)
	}
	return c, c.Validate()
}

// parseScalar decodes a scalar by parse; an error names the line.
func parseScalar[T any](node *yaml.Node, into *T, parse func(string) (T, error)) error {
	if node.Kind != yaml.ScalarNode {
		return atLine(node, errors.New("a single value is wanted here"))
	}
	v, err := parse(node.Value)
	if err != nil {
		return atLine(node, err)
	}
	*into = v
	return nil
}

// atLine makes an error that the decoder reports in the order of the file.
func atLine(node *yaml.Node, err error) error {
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %s", node.Line, err)}}
}

func scalar(node *yaml.Node) string { return cmp.Or(node.Alias, node).Value }

func scalarNode(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: value}
}
