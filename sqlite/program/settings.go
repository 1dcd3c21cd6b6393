package program

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/footprint"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/sqlite/agent"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	programstatus "github.com/holdfastdb/holdfast/sqlite/program/status"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/walmode"
)

// settings are the flags of `run` and `replicate`.
type settings struct {
	replica, ack, ackTimeout, interval, maxUnstored, requests, levels, snapshot, retention, l0, shutdown, socket, wal, metrics *string
	quiet, requireExtension, singleWriter                                                                                      *bool
}

func addSettings(l *cli.FlagList) *settings {
	return &settings{
		replica:          l.Text("replica", "URL", "", "where the database is kept: s3://bucket/prefix or file:///dir; with several databases each is below it, by its file's name"),
		ack:              l.Text("ack", "LEVEL", "archive", "what a commit waits for in programs with the extension: `archive`, the bucket, or `local`, nothing"),
		ackTimeout:       l.Text("ack-timeout", "TIME", "30s", "after which a commit that is not stored is an error, and writes are refused until everything is"),
		interval:         l.Text("interval", "TIME", "1s", "how often commits are stored that nobody waits for, and databases are looked at that no program with the extension has open"),
		maxUnstored:      l.Text("max-unstored", "SIZE", "64MiB", "of a WAL that the bucket does not take; with `local` it is let go of then"),
		requests:         l.Text("requests", "N", "20000000", "requests a month, for all databases; commits are gathered longer when they run out"),
		levels:           l.Text("levels", "LIST", "30s,5m,1h", "how often files of the levels from 1 on are made; `off` for none"),
		snapshot:         l.Text("snapshot", "TIME", "24h", "how often the whole database is stored"),
		retention:        l.Text("retention", "TIME", "24h", "for how long earlier states can be restored"),
		l0:               l.Text("l0-retention", "TIME", "5m", "for how long every group of commits can be restored by itself"),
		shutdown:         l.Text("shutdown-timeout", "TIME", "8s", "how long storing the rest may take when it ends"),
		socket:           l.Text("socket", "PATH", "", "where programs with the extension reach it (default: one for these databases in the directory for temporary files)"),
		wal:              l.Text("wal", "WHEN", "switch", "what becomes of a database in another journal mode: `switch`, to WAL mode, when it is taken over and nobody uses it, or `never`; then it is not kept"),
		requireExtension: l.Toggle("require-extension", "with archive: end, with status 1, within --interval of a commit by a program that has not loaded the extension; `run` ends its command first"),
		singleWriter:     l.Toggle("single-writer", "no other agent ever has this replica: the store need not keep to If-None-Match, and an agent that begins elsewhere is not fenced"),
		metrics:          l.Text("metrics", "ADDR", "", "serve Prometheus metrics of the databases there, at /metrics: 127.0.0.1:9090 for this machine, :9090 for all (default: none)"),
		quiet:            l.Toggle("quiet", "log warnings and errors only"),
	}
}

// config makes the agent's settings of the flags and the databases' paths.
func (s *settings) config(paths []string, stderr io.Writer) (c agent.Config, shutdown time.Duration, err error) {
	fail := func(flag, v, form string) error { return cli.Usagef("--%s %s: %s", flag, v, form) }
	if len(paths) == 0 || *s.replica == "" {
		return c, 0, cli.Usagef("wants --replica and a database")
	}
	ack, err := gate.ParseAck(*s.ack)
	if err != nil {
		return c, 0, fail("ack", *s.ack, "write local or archive")
	}
	for _, t := range []struct {
		flag, text string
		to         *time.Duration
	}{{"ack-timeout", *s.ackTimeout, &c.AckTimeout}, {"interval", *s.interval, &c.Interval}, {"snapshot", *s.snapshot, &c.Snapshot},
		{"retention", *s.retention, &c.Retention}, {"l0-retention", *s.l0, &c.L0Retention}, {"shutdown-timeout", *s.shutdown, &shutdown}} {
		if *t.to, err = time.ParseDuration(t.text); err != nil || *t.to < time.Millisecond {
			return c, 0, fail(t.flag, t.text, "not a time; write 500ms, 8s or 24h")
		}
	}
	if err := cli.SetSize(&c.MaxUnstored, *s.maxUnstored); err != nil {
		return c, 0, fail("max-unstored", *s.maxUnstored, err.Error())
	}
	if c.Requests, err = strconv.ParseInt(*s.requests, 10, 64); err != nil || c.Requests < 1 {
		return c, 0, fail("requests", *s.requests, "not a number of requests")
	}
	if c.RequireExtension = *s.requireExtension; c.RequireExtension && ack != gate.Archive {
		return c, 0, cli.Usagef("--require-extension: under --ack local no commit waits for the extension; write --ack archive, or leave it out")
	}
	switch *s.wal {
	case "switch":
		c.ToWAL = walmode.Switch
	case "never":
	default:
		return c, 0, fail("wal", *s.wal, "write switch or never")
	}
	c.Levels = []time.Duration{}
	if *s.levels != "off" {
		for text := range strings.SplitSeq(*s.levels, ",") {
			every, err := time.ParseDuration(text)
			if err != nil || every < time.Second || len(c.Levels) > 0 && every <= c.Levels[len(c.Levels)-1] || len(c.Levels) == 8 {
				return c, 0, fail("levels", *s.levels, "write up to eight times, each longer than the one before: 30s,5m,1h")
			}
			c.Levels = append(c.Levels, every)
		}
	}
	for _, path := range paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return c, 0, err
		}
		url := *s.replica
		if len(paths) > 1 {
			url = objstore.Below(url, filepath.Base(path))
		}
		store, err := objstore.Open(url)
		if err != nil {
			return c, 0, cli.Usagef("--replica: %s", err)
		}
		if *s.singleWriter {
			store = objstore.SingleWriter(store)
		}
		c.Databases = append(c.Databases, agent.Target{SingleWriter: *s.singleWriter, Path: path, Replica: replica.New(store, replica.LayoutOf(url)), URL: url, Ack: ack})
	}
	if c.Socket = *s.socket; c.Socket == "" {
		sum := sha256.Sum256([]byte(c.Databases[0].Path))
		c.Socket = filepath.Join(os.TempDir(), fmt.Sprintf("holdfast-sqlite-%d-%x.sock", os.Getuid(), sum[:6]))
	}
	level := slog.LevelInfo
	if *s.quiet {
		level = slog.LevelWarn
	}
	c.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	return c, shutdown, nil
}

// restIsOver is when unused databases have come to rest, and their working memory is garbage.
const restIsOver = 20 * time.Second

// running is an agent with what tells of it.
type running struct {
	*agent.Agent
	told *programstatus.Servers
}

// begin starts the agent. Its status can be asked for before a database is followed.
func (s *settings) begin(c agent.Config) (*running, error) {
	a, err := agent.Start(c)
	if err != nil {
		return nil, err
	}
	r := &running{a, programstatus.Serve(a, c.Log)}
	if *s.metrics != "" {
		if err := r.told.Metrics(*s.metrics); err != nil {
			r.abandon()
			return nil, err
		}
	}
	return r, nil
}

// settle waits until every database is followed, or cannot be: then a program may open them. It ends the agent with an error that is not the
// end of ctx.
func (r *running) settle(ctx context.Context) error {
	if err := r.Settled(ctx); err != nil {
		if ctx.Err() == nil {
			r.abandon()
		}
		return err
	}
	// Opening takes most, many databases at a time, and the runtime would keep it for minutes in a process that has nothing to do.
	footprint.GiveBack()
	time.AfterFunc(restIsOver, footprint.GiveBack)
	return nil
}

// abandon ends an agent whose start has failed. Nothing was begun that would not be tried again at the next start.
func (r *running) abandon() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r.told.Close()
	_ = r.Close(ctx) // the error of the start says why
}

// end stores the rest and ends the agent, at once where it is asked again. It prints a line for each database, and reports whether everything is stored.
func (r *running) end(limit time.Duration, again <-chan os.Signal, to io.Writer) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	go func() {
		select {
		case <-again:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := r.Close(ctx)
	r.told.Close()
	for _, o := range r.Outcomes() {
		fmt.Fprintf(to, "%s: %s\n", o.Path, o)
	}
	return err == nil
}
