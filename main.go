// Command longctx_exporter measures long-context inference servers and exports what it finds to Prometheus.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
	_ "time/tzdata" // quiet hours have time zones, which images without a system lack

	"github.com/alecthomas/kingpin/v2"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/promslog"
	promslogflag "github.com/prometheus/common/promslog/flag"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"
	sloggokit "github.com/tjhop/slog-gokit"

	"longctx_exporter/collector/serverlog"
	"longctx_exporter/prober"
)

const program = "longctx_exporter"

// errQuiet is a failure that has been told already; its number is the exit code.
type errQuiet int

func (e errQuiet) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program, until it ends by itself, by ctx or by SIGINT or SIGTERM. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := command(ctx, args, stdout, stderr)
	if quiet := errQuiet(0); errors.As(err, &quiet) {
		return int(quiet)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %s\n", program, err)
		return 1
	}
	return 0
}

// command parses the command line and does what it says.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	app := kingpin.New(program, "Measures prefill and decode of long-context inference servers, rung by rung, for Prometheus.")
	app.UsageWriter(stdout).ErrorWriter(stderr)
	app.HelpFlag.Short('h')
	app.Version(version.Print(program))
	ended := false // by --help or --version
	app.Terminate(func(int) { ended = true })

	logging := &promslog.Config{}
	promslogflag.AddFlags(app, logging)
	var file configFile
	app.Flag("config.file", "Configuration file.").Default("longctx.yml").IsSetByUser(&file.set).StringVar(&file.path)

	serve := newServeCommand(app, &file)
	check := app.Command("check", "Check the configuration and exit.")
	sweep := newSweepCommand(app, &file)
	simulate := newSimulateCommand(app)
	baseline := newBaselineCommand(app)

	name, err := app.Parse(joinArgs(args))
	if ended {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w; %s --help lists commands and flags", err, program)
	}
	logger, lib := newLogger(logging, stderr)
	if baseline.named(name) {
		return baseline.run(ctx, name, stdout)
	}
	switch name {
	case check.FullCommand():
		return file.check(stdout, stderr, "")
	case sweep.clause.FullCommand():
		return sweep.run(ctx, stdout, stderr, logger)
	case simulate.clause.FullCommand():
		return simulate.run(ctx, stdout, logger)
	}
	return serve.run(ctx, stdout, stderr, logger, lib)
}

// newLogger makes the program's logger and the one that it lends to libraries.
func newLogger(c *promslog.Config, w io.Writer) (log.Logger, *slog.Logger) {
	base := log.NewLogfmtLogger(log.NewSyncWriter(w))
	if c.Format.String() == "json" {
		base = log.NewJSONLogger(log.NewSyncWriter(w))
	}
	base = level.NewFilter(base, level.Allow(level.ParseDefault(c.Level.String(), level.InfoValue())))
	now := log.TimestampFormat(func() time.Time { return time.Now().UTC() }, "2006-01-02T15:04:05.000Z07:00")
	// The bridge stamps its records itself; the program's ts and caller would double those.
	lib := slog.New(sloggokit.NewGoKitHandler(libraryRecords(base), c.Level))
	return log.With(base, "ts", now, "caller", log.DefaultCaller), lib
}

// libraryRecords makes records that come over the bridge look like the program's own: the time is called ts, and values
// keep their types.
func libraryRecords(next log.Logger) log.Logger {
	return log.LoggerFunc(func(keyvals ...any) error {
		record := make([]any, len(keyvals))
		for i, kv := range keyvals {
			if v, ok := kv.(slog.Value); ok {
				kv = v.Any()
			}
			if i%2 == 0 && kv == "time" {
				kv = "ts"
			}
			if at, ok := kv.(time.Time); ok {
				kv = at.UTC().Format("2006-01-02T15:04:05.000Z07:00")
			}
			record[i] = kv
		}
		return next.Log(record...)
	})
}

// configFile is the configuration file as the command line names it.
type configFile struct {
	path string
	set  bool // by the user
}

func (f configFile) load() (prober.ValidatedConfig, error) {
	c, err := prober.LoadConfig(f.path)
	if !f.set && errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no %s here: name a file with --config.file, or see `%s serve --demo`", f.path, program)
	}
	if err != nil {
		return prober.ValidatedConfig{}, err
	}
	return f.validate(c)
}

func (f configFile) validate(c *prober.Config) (prober.ValidatedConfig, error) {
	v, err := c.Validate()
	if err != nil {
		return v, fmt.Errorf("%s: %w", f.path, err)
	}
	return v, nil
}

// check tells whether the configuration, and that of the web server where there is one, are fit for use.
func (f configFile) check(stdout, stderr io.Writer, webConfig string) error {
	v, err := f.load()
	if err != nil {
		return err
	}
	if err := web.Validate(webConfig); err != nil {
		return fmt.Errorf("%s: %w", webConfig, err)
	}
	for _, warning := range v.Warnings() {
		fmt.Fprintf(stderr, "%s: warning: %s\n", f.path, warning)
	}
	rungs := 0
	for _, t := range v.Targets() {
		rungs += len(t.Ladder)
		for _, name := range credentialFiles(t.HTTP) {
			if _, err := os.Stat(name); err != nil {
				fmt.Fprintf(stderr, "%s: warning: target %q cannot log in: %v\n", f.path, t.Name, err)
			}
		}
		for i, l := range t.Logs {
			if l.Unit != "" {
				continue
			}
			if err := serverlog.Readable(l.Path); err != nil {
				fmt.Fprintf(stderr, "%s: warning: target %q cannot read logs[%d]: %v; correct its path, or let the exporter's user read it\n", f.path, t.Name, i, err)
			}
		}
	}
	fmt.Fprintf(stdout, "%s is valid: targets: %d, rungs: %d\n", f.path, len(v.Targets()), rungs)
	return nil
}

// credentialFiles are the files that a client needs besides the configuration.
func credentialFiles(c config.HTTPClientConfig) []string {
	names := []string{c.TLSConfig.CAFile, c.TLSConfig.CertFile, c.TLSConfig.KeyFile, c.BearerTokenFile}
	if c.Authorization != nil {
		names = append(names, c.Authorization.CredentialsFile)
	}
	if c.BasicAuth != nil {
		names = append(names, c.BasicAuth.UsernameFile, c.BasicAuth.PasswordFile)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// programVersion is the version as it was built in, or "devel".
func programVersion() string { return cmp.Or(version.Version, "devel") }
