package raft

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/wal"
	"github.com/holdfastdb/holdfast/internal/golden"
)

// TestStories plays testdata/*.txt. A line that begins with "> " is a command, and the lines after it are its outcome. A line that begins
// with "#" tells the reader what to look for. Every write, message and apply is a step of its own, so a story shows exactly what waits for
// what.
//
//	cluster 1,2,3 [learners 4] [off 2] [leader 1]   members, all with the log 1@1; those off are not started; elect without words
//	n1 campaign | tick [k] | propose X | change learner|voter|remove nK | read X | transfer nK
//	n1 write                             the oldest write reaches the disk
//	n1 apply                             the oldest committed entries are applied
//	n1 apply refused                     the same, but the machine rejected the membership change
//	n1 truncate K                        drop the log up to K
//	n1 crash | start [applied K]         lose what was not written; come back
//	n1 snapshot done|failed nK           how the stream to nK ended
//	n1 status
//	deliver [nA nB]                      what is on the wire now (between two members)
//	drop [nA nB]                         lose it
//	settle [without n1 disk]             until nothing moves any more
func TestStories(t *testing.T) {
	// Raft draws election timeouts from here; no replica campaigns by itself before the 19th tick.
	real := rand.Reader
	rand.Reader = nines{}
	defer func() { rand.Reader = real }()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			before, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, (&story{t: t}).play(string(before)))
		})
	}
}

type nines struct{}

func (nines) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 9
	}
	return len(p), nil
}

// story is a cluster driven by hand.
type story struct {
	t       *testing.T
	members []*member
	wire    []letter
	out     strings.Builder
}

type letter struct {
	from uint64
	Outgoing
}

// member is the driver's half of one replica: what package node is in the real thing.
type member struct {
	id      uint64
	fs      *disk.Mem
	wal     *wal.WAL
	rep     *Replica // nil while it is off
	conf    Conf     // as of applied
	applied uint64
	writes  []*Write
	commits []*Ready
}

func (s *story) play(script string) string {
	var told strings.Builder
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "> "):
			told.WriteString(line + "\n")
			s.out.Reset()
			s.do(strings.Fields(line[2:]))
			told.WriteString(s.out.String())
		case line == "" || strings.HasPrefix(line, "#"):
			told.WriteString(line + "\n")
		}
	}
	return told.String()
}

func (s *story) say(format string, a ...any) { fmt.Fprintf(&s.out, format+"\n", a...) }

func (s *story) do(words []string) {
	switch words[0] {
	case "cluster":
		s.cluster(words[1:])
	case "deliver", "drop":
		from, to := uint64(0), uint64(0)
		if len(words) > 1 {
			from, to = s.id(words[1]), s.id(words[2])
		}
		s.carry(from, to, words[0] == "deliver")
	case "settle":
		slow := uint64(0)
		if len(words) > 1 {
			slow = s.id(words[2])
		}
		s.settle(slow)
	default:
		s.member(s.at(s.id(words[0])), words[1:])
	}
}

func (s *story) id(word string) uint64 {
	id, err := strconv.ParseUint(strings.TrimPrefix(word, "n"), 10, 64)
	if err != nil {
		s.t.Fatalf("not a member: %q", word)
	}
	return id
}

func (s *story) number(words []string, otherwise uint64) uint64 {
	if len(words) == 0 {
		return otherwise
	}
	n, err := strconv.ParseUint(words[len(words)-1], 10, 64)
	if err != nil {
		s.t.Fatalf("not a number: %q", words)
	}
	return n
}

func (s *story) at(id uint64) *member {
	for _, m := range s.members {
		if m.id == id {
			return m
		}
	}
	s.t.Fatalf("no member n%d", id)
	return nil
}

func (s *story) cluster(words []string) {
	ids := func(list string) (out []uint64) {
		for _, w := range strings.Split(list, ",") {
			out = append(out, s.id(w))
		}
		return out
	}
	conf := Conf{Voters: ids(words[0])}
	all, off, leader := slices.Clone(conf.Voters), []uint64(nil), uint64(0)
	for i := 1; i < len(words); i += 2 {
		switch words[i] {
		case "learners":
			conf.Learners = ids(words[i+1])
			all = append(all, conf.Learners...)
		case "off":
			off = ids(words[i+1])
			for _, id := range off {
				if !slices.Contains(all, id) {
					all = append(all, id)
				}
			}
		case "leader":
			leader = s.id(words[i+1])
		default:
			s.t.Fatalf("cluster: %q", words[i])
		}
	}
	for _, id := range all {
		m := &member{id: id, fs: disk.NewMem(), conf: conf, applied: 1}
		s.members = append(s.members, m)
		s.open(m)
		// The first state of every cluster is the snapshot at index 1 of term 1, see node.initialise.
		if err := m.wal.Reset(1, 1, wal.HardState{Term: 1, Commit: 1}); err != nil {
			s.t.Fatal(err)
		}
		if !slices.Contains(off, id) {
			s.start(m)
		}
	}
	if leader != 0 {
		s.at(leader).rep.Campaign()
		s.ready(s.at(leader))
		s.settle(0)
		s.out.Reset()
		s.status(s.at(leader))
	}
}

// carry delivers or loses what is on the wire now; what that causes waits for the next time.
func (s *story) carry(from, to uint64, deliver bool) {
	now := s.wire
	s.wire = nil
	var keep []letter
	for _, l := range now {
		if from != 0 && (l.from != from || l.To != to) {
			keep = append(keep, l)
			continue
		}
		m := s.at(l.To)
		if !deliver || m.rep == nil {
			continue
		}
		if l.Snapshot != nil {
			if err := m.rep.ReceiveSnapshot(l.from, l.Frame); err != nil {
				s.t.Fatal(err)
			}
		} else if _, err := m.rep.Receive(l.from, l.Frame); err != nil {
			s.t.Fatal(err)
		}
		s.ready(m)
	}
	s.wire = append(keep, s.wire...)
}

// settle runs everybody until nothing moves; the disk of one member may be left out.
func (s *story) settle(slow uint64) {
	for round := 0; ; round++ {
		if round == 1000 {
			s.t.Fatal("this never settles")
		}
		moved := len(s.wire) > 0
		s.carry(0, 0, true)
		for _, m := range s.members {
			for m.rep != nil && len(m.writes) > 0 && m.id != slow {
				s.write(m)
				s.ready(m)
				moved = true
			}
			for m.rep != nil && len(m.commits) > 0 {
				s.apply(m, false)
				s.ready(m)
				moved = true
			}
		}
		if !moved {
			return
		}
	}
}
