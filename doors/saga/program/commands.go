package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

func commands() []*cli.Command { return []*cli.Command{list(), show(), retry(), stop()} }

// doorFlags are the flags of commands that ask the door itself, as its clients do.
type doorFlags struct {
	at  *string
	tls *cli.TLSFlags
}

// The door's default address for DTM's clients.
const (
	defaultDoor = "127.0.0.1:36789"
	defaultGRPC = "127.0.0.1:36790"
)

func addDoorFlags(l *cli.FlagList) *doorFlags {
	return &doorFlags{at: l.Text("saga", "ADDR", defaultDoor, "the server's --saga address, or its https:// URL"), tls: cli.AddTLSFlags(l)}
}

// Paths of the door: those of DTM, and those that tell operators more.
const (
	dtmPath = "/api/dtmsvr/"
	ownPath = "/api/holdfast/"
)

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
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(base, "/")+path, r)
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

// shown is the commands' view of a transaction.
type shown struct {
	Gid            string     `json:"gid"`
	Mode           string     `json:"trans_type"`
	Status         string     `json:"status"`
	Created        time.Time  `json:"create_time"`
	Next           *time.Time `json:"next_cron_time"`
	RollbackReason string     `json:"rollback_reason"`
	Attempts       uint32     `json:"attempts"`
	LastError      string     `json:"last_error"`
	LastErrorURL   string     `json:"last_error_url"`
	LastCall       *struct {
		Op       string    `json:"op"`
		BranchID string    `json:"branch_id"`
		Time     time.Time `json:"time"`
		UnderWay bool      `json:"under_way"`
	} `json:"last_call"`
}

// stuck reports whether the transaction has not ended and does not get on.
func (s *shown) stuck() bool { return s.open() && (s.LastError != "" || s.Attempts > 1) }

// open reports whether the transaction has not ended.
func (s *shown) open() bool { return s.Status != "succeed" && s.Status != "failed" }

// knows says where the errors in an answer come from (doors/saga).
type knows struct {
	Leads  bool   `json:"leads"`
	Leader string `json:"leader"`
	Held   bool   `json:"held"`
}

// print warns, beside a list, of facts that the list cannot show.
func (k *knows) print(w io.Writer) {
	switch {
	case k.Held:
		fmt.Fprintln(w, "note: transactions are held after a restore and none is tried; `holdfast resume --saga` lets them go on")
	case k.Leads:
	case k.Leader == "":
		fmt.Fprintln(w, "note: no leader is known; transactions wait for one, and errors are not shown")
	default:
		fmt.Fprintf(w, "note: errors are known to the leader alone; ask the saga door of member %s\n", oneLine(k.Leader))
	}
}

// mostShown bounds a text in a table, in characters; `saga show` has the whole.
const mostShown = 160

// oneLine is a text as a cell of a table, "-" for none. Services write such texts: a line break in one must not make a row, nor an escape
// sequence reach the operator's terminal.
func oneLine(s string) string {
	if s == "" {
		return "-"
	}
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if all := []rune(s); len(all) > mostShown {
		s = string(all[:mostShown]) + "…"
	}
	return s
}

func list() *cli.Command {
	var flags *doorFlags
	var status, mode, limit *string
	var stuck, asJSON *bool
	return &cli.Command{
		Name:    "saga list",
		Summary: "list transactions, the newest first",
		About: `ATTEMPTS is how often the transaction was tried: passes over it that have ended, as the log has them.
NEXT is when a transaction that has not ended is tried again.
LAST CALL is when the newest call of such a transaction ended, or began if it is under way, and for which branch; LAST ERROR is what a call
came to. Both are from the leader's memory: other members do not know them, and a new leader knows them after its first attempt. The log
does not keep them.
REASON is why a transaction was rolled back or stopped, from the log; "-" if it was not, or its client gave none.
With --stuck it lists those that have not ended and do not get on: the newest call has failed, or they were tried twice or more.`,
		Examples: []string{"holdfast saga list", "holdfast saga list --status submitted --limit 20", "holdfast saga list --stuck --json"},
		Flags: func(l *cli.FlagList) {
			flags = addDoorFlags(l)
			status = l.Text("status", "STATUS", "", "only those: prepared, submitted, succeed, aborting or failed")
			mode = l.Text("type", "TYPE", "", "only those: saga, msg, tcc, xa or workflow")
			limit = l.Text("limit", "N", "100", "so many at most")
			stuck = l.Toggle("stuck", "only those that have not ended and do not get on")
			asJSON = l.Toggle("json", "as JSON, with all that is known of each but its branches")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) > 0 {
				return cli.Usagef("saga list: takes no arguments; `holdfast saga show GID` shows one transaction")
			}
			most, err := strconv.Atoi(*limit)
			if err != nil || most < 1 {
				return cli.Usagef("saga list: --limit %s: give a number from 1 on", *limit)
			}
			l := lister{flags: flags, call: c, mode: *mode, most: most, stuck: *stuck}
			statuses := []string{*status}
			if *stuck && *status == "" {
				statuses = []string{"submitted", "aborting", "prepared"}
			}
			for _, s := range statuses {
				if err := l.page(s); err != nil {
					return fmt.Errorf("saga list: %w", err)
				}
			}
			if *asJSON {
				if l.raw == nil {
					l.raw = []json.RawMessage{}
				}
				err = cli.PrintJSON(c.Stdout, struct {
					knows
					Transactions []json.RawMessage `json:"transactions"`
				}{l.knows, l.raw})
			} else {
				err = printList(c.Stdout, l.all)
			}
			if err != nil {
				return err
			}
			l.knows.print(c.Stderr)
			return nil
		},
	}
}

// lister collects transactions from pages of the door's list.
type lister struct {
	flags *doorFlags
	call  *cli.Call
	mode  string
	most  int
	stuck bool

	knows
	all []shown
	raw []json.RawMessage // the same as the door has told them
}

// page reads the pages of one status until there are enough. A page may be empty and not the last: the door reads up to a bound.
func (l *lister) page(status string) error {
	for position := ""; len(l.all) < l.most; {
		n := l.most - len(l.all)
		if l.stuck {
			n = 1000
		}
		q := url.Values{"status": {status}, "transType": {l.mode}, "limit": {strconv.Itoa(n)}, "position": {position}}
		b, err := l.flags.ask(l.call, "GET", ownPath+"all?"+q.Encode(), nil)
		if err != nil {
			return err
		}
		var answer struct {
			knows
			Transactions []json.RawMessage
			Next         string `json:"next_position"`
		}
		if err := json.Unmarshal(b, &answer); err != nil {
			return fmt.Errorf("%w; is that the --saga address of a server?", err)
		}
		l.knows = answer.knows
		for _, raw := range answer.Transactions {
			var s shown
			if err := json.Unmarshal(raw, &s); err != nil {
				return fmt.Errorf("%w; is that the --saga address of a server?", err)
			}
			if len(l.all) < l.most && (!l.stuck || s.stuck()) {
				l.all, l.raw = append(l.all, s), append(l.raw, raw)
			}
		}
		if position = answer.Next; position == "" || !l.stuck && len(answer.Transactions) > 0 && len(l.all) >= l.most {
			return nil
		}
	}
	return nil
}

// printList prints transactions as a table.
func printList(w io.Writer, all []shown) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GID\tTYPE\tSTATUS\tCREATED\tATTEMPTS\tNEXT\tLAST CALL\tLAST ERROR\tREASON")
	for _, s := range all {
		next, last, call := "-", s.LastError, "-"
		if s.Next != nil && s.open() {
			next = s.Next.Format(time.RFC3339)
		}
		if s.LastErrorURL != "" {
			last = "url:" + s.LastErrorURL + " " + last
		}
		if of := s.LastCall; of != nil {
			call = of.Time.Format(time.RFC3339) + " " + of.Op + " " + of.BranchID
			if of.UnderWay {
				call += " (under way)"
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", s.Gid, s.Mode, s.Status, s.Created.Format(time.RFC3339), s.Attempts, next,
			oneLine(call), oneLine(last), oneLine(s.RollbackReason))
	}
	return t.Flush()
}

func show() *cli.Command {
	var flags *doorFlags
	return &cli.Command{
		Name:    "saga show",
		Args:    "GID",
		Summary: "show one transaction with its branches, as JSON",
		About: `attempts is how often the transaction was tried, as the log has it, and next_cron_time when it is tried again. last_call is its newest
call, last_error and last_error_url what a call came to, from the leader's memory: a member with "leads": false does not know them, and a new
leader knows them after its first attempt.`,
		Examples: []string{"holdfast saga show order-4711"},
		Flags: func(l *cli.FlagList) {
			flags = addDoorFlags(l)
			l.Toggle("json", "as JSON, which is how it is shown in any case")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 {
				return cli.Usagef("saga show: wants the gid of a transaction; `holdfast saga list` lists them")
			}
			b, err := flags.ask(c, "GET", ownPath+"query?"+url.Values{"gid": {c.Args[0]}}.Encode(), nil)
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
	c := change("saga retry", "resetNextCronTime", "try a transaction again now, however long it would wait", "is tried again", nil)
	c.Before = ended
	return c.command()
}

func stop() *cli.Command {
	var reason *string
	c := change("saga stop", "forceStop", "end a transaction as failed at once, without calling what would undo it", "has failed; nothing was undone",
		func(body map[string]string) { body["rollback_reason"] = *reason })
	c.Flags = func(l *cli.FlagList) {
		reason = l.Text("reason", "TEXT", "", "why, for `saga list`; without it a reason that is there stays")
	}
	return c.command()
}

// ended returns an error for a transaction that is not tried again because it has ended, or that there is none of.
func ended(flags *doorFlags, c *cli.Call, gid string) error {
	b, err := flags.ask(c, "GET", dtmPath+"all?"+url.Values{"gid": {gid}}.Encode(), nil)
	if err != nil {
		return err
	}
	var answer struct{ Transactions []shown }
	if err := json.Unmarshal(b, &answer); err != nil {
		return fmt.Errorf("%w; is that the --saga address of a server?", err)
	}
	switch {
	case len(answer.Transactions) == 0:
		return errors.New("no transaction has that gid; `holdfast saga list` lists them")
	case !answer.Transactions[0].open():
		return fmt.Errorf("it has ended with the status %s, and nothing of it is tried again; `holdfast saga show %s` has the reason", answer.Transactions[0].Status, gid)
	}
	return nil
}

// changing is a command that changes one transaction by its gid.
type changing struct {
	name, path, summary, done string
	more                      func(body map[string]string) // adds to the request's body; nil: nothing
	// Flags adds flags, and Before may refuse; nil: nothing.
	Flags  func(l *cli.FlagList)
	Before func(flags *doorFlags, c *cli.Call, gid string) error
}

func change(name, path, summary, done string, more func(body map[string]string)) *changing {
	return &changing{name: name, path: path, summary: summary, done: done, more: more}
}

func (ch *changing) command() *cli.Command {
	var flags *doorFlags
	return &cli.Command{
		Name:     ch.name,
		Args:     "GID",
		Summary:  ch.summary,
		Examples: []string{"holdfast " + ch.name + " order-4711"},
		Flags: func(l *cli.FlagList) {
			flags = addDoorFlags(l)
			if ch.Flags != nil {
				ch.Flags(l)
			}
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 {
				return cli.Usagef("%s: wants the gid of a transaction; `holdfast saga list` lists them", ch.name)
			}
			body := map[string]string{"gid": c.Args[0]}
			if ch.more != nil {
				ch.more(body)
			}
			if ch.Before != nil {
				if err := ch.Before(flags, c, c.Args[0]); err != nil {
					return fmt.Errorf("%s %s: %w", ch.name, c.Args[0], err)
				}
			}
			if _, err := flags.ask(c, "POST", dtmPath+ch.path, body); err != nil {
				return fmt.Errorf("%s %s: %w", ch.name, c.Args[0], err)
			}
			fmt.Fprintf(c.Stdout, "%s %s\n", c.Args[0], ch.done)
			return nil
		},
	}
}

// resume lets services be called after a restore.
func resume(l *cli.FlagList) *serve.Resume {
	on := l.Toggle("saga", "let the transactions of the saga door go on: services are called")
	return &serve.Resume{
		Asked: func() bool { return *on },
		Usage: "--saga",
		Held:  "sagas",
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
