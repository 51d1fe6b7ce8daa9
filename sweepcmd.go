package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kingpin/v2"
	"github.com/go-kit/log"
	"github.com/prometheus/common/config"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/sweep"
)

// sweepCommand is one pass over a ladder.
type sweepCommand struct {
	clause *kingpin.CmdClause
	file   *configFile

	url, host, port, model, replica  string
	target                           string // of the configuration file
	ladder                           string
	contexts                         []string // the ladder as the old script took it
	decodeTokens, precision, timeout string
	plan, api, dialect               string
	credentials                      string // file
	output, outputFile               string
	resume                           bool
}

func newSweepCommand(app *kingpin.Application, file *configFile) *sweepCommand {
	c := &sweepCommand{file: file}
	c.clause = app.Command("sweep", "Measure each rung of a ladder once, print the result and exit.")
	text := func(name, help string, into *string) { c.clause.Flag(name, help).StringVar(into) }
	text("url", "Base URL of the server, like http://host:30000.", &c.url)
	text("host", "Host of the server, in place of --url.", &c.host)
	text("port", "Port of the server, with --host.", &c.port)
	text("model", "Served model; the first that the server lists if not given.", &c.model)
	text("target", "Name of a target in --config.file, in place of --url.", &c.target)
	text("ladder", "Context lengths, like 1k,8k,64k; 1k to 192k if not given.", &c.ladder)
	c.clause.Flag("ctx", "Context lengths, like --ctx 64 1024 3072, in place of --ladder.").StringsVar(&c.contexts)
	text("plan", "How a rung is measured: auto, pair or triple.", &c.plan)
	text("decode-tokens", "Tokens that the long request decodes beyond the short one: auto, 32 or {default: 16, 128k: 8}.", &c.decodeTokens)
	text("precision", "Wanted relative standard error of the step time, like 3%.", &c.precision)
	text("timeout", "Longest time for one request: auto, or like 90s.", &c.timeout)
	text("api", "Endpoint family: auto, completions, chat or native.", &c.api)
	text("dialect", "How the server is spoken to: auto, sglang, vllm, llamacpp, trtllm, lmdeploy, ollama or openai.", &c.dialect)
	text("replica", "Data-parallel rank, slot or sticky key to pin.", &c.replica)
	text("http.credentials-file", "File with the server's API key.", &c.credentials)
	text("output", "Form of the result: "+strings.Join(sweep.Outputs(), ", ")+".", &c.output)
	text("output-file", "File that keeps each finished rung at once, as JSON.", &c.outputFile)
	c.clause.Flag("resume", "Go on from --output-file.").BoolVar(&c.resume)
	return c
}

func (c *sweepCommand) run(ctx context.Context, stdout, stderr io.Writer, logger log.Logger) error {
	target, err := c.targetOf()
	if err != nil {
		return err
	}
	code := sweep.Run(ctx, sweep.Options{
		Target: target, LoadReader: servermetrics.New, Output: c.output, OutputFile: c.outputFile, Resume: c.resume,
		Stdout: stdout, Stderr: stderr, Terminal: isTerminal(stderr), Version: programVersion(), Logger: logger,
	})
	if code != 0 {
		return errQuiet(code)
	}
	return nil
}

// targetOf makes the target out of the flags, on top of the configuration file's where one is named.
func (c *sweepCommand) targetOf() (prober.Target, error) {
	if c.target == "" && !c.file.set {
		var t prober.TargetConfig
		if err := c.apply(&t); err != nil {
			return prober.Target{}, err
		}
		if t.URL == "" {
			return prober.Target{}, errors.New("no server is named: give --url=http://host:30000, or --config.file and --target")
		}
		return t.Target()
	}
	if c.url != "" || c.host != "" || c.port != "" {
		return prober.Target{}, errors.New( // its credentials are for its own server
			"--url and --host name a server, --config.file and --target another; give one")
	}
	conf, err := prober.LoadConfig(c.file.path)
	if err != nil {
		return prober.Target{}, err
	}
	i, err := c.pick(conf)
	if err != nil {
		return prober.Target{}, err
	}
	if conf.Targets[i].AllowEviction == nil {
		conf.Targets[i].AllowEviction = conf.AllowEviction
	}
	if err := c.apply(&conf.Targets[i]); err != nil {
		return prober.Target{}, err
	}
	v, err := c.file.validate(conf)
	if err != nil {
		return prober.Target{}, err
	}
	return v.Targets()[i], nil
}

// pick finds --target in the configuration; a single target needs no name.
func (c *sweepCommand) pick(conf *prober.Config) (int, error) {
	var names []string
	for _, t := range conf.Targets {
		names = append(names, t.Name)
	}
	if len(names) == 1 && c.target == "" {
		return 0, nil
	}
	if len(names) == 0 {
		_, err := c.file.validate(conf)
		return 0, err
	}
	if c.target == "" {
		return 0, fmt.Errorf("%s has several targets; choose with --target: %s", c.file.path, strings.Join(names, ", "))
	}
	if i := slices.Index(names, c.target); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%s has no target %q; it has %s", c.file.path, c.target, strings.Join(names, ", "))
}

// apply lays the flags over a target.
func (c *sweepCommand) apply(t *prober.TargetConfig) error {
	if c.host != "" || c.port != "" {
		if c.url != "" {
			return errors.New("--url and --host say the same; give one")
		}
		c.url = "http://" + net.JoinHostPort(cmp.Or(c.host, "localhost"), cmp.Or(c.port, "30000"))
	}
	t.URL = cmp.Or(c.url, t.URL)
	allowed := true // whoever starts a sweep by hand does not want to wait for room
	t.AllowEviction = cmp.Or(t.AllowEviction, &allowed)
	t.Model = cmp.Or(c.model, t.Model)
	t.Replica = cmp.Or(c.replica, t.Replica)
	t.Plan = cmp.Or(prober.Plan(c.plan), t.Plan)
	t.API = cmp.Or(inference.API(c.api), t.API)
	t.Dialect = cmp.Or(inference.Dialect(c.dialect), t.Dialect)
	if c.credentials != "" {
		if _, err := os.Stat(c.credentials); err != nil {
			return fmt.Errorf("--http.credentials-file: %w", err)
		}
		h := prober.HTTPConfig(config.DefaultHTTPClientConfig)
		if t.HTTP != nil {
			h = *t.HTTP
		}
		h.Authorization = &config.Authorization{Type: "Bearer", CredentialsFile: c.credentials}
		t.HTTP = &h
	}
	flag, ladder := "--ladder", c.ladder
	if len(c.contexts) > 0 {
		if ladder != "" {
			return errors.New("--ladder and --ctx say the same; give one")
		}
		flag, ladder = "--ctx", strings.Join(c.contexts, ",")
	}
	return cmp.Or(
		set(flag, ladder, &t.Ladder, prober.ParseLadder),
		set("--decode-tokens", c.decodeTokens, &t.DecodeTokens, prober.ParseDecodeTokens),
		set("--precision", c.precision, &t.Precision, prober.ParseShare),
		set("--timeout", c.timeout, &t.Timeout, prober.ParseTimeout),
	)
}

// set parses a flag that was given.
func set[T any](flag, text string, into *T, parse func(string) (T, error)) error {
	if text == "" {
		return nil
	}
	v, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	*into = v
	return nil
}

var negative = regexp.MustCompile(`^-\d`)

// joinArgs rewrites what the flag parser does not take: the old script's `--ctx 64 1024` becomes `--ctx=64 --ctx=1024`, and
// a negative number stays the value of the flag before it rather than becoming a flag, so that the error is about the number.
func joinArgs(args []string) []string {
	var joined []string
	inList := false
	for i, arg := range args {
		isFlag := strings.HasPrefix(arg, "-") && !negative.MatchString(arg)
		switch {
		case inList && !isFlag:
			joined = append(joined, "--ctx="+arg)
		case negative.MatchString(arg) && i > 0 && strings.HasPrefix(args[i-1], "--") && !strings.Contains(args[i-1], "="):
			joined[len(joined)-1] += "=" + arg
		case arg == "--ctx" && i+1 < len(args) && !strings.HasPrefix(args[i+1], "--"):
			inList = true
		default:
			joined = append(joined, arg)
			inList = strings.HasPrefix(arg, "--ctx=")
		}
	}
	return joined
}

// isTerminal tells whether a person may watch what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
