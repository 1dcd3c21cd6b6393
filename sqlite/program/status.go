package program

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfastdb/holdfast/serve/cli"
	programstatus "github.com/holdfastdb/holdfast/sqlite/program/status"
)

// watchEvery is how often --watch asks.
const watchEvery = time.Second

// Status is the command that shows how the databases of running agents stand.
func Status() *cli.Command {
	var asJSON, watch *bool
	return &cli.Command{
		Name:    "sqlite status",
		Args:    "[DATABASE...]",
		Summary: "show what running agents have stored of their databases, and what is wrong",
		About: `It asks the agents that run on this machine as this user, under either name, and all users' as root; each listens at a socket in the
directory for temporary files (TMPDIR). A state is "followed" if what is committed is captured, and "waiting" if there is no database yet;
everything else says why nothing is stored at the moment. BEHIND is the age of the oldest commit that is captured and not stored.
The exit status is 1 if a database is not kept, has an alarm, or is not found.`,
		Examples: []string{"holdfast sqlite status", "holdfast sqlite status --watch /data/app.db", "holdfast sqlite status --json"},
		Flags: func(l *cli.FlagList) {
			asJSON = l.Toggle("json", "write JSON")
			watch = l.Toggle("watch", "ask again every second, until Ctrl-C")
		},
		Run: func(c *cli.Call) error {
			if *asJSON && *watch {
				return cli.Usagef("sqlite status: --json and --watch do not go together; leave one out")
			}
			ctx, stop := untilInterrupted()
			defer stop()
			if *watch {
				return watchStatus(ctx, c)
			}
			rows, err := ask(ctx, c.Args)
			if err != nil {
				return err
			}
			if *asJSON {
				enc := json.NewEncoder(c.Stdout)
				enc.SetIndent("", "  ")
				err = enc.Encode(rows)
			} else {
				err = printRows(c.Stdout, rows, time.Now())
			}
			if err == nil && slices.ContainsFunc(rows, func(r statusRow) bool { return !r.Kept() }) {
				return cli.StatusError(1)
			}
			return err
		},
	}
}

// statusRow is one database, and its agent.
type statusRow struct {
	programstatus.Row
	PID int `json:"agent_pid"`
}

// ask returns the rows of the databases that were named, of all if there are none. It is an error if one of them has no agent.
func ask(ctx context.Context, databases []string) ([]statusRow, error) {
	answers, err := programstatus.AskAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("sqlite status: %w; try again", err)
	}
	rows := []statusRow{}
	for _, a := range answers {
		for _, r := range a.Databases {
			rows = append(rows, statusRow{r, a.PID})
		}
	}
	if len(databases) == 0 {
		if len(answers) == 0 {
			return nil, fmt.Errorf("sqlite status: no agent of this user listens in %s; start one with `holdfast sqlite run` or `replicate`, or set TMPDIR to what the agent has", os.TempDir())
		}
		return rows, nil
	}
	named := []statusRow{}
	var missing []string
	for _, path := range databases {
		i := slices.IndexFunc(rows, func(r statusRow) bool { return same(r.Database, path) })
		if i < 0 {
			missing = append(missing, path)
			continue
		}
		named = append(named, rows[i])
	}
	if len(missing) > 0 {
		return named, fmt.Errorf("sqlite status: no agent of this user has %s; `holdfast sqlite status` shows all that have one", strings.Join(missing, ", "))
	}
	return named, nil
}

// same reports whether two names are of one file, or of one name where there is no file.
func same(x, y string) bool {
	if absolute, err := filepath.Abs(y); err == nil && absolute == x {
		return true
	}
	a, err := os.Stat(x)
	if err != nil {
		return false
	}
	b, err := os.Stat(y)
	return err == nil && os.SameFile(a, b)
}

func printRows(w io.Writer, rows []statusRow, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "DATABASE\tSTATE\tACK\tSTORED TXID\tSTORED\tBEHIND\tREPLICA\tAGENT")
	for _, r := range rows {
		stored, behind := "-", "-"
		if r.Stored != nil {
			stored = max(now.Sub(*r.Stored), 0).Round(time.Second).String() + " ago"
		}
		if r.State == "followed" {
			behind = time.Duration(r.Behind * float64(time.Second)).Round(time.Millisecond).String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", r.Database, r.State, r.Ack, r.StoredTXID, stored, behind, r.Replica, r.PID)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		said := false
		for _, a := range r.Alarms {
			said = true
			fmt.Fprintf(w, "%s: ALARM %s for %s: %s\n", r.Database, a.Kind, max(now.Sub(a.Since), 0).Round(time.Second), a.Text)
		}
		if !said && r.Reason != "" {
			fmt.Fprintf(w, "%s: %s: %s\n", r.Database, r.State, r.Reason)
		}
		if !r.Fencing {
			fmt.Fprintf(w, "%s: without fencing (--single-writer)\n", r.Database)
		}
	}
	return nil
}

// watchStatus shows the rows every second, in place on a terminal, until the command is interrupted. An agent that is gone may come back.
func watchStatus(ctx context.Context, c *cli.Call) error {
	for {
		rows, err := ask(ctx, c.Args)
		if ctx.Err() != nil {
			return nil
		}
		if cli.IsTerminal(c.Stdout) {
			fmt.Fprint(c.Stdout, "\x1b[H\x1b[2J") // the cursor to the top, and all cleared
		}
		fmt.Fprintln(c.Stdout, time.Now().Format(time.DateTime))
		if err != nil {
			fmt.Fprintln(c.Stdout, err)
		}
		if len(rows) > 0 {
			if err := printRows(c.Stdout, rows, time.Now()); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}
