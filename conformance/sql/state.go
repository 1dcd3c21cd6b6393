package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// installed is the one row that says how a member came to its state. Members may differ in it.
const installed = "\x00install"

// state is one member's state after the entry at index. It has the rows of each machine, by the letter that its keys begin with, and their
// hash. The row of the rolling state hash is among them.
type state struct {
	index uint64
	rows  map[byte]int
	sum   string
}

// stateOf reads the whole state of one member through its admin port.
func stateOf(n *proctest.Node) (*state, error) {
	res, err := http.Get("http://" + n.Admin + "/v1/snapshot")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("snapshot of %s: %s", n.Name, res.Status)
	}
	s, sum := &state{rows: map[byte]int{}}, sha256.New()
	info, err := node.ReadSnapshot(res.Body, nil, func(key, value []byte) error {
		if string(key) == installed {
			return nil
		}
		s.rows[key[0]]++
		for _, part := range [][]byte{key, value} {
			sum.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
			sum.Write(part)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("snapshot of %s: %w", n.Name, err)
	}
	s.index, s.sum = info.Index, hex.EncodeToString(sum.Sum(nil)[:6])
	return s, nil
}

// sameState waits until all members are at one index, and compares their rows there. Nothing may be written meanwhile.
func sameState(c *proctest.Cluster) (*state, error) {
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		var all []*state
		for _, n := range c.Nodes {
			s, err := stateOf(n)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
		other := slices.IndexFunc(all, func(s *state) bool { return s.index != all[0].index })
		switch {
		case other < 0:
			for i, s := range all {
				if s.sum != all[0].sum {
					return nil, fmt.Errorf("after entry %d %s has the state %s with the rows %s, and %s has %s with %s", s.index, c.Nodes[i].Name, s.sum,
						s.counts(), c.Nodes[0].Name, all[0].sum, all[0].counts())
				}
			}
			return all[0], nil
		case time.Since(began) > patience:
			return nil, fmt.Errorf("%s stays at entry %d and %s at %d", c.Nodes[other].Name, all[other].index, c.Nodes[0].Name, all[0].index)
		}
	}
}

// counts names the rows of each machine.
func (s *state) counts() string {
	var letters []byte
	for l := range s.rows {
		letters = append(letters, l)
	}
	slices.Sort(letters)
	var parts []string
	for _, l := range letters {
		parts = append(parts, fmt.Sprintf("%q %d", l, s.rows[l]))
	}
	return strings.Join(parts, ", ")
}

// levelOf asks a member for its cluster's level, and for the highest that its build knows.
func levelOf(n *proctest.Node) (level, known int, err error) {
	res, err := http.Get("http://" + n.Admin + "/v1/status")
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	var s struct {
		Level int `json:"level"`
		Known int `json:"known_level"`
	}
	err = json.NewDecoder(res.Body).Decode(&s)
	return s.Level, s.Known, err
}

// risen waits until every member has the highest level that its build knows.
func risen(c *proctest.Cluster) error {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		low := 0
		for _, n := range c.Nodes {
			level, known, err := levelOf(n)
			if err != nil {
				return err
			}
			if level < known {
				low++
			}
		}
		switch {
		case low == 0:
			return nil
		case time.Since(began) > patience:
			return fmt.Errorf("%d members are below the level of their build after %s", low, patience)
		}
	}
}
