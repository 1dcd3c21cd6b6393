package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// imports is the door's share of `holdfast import`.
func imports(l *cli.FlagList) *serve.Import {
	m := &moving{}
	m.declare(l)
	return &serve.Import{Asked: func() bool { return *m.from != "" }, Run: m.run}
}

// moving moves from a DTM: its topics are copied and compared, and its open transactions are waited for. They are not copied, because DTM
// continues them for as long as it runs. One transaction under two coordinators may be undone by one and finished by the other.
type moving struct {
	from  *string
	most  *string
	flags *doorFlags
}

// declare adds its flags to those of `holdfast import`.
func (m *moving) declare(l *cli.FlagList) {
	m.from = l.Text("dtm", "URL", "", "a DTM to move from: its topics are copied, its open transactions waited for")
	m.most = l.Text("wait", "TIME", "", "with --dtm: how long to wait for them at most (default: until Ctrl-C)")
	m.flags = &doorFlags{at: l.Text("saga", "ADDR", defaultDoor, "with --dtm: the --saga address to copy topics to"), tls: cli.AddTLSFlags(l)}
}

// drainLook is how often the source is asked what is still open, drainTell how often the operator is told.
const drainLook, drainTell = time.Second, 10 * time.Second

// run moves the topics and waits until the source has no open transaction.
func (m *moving) run(c *cli.Call) error {
	source, err := newSource(*m.from)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	waits := ctx
	if *m.most != "" {
		d, err := time.ParseDuration(*m.most)
		if err != nil || d <= 0 {
			return cli.Usagef("import: --wait %s: no time; write for example 10m", *m.most)
		}
		var cancel context.CancelFunc
		waits, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	if err := m.topics(ctx, c, source); err != nil {
		return fmt.Errorf("import --dtm %s: %w", *m.from, err)
	}
	fmt.Fprintln(c.Stderr, "point clients to --saga now; what they have begun at the DTM is carried on there, and is not copied")
	return m.drain(ctx, waits, c, source)
}

// drain waits until the source has no open transaction, or until waits ends. Open transactions are listed at least once, however short the
// wait.
func (m *moving) drain(ctx, waits context.Context, c *cli.Call, source *source) error {
	told := time.Time{}
	for {
		open, err := source.open(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("import --dtm %s: %w", *m.from, err)
		case len(open) == 0:
			fmt.Fprintln(c.Stdout, "the DTM has no open transaction; it can be stopped once no client uses it. Those that have ended are not copied: their gids are new ones here")
			return nil
		case time.Since(told) >= drainTell:
			told = time.Now()
			fmt.Fprintf(c.Stderr, "%d transactions are open, the oldest is %s\n", len(open), oneLine(open[len(open)-1].Gid))
		}
		select {
		case <-waits.Done():
			for _, s := range open {
				fmt.Fprintf(c.Stdout, "%s  %s  %s\n", oneLine(s.Gid), oneLine(s.Mode), oneLine(s.Status))
			}
			return fmt.Errorf("import --dtm %s: %d transactions are still open; let the DTM run, and import again", *m.from, len(open))
		case <-time.After(drainLook):
		}
	}
}

// topics copies the topics of the source, and compares both sides.
func (m *moving) topics(ctx context.Context, c *cli.Call, source *source) error {
	theirs, err := source.topics(ctx, source.get)
	if err != nil {
		return err
	}
	ours := func(_ context.Context, path string) ([]byte, error) { return m.flags.ask(c, "GET", path, nil) }
	have, err := source.topics(ctx, ours)
	if err != nil {
		return err
	}
	for _, s := range theirs {
		if slices.Contains(have, s) {
			continue
		}
		q := url.Values{"topic": {s.topic}, "url": {s.url}, "remark": {s.remark}}
		if _, err := ours(ctx, dtmPath+"subscribe?"+q.Encode()); err != nil {
			return fmt.Errorf("topic %s: %w", oneLine(s.topic), err)
		}
	}
	if have, err = source.topics(ctx, ours); err != nil {
		return err
	}
	for _, s := range theirs {
		if !slices.Contains(have, s) {
			return fmt.Errorf("topic %s: %s is not subscribed here as it is there; unsubscribe it here, and import again", oneLine(s.topic), oneLine(s.url))
		}
	}
	fmt.Fprintf(c.Stdout, "the same on both sides: %d subscriptions of topics\n", len(theirs))
	return nil
}

// source is a DTM.
type source struct {
	base   string
	client *http.Client
}

func newSource(at string) (*source, error) {
	if !strings.Contains(at, "://") {
		at = "http://" + at
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, cli.Usagef("import: --dtm %s: no URL; write for example --dtm http://10.0.0.1:36789", at)
	}
	return &source{base: u.Scheme + "://" + u.Host, client: &http.Client{Timeout: cli.RequestPatience, Transport: &http.Transport{Proxy: nil}}}, nil
}

// get asks the DTM.
func (s *source) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, errors.New(cli.Innermost(err) + "; is that the HTTP address of a DTM?")
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, res.Status, oneLine(string(b)))
	}
	return b, err
}

// pages reads a list page by page.
func pages(ctx context.Context, get func(context.Context, string) ([]byte, error), path string, q url.Values, page func(b []byte) (next string, err error)) error {
	q.Set("limit", "1000")
	for last := ""; ; {
		b, err := get(ctx, path+"?"+q.Encode())
		if err != nil {
			return err
		}
		next, err := page(b)
		if err != nil {
			return fmt.Errorf("GET %s: %w; is that the HTTP address of a DTM?", path, err)
		}
		if next == "" || next == last {
			return nil
		}
		last = next
		q.Set("position", next)
	}
}

// open lists the transactions that have not ended.
func (s *source) open(ctx context.Context) (all []shown, err error) {
	for _, status := range []string{"submitted", "aborting", "prepared"} {
		err := pages(ctx, s.get, dtmPath+"all", url.Values{"status": {status}}, func(b []byte) (string, error) {
			var answer struct {
				Transactions []shown
				Next         string `json:"next_position"`
			}
			err := json.Unmarshal(b, &answer)
			for _, t := range answer.Transactions {
				if t.Status == status { // old ones do not know the parameter
					all = append(all, t)
				}
			}
			return answer.Next, err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// subscription is one subscriber of a topic.
type subscription struct{ topic, url, remark string }

// topics lists the subscriptions that a side has.
func (s *source) topics(ctx context.Context, get func(context.Context, string) ([]byte, error)) (all []subscription, err error) {
	err = pages(ctx, get, dtmPath+"scanKV", url.Values{"cat": {"topics"}}, func(b []byte) (string, error) {
		var answer struct {
			KV []struct {
				K string `json:"k"`
				V string `json:"v"`
			} `json:"kv"`
			Next json.RawMessage `json:"next_position"`
		}
		if err := json.Unmarshal(b, &answer); err != nil {
			return "", err
		}
		for _, row := range answer.KV {
			var to []struct {
				URL    string `json:"url"`
				Remark string `json:"remark"`
			}
			if err := json.Unmarshal([]byte(row.V), &to); err != nil {
				return "", fmt.Errorf("topic %s: %w", strconv.Quote(row.K), err)
			}
			for _, t := range to {
				all = append(all, subscription{row.K, t.URL, t.Remark})
			}
		}
		next := ""
		_ = json.Unmarshal(answer.Next, &next) // a number or nothing: then there is one page
		return next, nil
	})
	return all, err
}
