package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/conformance/saga/coordinator"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// patience is how long a round's transfers may take to end once all is running again, and everything else that is waited for.
const patience = 60 * time.Second

// workers is how many transfers are under way.
const workers = 8

// campaign is all rounds of one size. It belongs to one goroutine.
type campaign struct {
	outcome
	dir, bin string // bin is our programs around DTM's client
	r        *rand.Rand
	maria    *proctest.MariaDB
	cluster  *proctest.Cluster
	banks    [2]*proctest.Process // the payers', the payees'
	banksAt  [2]string
	http     *http.Client
	all      []*transfer
}

// newCampaign starts everything that rounds need. The caller closes the database, and the campaign where there is one.
func newCampaign(dir string, maria *proctest.MariaDB, members int, seed uint64, holdfast, clients string) (c *campaign, err error) {
	c = &campaign{outcome: outcome{members: members, seed: seed}, dir: dir, bin: clients, r: rand.New(rand.NewPCG(seed, uint64(members))), maria: maria,
		http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}} // members die
	if c.cluster, err = proctest.New(dir, proctest.Holdfast(holdfast, "--saga", "{saga}"), members); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if err := openBank(maria); err != nil {
		return nil, err
	}
	for i := range c.banks {
		if c.banksAt[i], err = proctest.FreeAddress(); err != nil {
			return nil, err
		}
		c.banks[i] = proctest.NewProcess(filepath.Join(dir, fmt.Sprintf("bank%d.log", i)), clients, "bank", "-listen", c.banksAt[i],
			"-db", "root@tcp("+maria.Addr+")/")
		if err := c.banks[i].Start(); err != nil {
			return nil, fmt.Errorf("%w; conformance/saga/transfer/run.sh builds it", err)
		}
	}
	if err := c.cluster.Run(); err != nil {
		return nil, err
	}
	for _, n := range c.cluster.Nodes {
		if err := coordinator.Ready(n.Addr("saga")); err != nil {
			return nil, err
		}
	}
	return c, c.listening()
}

// close kills all running processes.
func (c *campaign) close() {
	c.cluster.Close()
	for _, b := range c.banks {
		if b != nil {
			_ = b.Kill() // nothing more can be done
		}
	}
}

// listening waits until both services take calls.
func (c *campaign) listening() error {
	for i, at := range c.banksAt {
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			conn, err := net.Dial("tcp", at)
			if err == nil {
				conn.Close()
				break
			}
			if !c.banks[i].Running() || time.Since(began) > patience {
				return errors.Join(err, errors.New(c.banks[i].LogTail(10)))
			}
		}
	}
	return nil
}

// name is what the gids of a round begin with.
func name(n int) string { return fmt.Sprintf("r%04d-", n+1) }

// round has transfers submitted, kills something under them, and judges them once they have all ended.
func (c *campaign) round(n int) error {
	out := filepath.Join(c.dir, "asked")
	var members []string
	for _, node := range c.cluster.Nodes {
		members = append(members, node.Addr("saga"))
	}
	clients := proctest.NewProcess(filepath.Join(c.dir, "clients.log"), c.bin, "transfer", "-members", strings.Join(members, ","),
		"-banks", strings.Join(c.banksAt[:], ","), "-accounts", fmt.Sprint(accounts), "-workers", fmt.Sprint(workers), "-name", strings.TrimSuffix(name(n), "-"),
		"-out", out)
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := clients.Start(); err != nil {
		return err
	}
	defer clients.Kill()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(out); err == nil && strings.Contains(string(b), "taken ") {
			break
		}
		if !clients.Running() || time.Since(began) > patience {
			return fmt.Errorf("clients get nothing done: %s", clients.LogTail(10))
		}
	}
	c.sleep(300 * time.Millisecond)
	err := c.strike()
	if err == nil {
		c.sleep(100 * time.Millisecond)
		if c.r.IntN(10) == 0 {
			c.outcome.clients++
			err = clients.Kill()
		} else {
			err = clients.Term(patience)
		}
	}
	if err == nil {
		err = errors.Join(c.cluster.WaitReady(), c.listening())
	}
	if err != nil {
		return err
	}
	asked, err := asked(out)
	if err != nil {
		return err
	}
	c.all = append(c.all, asked...)
	began := time.Now()
	for ; len(asked) > 0; asked = asked[1:] {
		for {
			if err := c.look(asked[0]); err != nil {
				return err
			}
			if ended(asked[0].status) || time.Since(began) > patience {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	c.slowest = max(c.slowest, time.Since(began))
	return c.judge(name(n))
}

// ended reports whether nothing more comes of a transfer: it is at its end, or there is none.
func ended(status string) bool { return status == "succeed" || status == "failed" || status == "" }

// sleep sleeps for less than limit.
func (c *campaign) sleep(limit time.Duration) { time.Sleep(time.Duration(c.r.Int64N(int64(limit)))) }

// atLast looks at everything once more.
func (c *campaign) atLast() error {
	time.Sleep(2 * time.Second) // calls of members that were killed last
	for _, t := range c.all {
		before := t.status
		if err := c.look(t); err != nil {
			return err
		}
		if before != "" && t.status != before {
			c.violations++
			fmt.Printf("%s: it was %s and is %q\n", t.gid, before, t.status)
		}
	}
	c.asked, c.succeeded, c.failed, c.unknown, c.outcome.calls, c.repeated, c.empty = 0, 0, 0, 0, 0, 0, 0
	return c.judge("")
}

// judge judges the transfers whose gids begin with name, counts them, and prints what is wrong.
func (c *campaign) judge(name string) error {
	b, err := read(c.maria, name)
	if err != nil {
		return err
	}
	if c.sum = b.sum; b.sum != accounts*each {
		c.violations++
		fmt.Printf("the sum of all accounts is %d after round %s\n", b.sum, name)
	}
	known := map[string]bool{}
	for _, t := range c.all {
		if !strings.HasPrefix(t.gid, name) {
			continue
		}
		known[t.gid] = true
		calls, moves := b.calls[t.gid], b.moves[t.gid]
		wrong, empty := judge(t, calls, moves)
		if len(wrong) > 0 {
			c.violations++
			fmt.Println(told(t, wrong, calls, moves))
		}
		seen := map[call]bool{}
		for _, one := range calls {
			if seen[one] {
				c.repeated++
			}
			seen[one] = true
		}
		c.asked++
		c.outcome.calls += len(calls)
		c.empty += empty
		switch t.status {
		case "succeed":
			c.succeeded++
		case "failed":
			c.failed++
		case "":
			c.unknown++
		}
	}
	for gid := range b.calls { // any order: each is a violation
		if !known[gid] {
			c.violations++
			fmt.Printf("services were called for %s, which nobody asked for\n", gid)
		}
	}
	return nil
}

// look asks any member what has become of a transfer, until one knows.
func (c *campaign) look(t *transfer) error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := c.query(t)
		if err == nil || time.Since(began) > patience {
			return err
		}
	}
}

func (c *campaign) query(t *transfer) error {
	node := c.cluster.Nodes[c.r.IntN(len(c.cluster.Nodes))]
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+node.Addr("saga")+"/api/dtmsvr/query?gid="+t.gid, nil)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Transaction *struct{ Status string }
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", res.Status, text)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	if t.status = ""; answer.Transaction != nil {
		t.status = answer.Transaction.Status
	}
	return nil
}

// asked reads what the clients have noted. A line that is not whole was being written when they were killed.
func asked(file string) (all []*transfer, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	known := map[string]*transfer{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case !strings.HasSuffix(line, "\n"):
		case len(words) >= 3 && words[0] == "asked":
			t := &transfer{gid: words[1], concurrent: words[2] == "concurrent"}
			known[t.gid] = t
			all = append(all, t)
		case len(words) >= 2 && known[words[1]] != nil:
			known[words[1]].answer = words[0]
		default:
			return nil, fmt.Errorf("the clients write %q", line)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the clients have asked for nothing")
	}
	return all, nil
}
