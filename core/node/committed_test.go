package node

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
)

// committed reads all of a member's log that Committed gives, from the index from on, by questions of so many bytes.
func committed(t testing.TB, n *Node, from uint64, maxBytes int) (all []Entry) {
	t.Helper()
	for from <= n.Status().Applied {
		es, err := n.Committed(t.Context(), from, maxBytes)
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, e := range es {
			if e.Index != from {
				t.Fatalf("entry %d in the place of %d", e.Index, from)
			}
			from++
			size += len(e.Data) + entryCharge
		}
		if len(es) == 0 || len(es) > 1 && size > maxBytes {
			t.Fatalf("%d entries of %d bytes, asked for %d", len(es), size, maxBytes)
		}
		if full := from > n.Status().Applied; !full && size+largest(t, n, from) <= maxBytes {
			t.Fatalf("%d entries of %d bytes, asked for %d, and there are more", len(es), size, maxBytes)
		}
		all = append(all, es...)
	}
	return all
}

// largest is what the entry at index counts.
func largest(t testing.TB, n *Node, index uint64) int {
	t.Helper()
	es, err := n.wal.Entries(index, index+1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return len(es[0].Data) + entryCharge
}

func sameEntries(a, b []Entry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Index != b[i].Index || a[i].Term != b[i].Term || a[i].Type != b[i].Type || !bytes.Equal(a[i].Data, b[i].Data) {
			return false
		}
	}
	return true
}

// Every member gives the same entries, the changes of members among them, in pieces of any size.
func TestCommittedIsTheLogOfAllMembers(t *testing.T) {
	m := newManual(t, 3)
	m.writeOn(m.nodes[0], 20)
	m.add(4, true)
	for range 60 { // more than one question to the log gives at once
		o := m.propose(m.nodes[0], "large", strings.Repeat("x", 10_000))
		m.until("applied", func() bool { return o.done })
	}
	m.same()
	want := committed(t, m.nodes[0], 2, 1<<20)
	changes, size := 0, 0
	for _, e := range want {
		size += len(e.Data)
		if e.Type != 0 {
			changes++
		}
	}
	if changes != 1 || size < 2*readAtOnce {
		t.Fatalf("%d membership changes, %d bytes in %d entries", changes, size, len(want))
	}
	for _, n := range m.nodes {
		first := uint64(2)
		if n.id == 4 {
			first = n.wal.FirstIndex() // it began with a snapshot
		}
		for _, maxBytes := range []int{-1, 0, 1, 700, 5_000, readAtOnce - 1, readAtOnce + 1, 1 << 30} {
			if got := committed(t, n, first, maxBytes); !sameEntries(got, want[first-2:]) {
				t.Errorf("member %x by %d bytes: %d entries from %d on, which are not the %d of member 1", n.id, maxBytes, len(got), first, len(want))
			}
		}
		// Indexes in front of the log are in no entry.
		for _, from := range []uint64{0, first - 1} {
			if _, err := n.Committed(t.Context(), from, 1); !errors.Is(err, ErrTruncated) {
				t.Errorf("member %x, entry %d: %v", n.id, from, err)
			}
		}
	}
	// One that was restarted reads it from its files.
	m.crash(2)
	again := m.open(2)
	m.same()
	if got := committed(t, again, 2, 4_000); !sameEntries(got[:len(want)], want) {
		t.Error("other entries after a restart")
	}
}

// An entry in a member's log that is not applied there may still be taken back.
func TestCommittedGivesNothingBeforeItIsApplied(t *testing.T) {
	m := newManual(t, 3)
	lead := m.nodes[0]
	m.writeOn(lead, 3)
	m.same()
	m.lose = func(parcel) bool { return true }
	m.propose(lead, "k", "never")
	for range 5 {
		m.step()
	}
	if lead.wal.LastIndex() <= lead.appliedIdx {
		t.Fatalf("the log ends at %d, and all of it is applied", lead.wal.LastIndex())
	}
	if es := committed(t, lead, 2, 1<<20); es[len(es)-1].Index != lead.appliedIdx {
		t.Errorf("entry %d is given, %d is applied", es[len(es)-1].Index, lead.appliedIdx)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if es, err := lead.Committed(ended, lead.appliedIdx+1, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("%d entries, %v", len(es), err)
	}
}

// A call waits for its entry, and no longer than its context or the node. Without waiting readers, the loop makes nothing of it.
func TestCommittedWaits(t *testing.T) {
	n := startAlone(t, t.TempDir(), nil)
	await(t, "announced", n.Announced)
	type answer struct {
		es  []Entry
		err error
	}
	// ask waits for the first entry that is not there yet. The status may report an applied entry later than a proposer hears of it: an
	// existing one is answered, and the next is asked for.
	from := n.Status().Applied + 1
	ask := func(ctx context.Context) <-chan answer {
		for {
			c := make(chan answer, 1)
			go func() {
				es, err := n.Committed(ctx, from, 1<<20)
				c <- answer{es, err}
			}()
			await(t, "it waits, or is answered", func() bool { return n.feed.waiting.Load() == 1 || len(c) == 1 })
			if len(c) == 0 {
				return c
			}
			a := <-c
			if a.err != nil {
				t.Fatal(a.err)
			}
			from = a.es[len(a.es)-1].Index + 1
		}
	}
	for i := range 50 {
		c := ask(t.Context())
		select {
		case a := <-c:
			t.Fatalf("answered before there was an entry: %v", a)
		case <-time.After(time.Duration(i%2) * time.Millisecond):
		}
		mustPropose(t, n, "k", "v")
		if a := <-c; a.err != nil || len(a.es) == 0 || a.es[0].Index != from {
			t.Fatalf("%v", a)
		}
	}
	await(t, "nobody waits", func() bool { return n.feed.waiting.Load() == 0 })
	before := n.feed.more.wait()
	mustPropose(t, n, "k", "v")
	mustPropose(t, n, "k", "v")
	if n.feed.more.wait() != before {
		t.Error("nobody waited, and somebody was woken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := ask(ctx)
	cancel()
	if a := <-c; !errors.Is(a.err, context.Canceled) {
		t.Fatalf("%v", a)
	}
	await(t, "nobody waits", func() bool { return n.feed.waiting.Load() == 0 })
	c = ask(t.Context())
	n.Stop()
	if a := <-c; !errors.Is(a.err, ErrStopped) {
		t.Fatalf("%v", a)
	}
	if es, err := n.Committed(t.Context(), 2, 1); !errors.Is(err, ErrStopped) {
		t.Fatalf("%d entries of a stopped node, %v", len(es), err)
	}
}

// Readers at every place of a log that is written, truncated and closed beside them get entries or an error that says why not.
func TestCommittedBesideEverything(t *testing.T) {
	n := startAlone(t, t.TempDir(), func(cfg *Config) { cfg.SegmentBytes, cfg.TruncateEvery = 16<<10, time.Millisecond })
	done := make(chan int)
	for range 3 {
		go func() {
			from, got := uint64(2), 0
			for {
				es, err := n.Committed(t.Context(), from, 8<<10)
				switch {
				case err == nil:
					got += len(es)
					from = es[len(es)-1].Index + 1
				case errors.Is(err, ErrTruncated):
					from = n.Status().Applied + 1
				case errors.Is(err, ErrStopped):
					done <- got
					return
				default:
					t.Error(err)
					done <- got
					return
				}
			}
		}()
	}
	for i := range 600 {
		mustPropose(t, n, "k", strings.Repeat("x", 300))
		if i%50 == 0 {
			if err := n.store.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.Stop()
	for range 3 {
		if got := <-done; got < 100 {
			t.Errorf("a reader got %d entries", got)
		}
	}
	if err := n.Failure(); err != nil {
		t.Error(err)
	}
}

// The log of this member is what it answers for: damage of it stops the node, found by any reader.
func TestCommittedOverADamagedLogStopsTheNode(t *testing.T) {
	m := newManual(t, 1)
	n := m.nodes[0]
	for range 60 { // out of the memory that holds the newest entries
		o := m.propose(n, "k", strings.Repeat("x", 100_000))
		m.until("applied", func() bool { return o.done })
	}
	damageLog(t, m.fs[1], "data/wal", []byte("xxxx"))
	if es, err := n.Committed(t.Context(), 2, 1<<20); err == nil {
		t.Fatalf("%d entries of a damaged log", len(es))
	}
	if err := n.Pump(); err == nil || !strings.Contains(err.Error(), "corrupt") {
		t.Errorf("the node goes on: %v", err)
	}
}

// damageLog changes a byte of the first place in a log where these bytes stand.
func damageLog(t *testing.T, fs disk.FS, dir string, where []byte) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name = filepath.Join(dir, name)
		b, err := fs.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(b, where)
		if at < 0 {
			continue
		}
		f, err := fs.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte{^where[0]}, int64(at)); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%q stands nowhere in %s", where, dir)
}
