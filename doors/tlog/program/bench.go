package program

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/doors/tlog/hammer"
	"github.com/holdfastdb/holdfast/serve/cli"
)

func tlogBench() *cli.Command {
	var vkey, writers, rate, size, count, duration, verify *string
	var asJSON *bool
	var token *string
	var secure *cli.TLSFlags
	return &cli.Command{
		Name:    "bench tlog",
		Args:    "URL",
		Summary: "put load on a transparency log, time every add, look whether the entries are there",
		About: `Writers with a connection each send entries, all different, to any log with POST /add and the paths of C2SP tlog-tiles.
What is sent stays in the log for ever: use a log made for it. The run ends by --duration, by --count or by Ctrl-C, and
then waits for a checkpoint of all that was acknowledged, and for what --verify asks. With --rate an add is timed from
when it was due. The checkpoint is polled every 20 ms: times to integrate are up to that much too long.

Verifying happens after the load and does not disturb it: for each entry, or for one in 64, the bundle must have it at
the index that was answered, and the tiles must lead from there to the signed root; and the tree must begin with those
that were signed meanwhile. On a terminal the figures are shown as they change. The exit status is 1 if an add failed,
or if the log does not hold what it promised.`,
		Examples: []string{
			"holdfast bench tlog http://127.0.0.1:2025 --vkey ./data/tlog-keys/default.vkey --writers 512 --rate 512",
			"holdfast bench tlog http://127.0.0.1:2025/logs/load --vkey load.vkey --writers 1024 --duration 10s --verify none --json",
		},
		Flags: func(l *cli.FlagList) {
			vkey = l.Text("vkey", "KEY|FILE", "", "the log's public key")
			writers = l.Text("writers", "N", "16", "connections, and so adds under way at most")
			rate = l.Text("rate", "N", "0", "adds a second to send, 0 for as many as the writers can")
			size = l.Text("size", "BYTES", "64", "length of an entry, 40 to 65535")
			count = l.Text("count", "N", "0", "entries to send, 0 for as many as fit the duration")
			duration = l.Text("duration", "TIME", "30s", "how long to send, at most 24h")
			verify = l.Text("verify", "WHICH", "sample", "entries to look for in the log afterwards: all, sample or none")
			asJSON = l.Toggle("json", "print the figures as JSON")
			token = l.Text("token", "TOKEN", "", "one of the server's --tlog-tokens for the log; others see a command line: HOLDFAST_TOKEN is the same")
			secure = cli.AddTLSFlags(l)
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 || *vkey == "" {
				return cli.Usagef("bench tlog: wants an address and a public key; write `holdfast bench tlog URL --vkey KEY`")
			}
			key, err := publicKey(c.Cmd.Name, *vkey)
			if err != nil {
				return err
			}
			conf, err := secure.Config()
			if err != nil {
				return err
			}
			if *token == "" {
				*token = c.Getenv(cli.EnvName("token"))
			}
			o := hammer.Options{URL: c.Args[0], Key: key, Verify: hammer.Verify(*verify), TLS: conf, Token: *token}
			for _, n := range []struct {
				name, text string
				to         *int
			}{{"writers", *writers, &o.Writers}, {"rate", *rate, &o.Rate}, {"size", *size, &o.Size}} {
				if *n.to, err = strconv.Atoi(n.text); err != nil {
					return cli.Usagef("bench tlog --%s %s: not a number; give one", n.name, n.text)
				}
			}
			if o.Count, err = strconv.ParseUint(*count, 10, 64); err != nil {
				return cli.Usagef("bench tlog --count %s: not a number; give one", *count)
			}
			if o.Duration, err = time.ParseDuration(*duration); err != nil {
				return cli.Usagef("bench tlog --duration %s: not a time; give one like 30s or 5m", *duration)
			}
			if err := o.Check(); err != nil {
				return cli.Usagef("bench tlog: %v", err)
			}
			if cli.IsTerminal(c.Stderr) {
				o.Watch = liveView(c.Stderr)
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program
			r, err := hammer.Run(ctx, o)
			if err != nil {
				return fmt.Errorf("bench tlog %s: %w; give the address of a log that answers, and its key", o.URL, err)
			}
			if err := printReport(c.Stdout, r, *asJSON); err != nil {
				return err
			}
			if err := r.Err(); err != nil {
				return fmt.Errorf("bench tlog %s: %w; see the server's log", o.URL, err)
			}
			return nil
		},
	}
}

func printReport(w io.Writer, r *hammer.Report, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprintln(w, strings.Join(r.Lines(), "\n"))
		return err
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// liveView returns a function that draws each report over its predecessor.
func liveView(w io.Writer) func(*hammer.Report) {
	drawn := 0
	return func(r *hammer.Report) {
		var b strings.Builder
		b.WriteString("\x1b[?7l") // a line that is too long is cut: were it two, they would not be drawn over
		if drawn > 0 {
			fmt.Fprintf(&b, "\x1b[%dA", drawn) // up to the first line
		}
		lines := r.Lines()
		for _, line := range lines {
			b.WriteString("\x1b[2K" + line + "\n")
		}
		b.WriteString("\x1b[?7h")
		drawn = len(lines)
		_, _ = io.WriteString(w, b.String()) // a terminal that is gone does not end a run that is measured
	}
}
