package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// buildBeforeRows is the last commit that knows no tables.
const buildBeforeRows = "90f162b"

// upgrade is a cluster under kv load whose members change builds.
type upgrade struct {
	c       *proctest.Cluster
	m       *mixed
	before  string // the build that knows no tables
	ours    string
	changes int
}

// fromBuildBefore takes three members under load to this build, two of them back in between, and has rows written once the level has risen.
func (s *suite) fromBuildBefore() (note string, err error) {
	before, err := proctest.Earlier(buildBeforeRows)
	if err != nil {
		return "", err
	}
	c, err := proctest.New(filepath.Join(s.dir, "upgraded"), proctest.Holdfast(before), 3)
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
	low, _, err := levelOf(c.Nodes[0])
	if err != nil {
		return "", err
	}
	m, err := newMixed(c)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	u := &upgrade{c: c, m: m, before: before, ours: s.bin}
	m.begin("kv")
	if err := u.thereAndBack(low); err != nil {
		return "", err
	}
	for _, n := range c.Nodes {
		if err := u.become(n, u.ours); err != nil {
			return "", err
		}
	}
	if err := risen(c); err != nil {
		return "", err
	}
	level, _, err := levelOf(c.Nodes[0])
	if err != nil {
		return "", err
	}
	if level <= low {
		return "", fmt.Errorf("the level is %d with this build and %d with the build before", level, low)
	}
	if err := u.rows(); err != nil {
		return "", err
	}
	told, err := m.judgeRows()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d changes of builds, two of them back; level %d to %d; %s", u.changes, low, level, told), nil
}

// thereAndBack has members of this build lead a cluster of the level before, and takes them back.
func (u *upgrade) thereAndBack(low int) error {
	for i, n := range u.c.Nodes[:2] {
		if err := u.become(n, u.ours); err != nil {
			return err
		}
		if i > 0 {
			break
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := u.c.Lead(ctx, n)
		cancel()
		if err != nil {
			return err
		}
		err = onLeader(n, rowTables...)
		if number(err) != 1290 || !strings.Contains(err.Error(), "holdfast status") {
			return fmt.Errorf("a leader of level %d answers to CREATE DATABASE: %v", low, err)
		}
	}
	time.Sleep(6 * time.Second) // longer than members have to agree on a level
	for _, n := range u.c.Nodes[:2] {
		level, _, err := levelOf(n)
		if err != nil {
			return err
		}
		if level != low {
			return fmt.Errorf("%s is at level %d beside a member whose build knows %d", n.Name, level, low)
		}
		if err := u.become(n, u.before); err != nil {
			return err
		}
	}
	return nil
}

// become has a member go on with another build. Every second one is killed. The load must go on.
func (u *upgrade) become(n *proctest.Node, bin string) error {
	u.changes++
	for _, other := range u.c.Nodes {
		if !other.Running() {
			return fmt.Errorf("%s has ended by itself: %s", other.Name, other.LogTail(5))
		}
	}
	end := func() error { return n.Term(patience) }
	if u.changes%2 == 0 {
		end = n.Kill
	}
	if err := end(); err != nil {
		return err
	}
	var flags []string
	if bin == u.ours {
		flags = []string{"--sql", "{sql}"}
	}
	u.c.Become(n, bin, flags...)
	if err := u.c.Restart(n); err != nil {
		return err
	}
	was := u.m.acknowledged("kv")
	for began := time.Now(); u.m.acknowledged("kv") < was+10; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > patience {
			return fmt.Errorf("no key is written %s after %s changed its build: %s", patience, n.Name, n.LogTail(5))
		}
	}
	return nil
}

// rows has rows written beside the keys.
func (u *upgrade) rows() error {
	leader, err := u.c.WaitLeader(patience)
	if err != nil {
		return err
	}
	if err := onLeader(leader, rowTables...); err != nil {
		return err
	}
	u.m.end()
	u.m.begin("kv", "rows")
	time.Sleep(3 * time.Second)
	u.m.end()
	return nil
}

// judgeRows looks for the keys and rows that were acknowledged, and compares the members' states.
func (m *mixed) judgeRows() (string, error) {
	leader, err := m.c.WaitLeader(patience)
	if err == nil {
		err = errors.Join(m.haveKeys(leader), m.haveRows(leader))
	}
	if err != nil {
		return "", err
	}
	same, err := sameState(m.c)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d keys and then %d transactions of rows, all there; the state %s of 3 members after entry %d", len(m.acked["kv"]), len(m.acked["rows"]),
		same.sum, same.index), nil
}
