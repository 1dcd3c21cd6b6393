package raft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/core/wal"
)

func (s *story) open(m *member) {
	if err := m.fs.MkdirAll("wal"); err != nil {
		s.t.Fatal(err)
	}
	var err error
	if m.wal, err = wal.Open(m.fs, "wal", wal.Options{Manual: true, LogID: m.id, SegmentBytes: 64 << 10}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) start(m *member) {
	rep, err := New(Config{ID: m.id, WAL: m.wal, Conf: m.conf, Applied: m.applied, ElectionTicks: 10, HeartbeatTicks: 1,
		SnapshotPoint: func() (uint64, Conf) { return m.applied, m.conf }})
	if err != nil {
		s.say("n%d does not start: %v", m.id, err)
		return
	}
	m.rep = rep
	s.ready(m)
}

func (s *story) member(m *member, words []string) {
	if m.rep == nil && words[0] != "start" {
		s.t.Fatalf("n%d is off", m.id)
	}
	args := words[1:]
	report := func(err error) {
		if err != nil {
			s.say("n%d: %v", m.id, err)
		}
	}
	switch words[0] {
	case "campaign":
		m.rep.Campaign()
	case "tick":
		for range s.number(args, 1) {
			m.rep.Tick()
		}
	case "propose":
		report(m.rep.Propose([]byte(strings.Join(args, " "))))
	case "change":
		kinds := map[string]ChangeKind{"learner": AddLearner, "voter": AddVoter, "remove": Remove}
		report(m.rep.ProposeChange(Change{Kind: kinds[args[0]], ID: s.id(args[1]), Context: []byte(args[0] + " " + args[1])}))
	case "read":
		m.rep.ReadIndex([]byte(args[0]))
	case "transfer":
		m.rep.Transfer(s.id(args[0]))
	case "write":
		s.write(m)
	case "apply":
		s.apply(m, len(args) > 0)
	case "truncate":
		report(m.wal.Truncate(s.number(args, 0)))
		s.say("n%d log begins at %d", m.id, m.wal.FirstIndex())
	case "snapshot":
		m.rep.ReportSnapshot(s.id(args[1]), args[0] == "done")
	case "status":
		s.status(m)
	case "crash":
		if err := m.wal.Close(); err != nil {
			s.t.Fatal(err)
		}
		s.open(m)
		hs := m.wal.HardState()
		s.say("n%d leaves a log that ends at %d, and: term %d vote n%d commit %d", m.id, m.wal.LastIndex(), hs.Term, hs.Vote, hs.Commit)
		m.rep, m.writes, m.commits = nil, nil, nil
		return
	case "start":
		m.applied = s.number(args, m.applied)
		s.start(m)
		return
	default:
		s.t.Fatalf("unknown: %q", words)
	}
	s.ready(m)
}

// ready takes everything the replica wants done and says so.
func (s *story) ready(m *member) {
	for {
		rd := &Ready{}
		if !m.rep.Ready(rd) {
			return
		}
		for _, o := range rd.Send {
			s.post(m.id, o)
		}
		for _, w := range rd.Writes {
			s.say("n%d to disk: %s", m.id, writeText(w))
			m.writes = append(m.writes, w)
		}
		for _, r := range rd.Reads {
			s.say("n%d may read %s at %d", m.id, r.Context, r.Index)
		}
		if len(rd.Commits) > 0 {
			for _, c := range rd.Commits {
				s.say("n%d committed: %d@%d %s", m.id, c.Index, c.Term, dataText(c.Data, c.Change))
			}
			m.commits = append(m.commits, rd)
		}
	}
}

func (s *story) post(from uint64, o Outgoing) {
	msg, err := decodeMessage(o.Frame)
	if err != nil {
		s.t.Fatalf("n%d sends what nobody can read: %v", from, err)
	}
	s.say("n%d → n%d %s", from, o.To, messageText(msg))
	s.wire = append(s.wire, letter{from, o})
}

// write completes the oldest write and nothing else.
func (s *story) write(m *member) {
	if len(m.writes) == 0 {
		s.say("n%d has nothing to write", m.id)
		return
	}
	w := m.writes[0]
	m.writes = m.writes[1:]
	if p := w.Snapshot; p != nil {
		if err := m.wal.Reset(p.Index, p.Term, *w.Batch.HardState); err != nil {
			s.t.Fatal(err)
		}
		m.applied, m.conf = p.Index, p.Conf
		s.say("n%d is at snapshot %d", m.id, p.Index)
	} else if len(w.Batch.Entries) > 0 || w.Sync {
		if err := m.wal.Append(w.Batch); err != nil {
			s.t.Fatal(err)
		}
		if err := m.wal.Sync(); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, o := range m.rep.Written(w) {
		s.post(m.id, o)
	}
}

func (s *story) apply(m *member, refuse bool) {
	if len(m.commits) == 0 {
		s.say("n%d has nothing to apply", m.id)
		return
	}
	rd := m.commits[0]
	m.commits = m.commits[1:]
	for _, c := range rd.Commits {
		if c.Change != nil {
			m.conf = m.rep.ApplyChange(c.Change, refuse)
			s.say("n%d: %s", m.id, confText(m.conf))
		}
		m.applied = c.Index
	}
	m.rep.Applied(rd)
}

func (s *story) status(m *member) {
	role := "follows nobody"
	switch {
	case m.rep.IsLeader():
		role = "leads"
	case m.rep.Leader() != 0:
		role = fmt.Sprintf("follows n%d", m.rep.Leader())
	}
	s.say("n%d %s in term %d, log ends at %d, commit %d, applied %d, %s", m.id, role, m.rep.Term(), m.rep.LastIndex(), m.rep.Commit(),
		m.applied, confText(m.rep.Conf()))
	progress := m.rep.Progress()
	slices.SortFunc(progress, func(a, b Progress) int { return int(a.ID) - int(b.ID) })
	for _, p := range progress {
		how := ""
		if p.Learner {
			how += ", learner"
		}
		if p.Snapshotting {
			how += ", receives a snapshot"
		}
		s.say("  n%d has %d%s", p.ID, p.Match, how)
	}
}
