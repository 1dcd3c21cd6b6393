package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/internal/golden"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// archiving is a cluster of k members whose shipper is the test.
func archiving(t testing.TB, k int) *manual {
	t.Helper()
	return newManualWith(t, k, func(_ uint64, cfg *Config) { cfg.Archive = true })
}

// aboutTheArchive tells the frames about the archive from raft's.
func aboutTheArchive(p parcel) bool {
	return p.channel == peer.ChannelControl && p.frame[0] >= controlFrames
}

// archiveWait is a call of Archived under way.
type archiveWait struct {
	t   testing.TB
	err chan error
}

// waitArchived begins to wait on a member, and returns once the call does.
func waitArchived(ctx context.Context, t testing.TB, n *Node, index uint64) *archiveWait {
	t.Helper()
	w, before := &archiveWait{t, make(chan error, 1)}, n.watermark.waiting.Load()
	go func() { w.err <- n.Archived(ctx, index) }()
	wait.Until(t, "the call waits", func() bool { return n.watermark.waiting.Load() == before+1 })
	return w
}

// waits checks that the call has not returned.
func (w *archiveWait) waits() {
	w.t.Helper()
	select {
	case err := <-w.err:
		w.t.Fatalf("answered before it was archived: %v", err)
	default:
	}
}

// ends checks that the call returns, with this error.
func (w *archiveWait) ends(want error) {
	w.t.Helper()
	select {
	case err := <-w.err:
		if !errors.Is(err, want) {
			w.t.Fatalf("%v, want %v", err, want)
		}
	case <-time.After(wait.Limit(w.t)):
		w.t.Fatal("the call waits")
	}
}

// wanted moves time on until the leader knows that index is waited for.
func (m *manual) wanted(n *Node, index uint64) {
	m.t.Helper()
	m.until(fmt.Sprintf("member %d knows that %d is waited for", n.id, index), func() bool {
		got, _ := n.ArchiveWanted()
		return got == index
	})
}

func (m *manual) knowArchived(index uint64) {
	m.t.Helper()
	m.until(fmt.Sprintf("all know that %d is archived", index), func() bool {
		for _, n := range m.nodes {
			if n.ArchivedIndex() != index {
				return false
			}
		}
		return true
	})
}

func TestArchivedIsHeardOnEveryMember(t *testing.T) {
	m := archiving(t, 3)
	m.writeOn(m.nodes[1], 10)
	m.same()
	leader, at := m.nodes[0], m.nodes[0].Status().Applied
	if index, _ := leader.ArchiveWanted(); index != 0 {
		t.Fatalf("%d is waited for, by nobody", index)
	}
	// The leader hears of a waiting caller on any member, once: its shipper is in no haste without one.
	var early, late []*archiveWait
	for i, n := range m.nodes {
		_, more := leader.ArchiveWanted()
		early = append(early, waitArchived(t.Context(), t, n, at-5+uint64(i)))
		m.wanted(leader, at-5+uint64(i))
		select {
		case <-more:
		default:
			t.Error("the shipper is not told that more is waited for")
		}
	}
	for _, n := range m.nodes {
		late = append(late, waitArchived(t.Context(), t, n, at), waitArchived(t.Context(), t, n, at))
	}
	m.wanted(leader, at)
	for i := range m.nodes { // the watermark passes one after the other
		leader.SetArchived(at - 5 + uint64(i))
		m.knowArchived(at - 5 + uint64(i))
		early[i].ends(nil)
		for _, w := range append(early[i+1:], late...) {
			w.waits()
		}
	}
	leader.SetArchived(at)
	m.knowArchived(at)
	for _, w := range late {
		w.ends(nil)
	}
	if index, _ := leader.ArchiveWanted(); index != 0 {
		t.Errorf("%d is waited for, and archived", index)
	}
	// It never falls, and what it covers is known at once.
	leader.SetArchived(at - 1)
	for _, n := range m.nodes {
		if got := n.ArchivedIndex(); got != at {
			t.Fatalf("member %d goes back to %d", n.id, got)
		}
		if err := n.Archived(t.Context(), at); err != nil {
			t.Error(err)
		}
		if q := len(n.watermark.queues); q != 0 || n.watermark.waiting.Load() != 0 {
			t.Errorf("%d queues are left", q)
		}
	}
}

// Frames about the archive are lost with a connection, or because a member is slow. A member with waiting callers asks again; without them,
// nothing is sent.
func TestALostWordAboutTheArchiveHangsNobody(t *testing.T) {
	m := archiving(t, 3)
	m.writeOn(m.nodes[0], 3)
	m.same()
	leader, follower, at := m.nodes[0], m.nodes[2], m.nodes[0].Status().Applied
	lost := map[byte]int{}
	loseAll := func(p parcel) bool {
		if aboutTheArchive(p) {
			lost[p.frame[0]]++
			return true
		}
		return false
	}
	m.lose = loseAll
	w := waitArchived(t.Context(), t, follower, at)
	m.until("questions are lost", func() bool { return lost[frameArchiveWanted] >= 3 })
	if index, _ := leader.ArchiveWanted(); index != 0 {
		t.Fatal(index)
	}
	m.lose = nil
	m.wanted(leader, at)
	m.lose = func(p parcel) bool { return aboutTheArchive(p) && p.frame[0] == frameArchived && loseAll(p) }
	leader.SetArchived(at)
	m.until("answers are lost", func() bool { return lost[frameArchived] >= 3 })
	w.waits()
	m.lose = nil
	m.until("it is heard", func() bool { return follower.ArchivedIndex() == at })
	w.ends(nil)
	// A member without waiting callers may have missed it, and hears when its connection is made anew.
	if got := m.nodes[1].ArchivedIndex(); got != 0 {
		t.Fatalf("%d came through", got)
	}
	m.nodes[1].Reconnected(leader.id, peer.ChannelControl)
	m.knowArchived(at)
	// Without an archive and without waiting callers, members have nothing to say about it.
	said := 0
	m.lose = func(p parcel) bool {
		if aboutTheArchive(p) {
			said++
		}
		return false
	}
	m.writeOn(leader, 20)
	end := m.clock.Mono() + 10*time.Second
	m.until("ten seconds are over", func() bool { return m.clock.Mono() > end })
	if said != 0 {
		t.Errorf("%d frames", said)
	}
	// One watermark is one frame to each member, and the callers for one index ask once for all.
	var ws []*archiveWait
	m.writeOn(leader, 1)
	m.same()
	for range 50 {
		ws = append(ws, waitArchived(t.Context(), t, follower, at+21))
	}
	m.wanted(leader, at+21)
	if said > 2 { // the question, and what the leader knows
		t.Errorf("%d frames for one index", said)
	}
	leader.SetArchived(at + 21)
	m.knowArchived(at + 21)
	for _, w := range ws {
		w.ends(nil)
	}
	if said > 4 {
		t.Errorf("%d frames", said)
	}
}

func TestTheArchiveOverAChangeOfLeader(t *testing.T) {
	m := archiving(t, 3)
	m.writeOn(m.nodes[0], 5)
	m.same()
	old, at := m.nodes[0], m.nodes[0].Status().Applied
	old.SetArchived(at - 2)
	m.knowArchived(at - 2)
	on2, on3 := waitArchived(t.Context(), t, m.nodes[1], at), waitArchived(t.Context(), t, m.nodes[2], at-1)
	m.wanted(old, at)
	// The leader dies. The next one knows the watermark, and hears anew what is waited for, from the others and here.
	m.crash(old.id)
	leader := m.leader()
	if got := leader.ArchivedIndex(); got != at-2 {
		t.Errorf("the next leader begins at %d", got)
	}
	m.wanted(leader, at)
	on2.waits()
	on3.waits()
	// The old one comes back, knows nothing and leads again: it hears from its shipper, or from the members with waiting callers.
	back := m.open(old.id)
	m.same()
	if got := back.ArchivedIndex(); got != 0 && got != at-2 {
		t.Error(got)
	}
	leader.TransferAsync(back.id)
	m.until("it leads again", func() bool { return back.pub.Load().leads != 0 })
	m.wanted(back, at)
	back.SetArchived(at - 1)
	m.knowArchived(at - 1)
	on3.ends(nil)
	on2.waits()
	back.SetArchived(at)
	m.knowArchived(at)
	on2.ends(nil)
}

func TestArchivedEndsWithItsCaller(t *testing.T) {
	m := archiving(t, 1)
	n := m.nodes[0]
	ctx, cancel := context.WithCancel(t.Context())
	gone, stays := waitArchived(ctx, t, n, 100), waitArchived(t.Context(), t, n, 100)
	other := waitArchived(ctx, t, n, 200)
	cancel()
	gone.ends(context.Canceled)
	other.ends(context.Canceled)
	if q := n.watermark.queues; len(q) != 1 || q[0].callers != 1 { // an archive that is away for a day must cost no memory
		t.Errorf("%+v", q)
	}
	n.Stop()
	stays.ends(ErrStopped)
}

// A member without an archive says so at once, and takes no part in what the others tell each other.
func TestWithoutAnArchiveNobodyWaits(t *testing.T) {
	m := newManualWith(t, 3, func(id uint64, cfg *Config) { cfg.Archive = id != 3 })
	told := 0
	m.lose = func(p parcel) bool {
		if aboutTheArchive(p) && (p.to == 3 || p.from == 3) {
			told++
		}
		return false
	}
	m.writeOn(m.nodes[0], 3)
	at := m.nodes[0].Status().Applied
	w := waitArchived(t.Context(), t, m.nodes[1], at)
	m.nodes[0].SetArchived(at)
	m.until("the other follower hears", func() bool { return m.nodes[1].ArchivedIndex() == at })
	w.ends(nil)
	if err := m.nodes[2].Archived(t.Context(), 1); !errors.Is(err, ErrNoArchive) {
		t.Error(err)
	}
	if told != 0 {
		t.Errorf("%d frames to or from a member without an archive, which may run a build that does not know them", told)
	}
}

// A damaged or foreign frame must not have the log shipped in haste for ever.
func TestWhatIsNotCommittedIsNotWanted(t *testing.T) {
	m := archiving(t, 3)
	leader := m.nodes[0]
	leader.HandleFrame(2, peer.ChannelControl, binary.AppendUvarint([]byte{frameArchiveWanted}, math.MaxUint64))
	m.step()
	if index, _ := leader.ArchiveWanted(); index != leader.Status().Commit {
		t.Errorf("%d is wanted, %d is committed", index, leader.Status().Commit)
	}
}

// A build before archives takes such a frame for a damaged message of raft's: it drops it and says so.
func TestFramesAboutTheArchiveAreNoMessagesOfRaft(t *testing.T) {
	m := archiving(t, 3)
	names, frames := controlFramesOf()
	for _, name := range names {
		if _, err := m.nodes[1].rep.Receive(1, frames[name]); err == nil {
			t.Errorf("%s was taken for a message", name)
		}
	}
}

func controlFramesOf() (names []string, frames map[string][]byte) {
	return []string{"archived", "archive wanted", "nothing wanted"}, map[string][]byte{
		"archived":       binary.AppendUvarint([]byte{frameArchived}, 300),
		"archive wanted": binary.AppendUvarint([]byte{frameArchiveWanted}, 1<<40),
		"nothing wanted": binary.AppendUvarint([]byte{frameArchiveWanted}, 0)}
}

// The golden file pins the frames; what members really send has the same form.
func TestControlGolden(t *testing.T) {
	names, frames := controlFramesOf()
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "# %s\n%s", name, hex.Dump(frames[name]))
	}
	golden.Check(t, "testdata/control.hex", b.String())

	m := archiving(t, 3)
	m.writeOn(m.nodes[0], 1)
	m.same()
	seen := map[string]bool{}
	m.lose = func(p parcel) bool {
		if aboutTheArchive(p) && (p.from == 2 || p.to == 2) {
			seen[string(p.frame)] = true
		}
		return false
	}
	at := m.nodes[0].Status().Applied
	w := waitArchived(t.Context(), t, m.nodes[1], at)
	m.wanted(m.nodes[0], at)
	m.nodes[0].SetArchived(at)
	m.knowArchived(at)
	w.ends(nil)
	for _, want := range [][]byte{binary.AppendUvarint([]byte{0x81}, at), binary.AppendUvarint([]byte{0x80}, at)} {
		if !seen[string(want)] {
			t.Errorf("no frame %x among %q", want, slices.Sorted(maps.Keys(seen)))
		}
	}
}

// No frame of the control channel stops a member, moves its watermark back, or has it wait for what is not committed.
func FuzzControlFrame(f *testing.F) {
	_, frames := controlFramesOf()
	for _, b := range frames {
		f.Add(b)
	}
	m := archiving(f, 3)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 || b[0] < controlFrames {
			return // raft's: core/raft.FuzzMessage
		}
		for _, to := range []*Node{m.nodes[0], m.nodes[1]} {
			before := to.ArchivedIndex()
			to.HandleFrame(3, peer.ChannelControl, bytes.Clone(b))
			if err := to.drainInbox(); err != nil {
				t.Fatal(err)
			}
			if to.ArchivedIndex() < before {
				t.Fatal("the watermark fell")
			}
			if index, _ := to.ArchiveWanted(); index > to.Status().Commit {
				t.Fatalf("%d is wanted, %d is committed", index, to.Status().Commit)
			}
		}
		m.take()
	})
}

// A read between two entries may see one that Status does not name yet: ReadIndex decides what may be shown.
func TestTheReadIndexCoversWhatIsSeen(t *testing.T) {
	m := archiving(t, 1)
	n, looked := m.nodes[0], false
	err := n.ProposeAsync(LaneKV, 0, []entry.Part{putPart("k", "v")}, func(res *entry.Result, err error) { // on the loop, as soon as it is visible
		if _, version := read(t, n, "k"); err != nil || version != 1 {
			t.Error(err, version)
		}
		if got, index := n.ReadIndex(), res.Pos.Index; got < index {
			t.Errorf("a read of entry %d would be shown once %d is archived", index, got)
		}
		looked = true
	})
	if err != nil {
		t.Fatal(err)
	}
	m.until("it is applied", func() bool { return looked })
}
