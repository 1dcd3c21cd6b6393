package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// everyDoor writes through four doors of three members, kills the leader, starts it again, and then looks for every acknowledged write. All
// members must hold the same rows after the same entry.
func (s *suite) everyDoor() (note string, err error) {
	phase := 7 * time.Second
	if s.quick {
		phase = 1200 * time.Millisecond
	}
	dir := filepath.Join(s.dir, "doors")
	keys, err := logKeys(s.bin, dir)
	if err != nil {
		return "", err
	}
	c, err := members(s.bin, dir, 3, "--tlog", "{tlog}", "--tlog-keys", keys, "--saga", "{saga}")
	if err != nil {
		return "", err
	}
	if err := c.Run(); err != nil {
		return "", err
	}
	defer c.Close()
	if err := risen(c); err != nil {
		return "", err
	}
	leader, err := c.WaitLeader(patience)
	if err != nil {
		return "", err
	}
	if err := onLeader(leader, rowTables...); err != nil {
		return "", err
	}
	m, err := newMixed(c)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	m.begin("kv", "tlog", "saga", "rows")
	time.Sleep(phase)
	if leader, err = c.WaitLeader(patience); err != nil {
		return "", err
	}
	if err := leader.Kill(); err != nil {
		return "", err
	}
	time.Sleep(phase)
	if err := c.Restart(leader); err != nil {
		return "", err
	}
	time.Sleep(phase)
	m.end()
	return m.judge()
}

// onLeader runs statements on a node that leads.
func onLeader(n *proctest.Node, texts ...string) error {
	c, err := connect(n, "")
	if err != nil {
		return err
	}
	defer c.close()
	return c.exec(texts...)
}

// judge looks for every name that was acknowledged, and compares the members' states.
func (m *mixed) judge() (string, error) {
	leader, err := m.c.WaitLeader(patience)
	if err != nil {
		return "", err
	}
	for _, look := range []func(*proctest.Node) error{m.haveKeys, m.haveEntries, m.haveSagas, m.haveRows} {
		if err := look(leader); err != nil {
			return "", err
		}
	}
	same, err := sameState(m.c)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d keys, %d log entries, %d sagas and %d transactions of rows acknowledged over a kill of the leader, all there; the state %s of 3 members after entry %d",
		len(m.acked["kv"]), len(m.acked["tlog"]), len(m.acked["saga"]), len(m.acked["rows"]), same.sum, same.index), nil
}

// missing fails for the first name of a door that is not held.
func (m *mixed) missing(door string, held map[string]bool) error {
	if len(m.acked[door]) == 0 {
		return fmt.Errorf("nothing was acknowledged by the door %s", door)
	}
	for _, name := range m.acked[door] {
		if !held[name] {
			return fmt.Errorf("%s was acknowledged and is not there", name)
		}
	}
	return nil
}

func (m *mixed) haveKeys(n *proctest.Node) error {
	held := map[string]bool{}
	const page = 5000
	for from := []byte("mixed/"); ; {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		res, err := pb.NewKVClient(m.conns[m.at(n)]).Range(ctx, &pb.RangeRequest{Key: from, RangeEnd: []byte("mixed0"), Limit: page})
		cancel()
		if err != nil {
			return err
		}
		for _, kv := range res.Kvs {
			name := strings.TrimPrefix(string(kv.Key), "mixed/")
			held[name] = string(kv.Value) == name
			from = append(kv.Key, 0)
		}
		if !res.More {
			return m.missing("kv", held)
		}
	}
}

// at is a node's place among the members.
func (m *mixed) at(n *proctest.Node) int {
	for i, other := range m.c.Nodes {
		if other == n {
			return i
		}
	}
	return -1
}

// haveEntries reads the log's bundles of 256 entries, the last one as far as it was acknowledged.
func (m *mixed) haveEntries(n *proctest.Node) error {
	const width = 256
	most := uint64(0)
	for index := range m.entries {
		most = max(most, index)
	}
	held := map[uint64]string{}
	for bundle := uint64(0); bundle <= most/width; bundle++ {
		path := fmt.Sprintf("http://%s/tile/entries/%03d", n.Addr("tlog"), bundle)
		if last := most % width; bundle == most/width && last+1 < width {
			path += fmt.Sprintf(".p/%d", last+1)
		}
		text, err := m.signed(path)
		if err != nil {
			return err
		}
		for i, at := bundle*width, 0; at+2 <= len(text); i++ {
			size := int(text[at])<<8 | int(text[at+1])
			held[i] = text[at+2 : at+2+size]
			at += 2 + size
		}
	}
	for index, name := range m.entries {
		if held[index] != name {
			return fmt.Errorf("%s was acknowledged at %d of the log, which has %q", name, index, held[index])
		}
	}
	return nil
}

// signed gets a bundle. A new leader signs what was added before a moment after it begins to lead.
func (m *mixed) signed(path string) (string, error) {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		text, err := m.send(context.Background(), http.MethodGet, path, "", "")
		if err == nil || time.Since(began) > patience {
			return text, err
		}
	}
}

// haveSagas waits until every saga has succeeded.
func (m *mixed) haveSagas(n *proctest.Node) error {
	began := time.Now()
	for _, gid := range m.acked["saga"] {
		for {
			text, err := m.send(context.Background(), http.MethodGet, "http://"+n.Addr("saga")+"/api/dtmsvr/query?gid="+gid, "", "")
			if err != nil {
				return err
			}
			var answer struct {
				Transaction *struct{ Status string }
			}
			if err := json.Unmarshal([]byte(text), &answer); err != nil {
				return err
			}
			if answer.Transaction == nil {
				return fmt.Errorf("saga %s was acknowledged and is not there", gid)
			}
			if answer.Transaction.Status == "succeed" {
				break
			}
			if time.Since(began) > patience {
				return fmt.Errorf("saga %s is %s after %s", gid, answer.Transaction.Status, patience)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

// haveRows looks for both rows of every transaction, and checks the tables.
func (m *mixed) haveRows(n *proctest.Node) error {
	c, err := connect(n, "mixed")
	if err != nil {
		return err
	}
	defer c.close()
	lines, err := c.lines("SELECT name FROM entries WHERE part = 1 UNION ALL SELECT name FROM entries WHERE part = 2")
	if err != nil {
		return err
	}
	parts, held := map[string]int{}, map[string]bool{}
	for _, name := range lines {
		parts[name]++
		held[name] = parts[name] == 2
	}
	for name, whole := range held {
		if !whole {
			return fmt.Errorf("the transaction of %s is there in part", name)
		}
	}
	var counted int
	if err := c.one("SELECT n FROM heads WHERE door = 'rows'", &counted); err != nil {
		return err
	}
	if counted != len(held) {
		return fmt.Errorf("%d transactions have counted, and the rows of %d are there", counted, len(held))
	}
	if err := m.missing("rows", held); err != nil {
		return err
	}
	return c.checkTables("entries", "heads")
}
