package replica

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/disk"
	"github.com/holdfastdb/holdfast/internal/golden"
	"github.com/holdfastdb/holdfast/wal"
	"go.etcd.io/raft/v3/raftpb"
)

// TestStories plays testdata/*.txt. A line that begins with "> " is a command, the lines after it are what happened, a line
// that begins with "#" tells the reader what to look for. Every write, message and apply is a step of its own, so a story
// shows exactly what waits for what.
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
	// Raft draws election timeouts from here; nobody campaigns by itself before the 19th tick.
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
	wal     *wal.Log
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

func writeText(w *Write) string {
	var parts []string
	if w.Snapshot != nil {
		parts = append(parts, fmt.Sprintf("snapshot %d@%d", w.Snapshot.Index, w.Snapshot.Term))
	}
	for _, e := range w.Batch.Entries {
		parts = append(parts, entryText(e.Index, e.Term, e.Type, e.Data))
	}
	if hs := w.Batch.HardState; hs != nil {
		parts = append(parts, fmt.Sprintf("term %d vote n%d commit %d", hs.Term, hs.Vote, hs.Commit))
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing")
	}
	if w.Sync {
		parts = append(parts, "sync")
	}
	return strings.Join(parts, ", ")
}

func entryText(index, term uint64, typ uint8, data []byte) string {
	change, err := DecodeChange(typ, data)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d@%d %s", index, term, dataText(data, change))
}

func dataText(data []byte, c *Change) string {
	switch {
	case c != nil:
		return fmt.Sprintf("(%s n%d)", [...]string{"voter", "learner", "remove"}[c.Kind], c.ID)
	case len(data) == 0:
		return "–"
	}
	return string(data)
}

func messageText(m *raftpb.Message) string {
	b := fmt.Sprintf("%s @%d", m.GetType(), m.GetTerm())
	add := func(on bool, format string, a ...any) {
		if on {
			b += fmt.Sprintf(format, a...)
		}
	}
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgVote, raftpb.MsgPreVote:
		add(true, " after %d@%d", m.GetIndex(), m.GetLogTerm())
	default:
		add(m.GetIndex() != 0, " index %d", m.GetIndex())
	}
	add(m.GetReject(), " rejected")
	add(m.GetRejectHint() != 0, " hint %d@%d", m.GetRejectHint(), m.GetLogTerm())
	for _, e := range m.Entries {
		if m.GetType() == raftpb.MsgApp {
			add(true, ", %s", entryText(e.GetIndex(), e.GetTerm(), uint8(e.GetType()), e.Data))
		} else {
			add(true, " %s", e.Data)
		}
	}
	add(len(m.Context) > 0, " context %s", contextText(m.Context))
	add(m.GetCommit() != 0, ", commit %d", m.GetCommit())
	if sn := m.Snapshot; sn != nil {
		p := pointOf(sn)
		add(true, " snapshot %d@%d %s", p.Index, p.Term, confText(p.Conf))
	}
	return b
}

// contextText prints raft's own numbers as numbers.
func contextText(b []byte) string {
	if len(b) == 8 {
		return fmt.Sprint(binary.LittleEndian.Uint64(b))
	}
	return string(b)
}

func confText(c Conf) string {
	list := func(ids []uint64) string {
		var out []string
		for _, id := range ids {
			out = append(out, fmt.Sprintf("n%d", id))
		}
		return strings.Join(out, " ")
	}
	text := "voters " + list(c.Voters)
	if len(c.Learners) > 0 {
		text += ", learners " + list(c.Learners)
	}
	return text
}
