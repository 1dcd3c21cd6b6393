package saga

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfastdb/holdfast/cmd/holdfast/cli"
	"github.com/holdfastdb/holdfast/cmd/holdfast/doors"
)

func commands() []*cli.Command { return []*cli.Command{list(), show(), retry(), stop()} }

// doorFlags are the flags of commands that ask the door itself, as its clients do.
type doorFlags struct {
	at  *string
	tls *cli.TLSFlags
}

// Where DTM's clients look for the door if nobody says otherwise.
const (
	defaultDoor = "127.0.0.1:36789"
	defaultGRPC = "127.0.0.1:36790"
)

func addDoorFlags(l *cli.FlagList) *doorFlags {
	return &doorFlags{at: l.Text("saga", "ADDR", defaultDoor, "the server's --saga address, or its https:// URL"), tls: cli.AddTLSFlags(l)}
}

// ask sends a request to the door and returns the body of its answer. A token comes from HOLDFAST_TOKEN.
func (f *doorFlags) ask(c *cli.Call, method, path string, body any) ([]byte, error) {
	base := *f.at
	if env := c.Getenv(cli.EnvName("saga")); env != "" && !c.Flags.Changed("saga") {
		base = env
	}
	if !strings.Contains(base, "://") {
		if _, err := cli.Dialable(base); err != nil {
			return nil, cli.Usagef("--saga %s: %s", base, err)
		}
		base = "http://" + base
	}
	conf, err := f.tls.Config()
	if err != nil {
		return nil, err
	}
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(b)
	}
	ctx, cancel := context.WithTimeout(context.Background(), cli.RequestPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(base, "/")+"/api/dtmsvr/"+path, r)
	if err != nil {
		return nil, err
	}
	if token := c.Getenv("HOLDFAST_TOKEN"); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: nil, TLSClientConfig: conf}}
	res, err := client.Do(req)
	if err != nil {
		return nil, errors.New(cli.Innermost(err) + "; is that the --saga address of a server?")
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		var said struct{ Message string }
		if json.Unmarshal(b, &said) != nil || said.Message == "" {
			said.Message = res.Status
		}
		return nil, errors.New(said.Message)
	}
	return b, nil
}

// shown is what the commands read of a transaction.
type shown struct {
	Gid            string     `json:"gid"`
	Mode           string     `json:"trans_type"`
	Status         string     `json:"status"`
	Created        time.Time  `json:"create_time"`
	Next           *time.Time `json:"next_cron_time"`
	RollbackReason string     `json:"rollback_reason"`
}

func list() *cli.Command {
	var flags *doorFlags
	var status, mode, limit *string
	return &cli.Command{
		Name:     "saga list",
		Summary:  "list transactions, the newest first",
		About:    "NEXT is when a transaction that has not ended is tried again.",
		Examples: []string{"holdfast saga list", "holdfast saga list --status submitted --limit 20"},
		Flags: func(l *cli.FlagList) {
			flags = addDoorFlags(l)
			status = l.Text("status", "STATUS", "", "only those: prepared, submitted, succeed, aborting or failed")
			mode = l.Text("type", "TYPE", "", "only those: saga, msg, tcc, xa or workflow")
			limit = l.Text("limit", "N", "100", "so many at most")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) > 0 {
				return cli.Usagef("saga list: takes no arguments; `holdfast saga show GID` shows one transaction")
			}
			b, err := flags.ask(c, "GET", "all?"+url.Values{"status": {*status}, "transType": {*mode}, "limit": {*limit}}.Encode(), nil)
			if err != nil {
				return fmt.Errorf("saga list: %w", err)
			}
			var answer struct{ Transactions []shown }
			if err := json.Unmarshal(b, &answer); err != nil {
				return fmt.Errorf("saga list: %w; is that the --saga address of a server?", err)
			}
			t := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "GID\tTYPE\tSTATUS\tCREATED\tNEXT\tREASON")
			for _, s := range answer.Transactions {
				next := "-"
				if s.Next != nil && s.Status != "succeed" && s.Status != "failed" {
					next = s.Next.Format(time.RFC3339)
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Gid, s.Mode, s.Status, s.Created.Format(time.RFC3339), next, s.RollbackReason)
			}
			return t.Flush()
		},
	}
}

func show() *cli.Command {
	var flags *doorFlags
	return &cli.Command{
		Name:     "saga show",
		Args:     "GID",
		Summary:  "show one transaction with its branches, as JSON",
		Examples: []string{"holdfast saga show order-4711"},
		Flags:    func(l *cli.FlagList) { flags = addDoorFlags(l) },
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 {
				return cli.Usagef("saga show: wants the gid of a transaction; `holdfast saga list` lists them")
			}
			b, err := flags.ask(c, "GET", "query?"+url.Values{"gid": {c.Args[0]}}.Encode(), nil)
			if err != nil {
				return fmt.Errorf("saga show %s: %w", c.Args[0], err)
			}
			var answer map[string]any
			if err := json.Unmarshal(b, &answer); err != nil {
				return fmt.Errorf("saga show %s: %w; is that the --saga address of a server?", c.Args[0], err)
			}
			if answer["transaction"] == nil {
				return fmt.Errorf("saga show %s: no transaction has that gid; `holdfast saga list` lists them", c.Args[0])
			}
			return cli.PrintJSON(c.Stdout, answer)
		},
	}
}

func retry() *cli.Command {
	return change("saga retry", "resetNextCronTime", "try a transaction again now, however long it would wait", "is tried again")
}

func stop() *cli.Command {
	return change("saga stop", "forceStop", "end a transaction as failed at once, without calling what would undo it", "has failed; nothing was undone")
}

// change is a command that changes one transaction by its gid.
func change(name, path, summary, done string) *cli.Command {
	var flags *doorFlags
	return &cli.Command{
		Name:     name,
		Args:     "GID",
		Summary:  summary,
		Examples: []string{"holdfast " + name + " order-4711"},
		Flags:    func(l *cli.FlagList) { flags = addDoorFlags(l) },
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 {
				return cli.Usagef("%s: wants the gid of a transaction; `holdfast saga list` lists them", name)
			}
			if _, err := flags.ask(c, "POST", path, map[string]string{"gid": c.Args[0]}); err != nil {
				return fmt.Errorf("%s %s: %w", name, c.Args[0], err)
			}
			fmt.Fprintf(c.Stdout, "%s %s\n", c.Args[0], done)
			return nil
		},
	}
}

// resume lets services be called after a restore.
func resume(l *cli.FlagList) *doors.Resume {
	on := l.Toggle("saga", "let the transactions of the saga door go on: services are called")
	return &doors.Resume{
		Asked: func() bool { return *on },
		Usage: "--saga",
		About: `Restored transactions stand still, because the original may still run and would call the same services. Stop it, or be
sure that it is gone, and let them go on with --saga.`,
		Examples: []string{"holdfast resume --saga"},
		Run: func(c *cli.Call, a *cli.AdminClient) error {
			if err := a.Call("POST", "/v1/saga/resume", nil, nil); err != nil {
				return fmt.Errorf("resume --saga: %w", err)
			}
			fmt.Fprintln(c.Stdout, "transactions go on")
			return nil
		},
	}
}
