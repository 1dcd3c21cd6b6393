package objstore

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
)

var (
	cuts     = flag.Int("cuts", 1000, "power cuts of the test of the directory")
	firstCut = flag.Uint64("firstcut", 1, "its first seed")
)

// deed is one attempt to change an object. begin and end are numbers of one clock; an attempt that the power ended has no end.
type deed struct {
	begin, end int64
	acked      bool
	absent     bool   // it removes
	exists     bool   // it was answered ErrExists: an object is durable
	created    bool   // it was answered that it is the one that created
	content    string // of a put
}

const never = int64(1) << 62

// ledger is what callers of a store were told, of each name.
type ledger struct {
	mu    sync.Mutex
	deeds map[string][]*deed // guarded by mu
	clock atomic.Int64
}

func (l *ledger) begin(name string, d deed) *deed {
	l.mu.Lock()
	defer l.mu.Unlock()
	d.begin, d.end = l.clock.Add(1), never
	l.deeds[name] = append(l.deeds[name], &d)
	return &d
}

// end notes what a call was answered. An error other than those of a condition leaves open what was done.
func (l *ledger) end(d *deed, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		d.end, d.acked = l.clock.Add(1), true
	case errors.Is(err, ErrExists):
		d.end, d.exists, d.content = l.clock.Add(1), true, ""
	case errors.Is(err, ErrChanged):
		d.end, d.content = l.clock.Add(1), ""
	}
}

// judge compares an object after the cut with the answers.
func (l *ledger) judge(name, content string, there bool) error {
	deeds := l.deeds[name]
	removals, created := 1, 0
	for _, d := range deeds {
		if d.absent {
			removals++
		}
		if d.created && d.acked {
			created++
		}
	}
	if created > removals {
		return fmt.Errorf("%d have created it, it was removed %d times", created, removals-1)
	}
	if !there {
		return l.mayBeAbsent(deeds)
	}
	for _, d := range deeds {
		if d.content != content || content == "" {
			continue
		}
		for _, later := range deeds {
			if later != d && later.acked && later.content != "" && later.begin >= d.end {
				return fmt.Errorf("it holds %.20q, which was replaced by %.20q", content, later.content)
			}
		}
		return nil
	}
	return fmt.Errorf("it holds %d bytes that nobody has put: %.40q", len(content), content)
}

func (l *ledger) mayBeAbsent(deeds []*deed) error {
	for _, d := range deeds {
		if !(d.acked && d.content != "") && !d.exists {
			continue
		}
		removed := false
		for _, r := range deeds {
			removed = removed || r.absent && r.end > d.begin
		}
		if !removed {
			return fmt.Errorf("it is gone, but was acknowledged: %+v", *d)
		}
	}
	return nil
}

// fair lets other goroutines run between the calls of a disk.
type fair struct{ disk.FS }

func (f fair) yield() {
	if rand.IntN(3) == 0 {
		runtime.Gosched()
	}
}
func (f fair) SyncDir(dir string) error      { f.yield(); return f.FS.SyncDir(dir) }
func (f fair) Rename(old, name string) error { f.yield(); return f.FS.Rename(old, name) }
func (f fair) Link(old, name string) error   { f.yield(); return f.FS.Link(old, name) }
func (f fair) MkdirMode(dir string, mode fs.FileMode) error {
	defer f.yield()
	return f.FS.MkdirMode(dir, mode)
}

var cutNames = []string{"a/o", "a/p", "b/c/o", "b/c/p", "b/q", "r"}

// TestNothingAcknowledgedIsLostByAPowerCut: random calls of one to four writers, by one value and by several, as processes that die and are
// started again. The power goes at a random call of the disk. Acknowledged objects are there and whole, or were replaced or removed by a
// later call. An object said to exist exists. Then all goes on, to the next cut.
func TestNothingAcknowledgedIsLostByAPowerCut(t *testing.T) {
	n := *cuts
	if testing.Short() {
		n = min(n, 100)
	}
	for seed := *firstCut; seed < *firstCut+uint64(n); seed++ {
		if err := cutOnce(t.Context(), seed); err != nil {
			t.Fatalf("-cuts 1 -firstcut %d: %v", seed, err)
		}
	}
}

// cutOnce is two rounds of calls and a cut on one disk.
func cutOnce(ctx context.Context, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	m := disk.NewMem()
	l := &ledger{deeds: map[string][]*deed{}}
	for round := range 2 {
		writers := 1 + rng.IntN(4)
		if rng.IntN(3) == 0 { // a process that dies, and leaves names that are not durable
			m.PowerOffAfter(rng.IntN(40))
			l.write(ctx, m, rng.Uint64(), writers, 40)
			m.PowerOffAfter(-1)
		}
		m.PowerOffAfter(rng.IntN(30 + 90*writers))
		l.write(ctx, m, rng.Uint64(), writers, 100)
		cut := rng
		if rng.IntN(3) == 0 {
			cut = nil
		}
		m.Crash(cut)
		if err := l.look(ctx, m); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// write makes calls until the power is off.
func (l *ledger) write(ctx context.Context, m *disk.Mem, seed uint64, writers, calls int) {
	var wg sync.WaitGroup
	shared := newCut(m, seed)
	for w := range writers {
		rng := rand.New(rand.NewPCG(seed, uint64(w)+1))
		wg.Go(func() {
			s := shared
			if w%2 == 1 {
				s = newCut(m, seed+uint64(w))
			}
			for range calls {
				if l.call(ctx, s, rng) {
					return
				}
			}
		})
	}
	wg.Wait()
}

func newCut(m *disk.Mem, seed uint64) *File {
	var fs disk.FS = m
	if seed%2 == 0 {
		fs = fair{m}
	}
	return NewFile("/mnt/backup/store", OnDisk(fs))
}

// call makes one random call, and reports whether the power was off.
func (l *ledger) call(ctx context.Context, s *File, rng *rand.Rand) (off bool) {
	name := cutNames[rng.IntN(len(cutNames))]
	content := fmt.Sprintf("%016x", rng.Uint64()) + strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(1500))
	o := object(name, content)
	var err error
	switch k := rng.IntN(20); {
	case k < 5:
		d := l.begin(name, deed{content: content})
		err = s.Put(ctx, o)
		l.end(d, err)
	case k < 7: // several at once
		other := object(cutNames[rng.IntN(len(cutNames))], content+"-2")
		d, d2 := l.begin(name, deed{content: content}), l.begin(other.Name, deed{content: content + "-2"})
		err = s.Put(ctx, o, other)
		l.end(d, err)
		l.end(d2, err)
		if name == other.Name && err == nil { // the second has replaced the first
			l.mu.Lock()
			d.end = d2.begin
			l.mu.Unlock()
		}
	case k < 12:
		d := l.begin(name, deed{content: content, created: true})
		err = s.PutIfAbsent(ctx, o)
		l.end(d, err)
	case k < 15:
		_, was, readErr := s.GetVersion(ctx, name)
		if readErr != nil && !errors.Is(readErr, ErrAbsent) {
			return errors.Is(readErr, disk.ErrPowerOff)
		}
		d := l.begin(name, deed{content: content, created: was == Absent})
		_, err = s.PutIfMatch(ctx, o, was)
		l.end(d, err)
	case k < 18:
		ifAbsent := k == 17
		d := l.begin(name, deed{content: content, created: ifAbsent})
		err = s.PutFrom(ctx, name, int64(len(content)), bytes.NewReader(o.Data), ifAbsent)
		l.end(d, err)
	case k == 18:
		d := l.begin(name, deed{absent: true})
		err = s.Delete(ctx, name)
		l.end(d, err)
	default:
		var all []*deed
		for _, n := range cutNames {
			if strings.HasPrefix(n, "b/") {
				all = append(all, l.begin(n, deed{absent: true}))
			}
		}
		err = s.DeleteAll(ctx, "b")
		for _, d := range all {
			l.end(d, err)
		}
	}
	return errors.Is(err, disk.ErrPowerOff)
}

// look reads everything after a cut, and begins a new account with the found objects.
func (l *ledger) look(ctx context.Context, m *disk.Mem) error {
	s := newCut(m, 1)
	var listed []string
	for o, err := range s.List(ctx, "", "") {
		if err != nil {
			return err
		}
		listed = append(listed, o.Name)
	}
	var found []string
	next := map[string][]*deed{}
	for _, name := range cutNames {
		b, err := s.Get(ctx, name)
		if err != nil && !errors.Is(err, ErrAbsent) {
			return err
		}
		if err := l.judge(name, string(b), err == nil); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err == nil {
			found = append(found, name)
			next[name] = []*deed{{acked: true, content: string(b)}}
		}
	}
	sort.Strings(found)
	if strings.Join(listed, " ") != strings.Join(found, " ") {
		return fmt.Errorf("listed are %q, there are %q", listed, found)
	}
	l.deeds = next
	return nil
}

// TestWhatAnotherWriterLeftIsDurable: another process may have died at every call, with names and directories that it made and did not
// sync. An answer of this one holds all the same. The other has removed and made anew what this one knew.
func TestWhatAnotherWriterLeftIsDurable(t *testing.T) {
	ctx := t.Context()
	for cut, ended := 0, false; !ended; cut++ {
		m := disk.NewMem()
		s := newCut(m, 1)
		do(t, s.Put(ctx, object("b/c/o", "1")))
		other := newCut(m, 1)
		m.PowerOffAfter(cut)
		ended = errors.Join(other.DeleteAll(ctx, "b"), other.PutIfAbsent(ctx, object("b/c/o", "2"))) == nil
		m.PowerOffAfter(-1) // the process died, the machine did not
		if err := s.PutIfAbsent(ctx, object("b/c/o", "3")); err != nil && !errors.Is(err, ErrExists) {
			t.Fatalf("cut %d: %v", cut, err)
		}
		m.Crash(nil)
		if b, err := newCut(m, 1).Get(ctx, "b/c/o"); err != nil || len(b) != 1 {
			t.Errorf("cut %d: %q, %v", cut, b, err)
		}
	}
}
