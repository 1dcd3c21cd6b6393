package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
)

// into restores into a directory.
func into(dir string, s objstore.Store, how Restoring) (*Restored, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	a, err := Open(ctx, s, 0, nil)
	if err != nil {
		return nil, err
	}
	cfg := house()
	cfg.Dir, how.From, how.Name = dir, "memory", "r1"
	return a.Restore(ctx, cfg, how)
}

// rowsIn are the rows of a directory's store.
func rowsIn(t testing.TB, dir string) map[string]string {
	t.Helper()
	st, err := store.Open(filepath.Join(dir, "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	return rowsOf(t, st)
}

func rowsOf(t testing.TB, st store.Reader) map[string]string {
	t.Helper()
	it, err := st.NewIter(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	all := map[string]string{}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		all[string(it.Key())] = string(v)
	}
	return all
}

// rowsAt are those that the server had.
func (l *life) rowsAt(t testing.TB, index uint64) map[string]string {
	t.Helper()
	st := store.NewMem()
	if _, err := node.LoadSnapshot(house(), st, bytes.NewReader(l.saved[l.first])); err != nil {
		t.Fatal(err)
	}
	r, err := node.NewReplay(house(), st)
	if err == nil {
		err = r.Apply(l.entries[:index-l.first])
	}
	if err != nil {
		t.Fatal(err)
	}
	return rowsOf(t, st)
}

// difference are the rows that a has otherwise than b, or not, or that it has and b has not.
func difference(a, b map[string]string) map[string]bool {
	all := map[string]bool{}
	for k, v := range a { // any order
		if was, ok := b[k]; !ok || was != v {
			all[k] = true
		}
	}
	for k := range b { // any order
		if _, ok := a[k]; !ok {
			all[k] = true
		}
	}
	return all
}

// TestARestoredStateIsTheMembersButForWhatARestoreChanges, row by row. A restore changes who belongs to the cluster, the two counters that
// clients remember, and the earlier v2 events. It also changes that logs and transactions are held. All of that is told.
func TestARestoredStateIsTheMembersButForWhatARestoreChanges(t *testing.T) {
	t.Parallel()
	l, r := theLife(t), rand.New(rand.NewPCG(7, 7))
	s := l.archived(t, r)
	n := 6
	if testing.Short() {
		n = 2
	}
	for i := range n {
		index := l.first + 20 + r.Uint64N(l.last-l.first-20)
		how, changed := Restoring{At: At{Index: index}}, map[string]bool{}
		switch i {
		case 0:
			index, how.At = l.last, At{}
		case 1:
			for index < l.last && l.walls[index+1] == l.walls[index] {
				index++
			}
			how.At = At{Time: time.Unix(0, l.walls[index])}
		}
		how.Row = func(key, was, is []byte) error {
			if !bytes.Equal(was, is) {
				changed[string(key)] = true
			}
			return nil
		}
		dir := filepath.Join(t.TempDir(), "restored")
		out, err := into(dir, s, how)
		if err != nil {
			t.Fatal(err)
		}
		if out.State.Index != index || out.Hash != l.hashes[index] || out.State.WallNs != l.walls[index] || out.End.Index != l.last || out.Missing != nil {
			t.Errorf("%s: %+v", how.At, out)
		}
		is, had := rowsIn(t, dir), l.rowsAt(t, index)
		diff := difference(is, had)
		for key := range diff { // any order
			if !changed[key] {
				t.Errorf("%s: row %q is another and was not told", how.At, key)
			}
		}
		if len(changed) != len(diff) {
			t.Errorf("%s: %d rows were told, %d are others", how.At, len(changed), len(diff))
		}
		want := map[string]string{"\x00conf": "one voter", "ks": "revision", "ei": "index of v2", "gc": "transactions held"}
		for key := range diff { // any order
			switch {
			case strings.HasPrefix(key, "mm"), strings.HasPrefix(key, "eh"), strings.HasPrefix(key, "tl"):
			case want[key] == "":
				t.Errorf("%s: row %q is another", how.At, key)
			}
		}
		for key, what := range want { // any order
			if _, there := had[key]; there && !diff[key] {
				t.Errorf("%s: row %q, %s, is as it was", how.At, key, what)
			}
		}
		for _, name := range []string{planName, partsName} {
			if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is still there", name)
			}
		}
		if i == 0 {
			begins(t, l, dir)
		}
	}
}

// begins starts a restored server and writes to it.
func begins(t *testing.T, l *life, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	cfg := house()
	cfg.Dir = dir
	n, err := node.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop()
	if cluster, _ := n.IDs(); cluster == l.cluster || cluster == 0 {
		t.Errorf("cluster %x was restored as %x", l.cluster, cluster)
	}
	for {
		res, err := n.Propose(ctx, lane, write(rand.New(rand.NewPCG(1, 1)), 1000)...)
		if err == nil && res.Pos.Index > l.last {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(res, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// cutStore fails for good after some reads of objects.
type cutStore struct {
	objstore.Store
	left atomic.Int64
}

var errCut = errors.New("the connection is cut")

func (c *cutStore) Get(ctx context.Context, name string) ([]byte, error) {
	if c.left.Add(-1) < 0 {
		return nil, fmt.Errorf("get %s: %w", name, errCut)
	}
	return c.Store.Get(ctx, name)
}

// TestAnInterruptedRestoreGoesOn where it was, after any interruption. Until it has ended no server starts on the directory, nor does
// another restore continue it.
func TestAnInterruptedRestoreGoesOn(t *testing.T) {
	l, r := theLife(t), rand.New(rand.NewPCG(8, 8))
	memory := l.archived(t, r)
	dir := filepath.Join(t.TempDir(), "restored")
	began, rounds := false, 0
	for ; ; rounds++ {
		if rounds > 100 {
			t.Fatal("it does not come to an end")
		}
		s := &cutStore{Store: memory}
		s.left.Store(8 + int64(rounds))
		a := opened(t, s)
		a.tasks = impatient{a.tasks}
		cfg := house()
		cfg.Dir = dir
		out, err := a.Restore(t.Context(), cfg, Restoring{From: "memory", Name: "r1", At: At{Index: l.last - 3}, every: 1 + 1000*int64(rounds%2)})
		if err == nil {
			if out.State.Index != l.last-3 || out.Hash != l.hashes[l.last-3] || !out.Resumed {
				t.Errorf("%+v", out)
			}
			break
		}
		if !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		if making, err := node.MakingIn(cfg); err != nil {
			t.Fatal(err)
		} else if making == "" {
			continue // nothing was begun
		}
		if began {
			continue
		}
		if _, err := node.Start(t.Context(), cfg, node.StartOptions{Name: "r1"}); err == nil || !strings.Contains(err.Error(), making) {
			t.Errorf("a server starts with half a restore: %v", err)
		}
		for _, how := range []Restoring{{From: "elsewhere", At: At{Index: l.last - 3}}, {From: "memory", At: At{Index: l.last}}, {From: "memory"}} {
			if _, err := opened(t, memory).Restore(t.Context(), cfg, how); err == nil || !strings.Contains(err.Error(), "another restore") {
				t.Errorf("another restore goes on with it: %v", err)
			}
			began = true
		}
	}
	if rounds < 2 || !began {
		t.Errorf("it was interrupted %d times", rounds)
	}
	if diff := difference(rowsIn(t, dir), l.rowsAt(t, l.last-3)); !diff["\x00conf"] || !diff["ks"] || diff["\x00state"] {
		t.Errorf("%v", diff)
	}
}

// TestARestoreThatWasCutOffBetweenItsLastSteps changes rows once: a revision that is raised twice is another one for clients.
func TestARestoreThatWasCutOffBetweenItsLastSteps(t *testing.T) {
	l, r := theLife(t), rand.New(rand.NewPCG(9, 9))
	s, dir := l.archived(t, r), filepath.Join(t.TempDir(), "restored")
	if _, err := into(dir, s, Restoring{}); err != nil {
		t.Fatal(err)
	}
	once := rowsIn(t, dir)
	// The same in steps: the state was come to, the rows are changed and durable, and the identity does not say so yet.
	again := filepath.Join(t.TempDir(), "again")
	cfg := house()
	cfg.Dir, cfg.FS = again, &failing{FS: disk.OS(), at: "identity.json", after: 1}
	if _, err := opened(t, s).Restore(t.Context(), cfg, Restoring{From: "memory", Name: "r1"}); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	half := rowsIn(t, again)
	if half["ks"] != once["ks"] {
		t.Fatal("the rows were not changed yet: this test shows nothing")
	}
	if _, err := into(again, s, Restoring{}); err != nil {
		t.Fatal(err)
	}
	if twice := rowsIn(t, again); len(difference(twice, half)) > 0 || twice["ks"] != once["ks"] {
		t.Errorf("rows were changed twice: %v", difference(twice, half))
	}
}

// failing fails to write a file, after some times.
type failing struct {
	disk.FS
	at    string
	after int
}

func (f *failing) WriteFileAtomic(name string, data []byte) error {
	if filepath.Base(name) == f.at {
		if f.after--; f.after < 0 {
			return errCut
		}
	}
	return f.FS.WriteFileAtomic(name, data)
}

// TestARestoreWritesOverNothing: a directory that holds anything is refused, and is as it was.
func TestARestoreWritesOverNothing(t *testing.T) {
	l, r := theLife(t), rand.New(rand.NewPCG(10, 10))
	s, dir := l.archived(t, r), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := into(dir, s, Restoring{}); !errors.Is(err, ErrNotEmpty) {
		t.Error(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Error(names, err)
	}
	whole := filepath.Join(t.TempDir(), "restored")
	if err := os.MkdirAll(filepath.Join(whole, disk.LostAndFound), 0o700); err != nil { // a file system of its own is empty
		t.Fatal(err)
	}
	if _, err := into(whole, s, Restoring{}); err != nil {
		t.Fatal(err)
	}
	was := rowsIn(t, whole)
	if _, err := into(whole, s, Restoring{}); err == nil {
		t.Error("a restore over a restore")
	}
	if len(difference(rowsIn(t, whole), was)) > 0 {
		t.Error("the directory is another")
	}
}

// TestWhatIsNotInTheArchive is refused before anything is made, by naming the found objects.
func TestWhatIsNotInTheArchive(t *testing.T) {
	l, r := theLife(t), rand.New(rand.NewPCG(11, 11))
	s, dir := l.archived(t, r), filepath.Join(t.TempDir(), "restored")
	for _, at := range []At{{Index: l.last + 1}, {Index: l.first - 1}, {Time: time.Unix(0, l.walls[l.first]-1)}} {
		if _, err := into(dir, s, Restoring{At: at}); !errors.Is(err, ErrNotInArchive) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, err := into(dir, objstore.NewMemory(), Restoring{}); !errors.Is(err, ErrNoArchive) {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("something was made")
	}
	// A time behind the end means the end: no later entry is known.
	if out, err := into(dir, s, Restoring{At: At{Time: time.Unix(0, l.walls[l.last]).Add(time.Hour)}}); err != nil || out.State.Index != l.last {
		t.Errorf("%+v %v", out, err)
	}
}

// TestSeveralTimelines: one has to be named, and the others are listed with their ends.
func TestSeveralTimelines(t *testing.T) {
	l, r := theLife(t), rand.New(rand.NewPCG(12, 12))
	s := l.archived(t, r)
	put(t, s, "probe-1/conditional", []byte("not of an archive"))
	opened(t, s)
	other := format.Manifest{Cluster: 9, Timeline: 9, Index: 70, Term: 2, WallNs: 5e18}
	if _, err := PutSnapshot(t.Context(), s, other, strings.NewReader("snapshot"), nil); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), s, 0, nil)
	var several *SeveralError
	if !errors.As(err, &several) || len(several.Timelines) != 2 || several.Timelines[0] != (TimelineInfo{Timeline: 9, End: Mark{70, 5e18}}) ||
		several.Timelines[1] != (TimelineInfo{Timeline: l.cluster, End: Mark{l.last, l.walls[l.last]}}) {
		t.Errorf("%v", err)
	}
	if _, err := Open(t.Context(), s, 8, nil); !errors.As(err, &several) {
		t.Error(err)
	}
	if a, err := Open(t.Context(), s, l.cluster, nil); err != nil || a.Timeline != l.cluster {
		t.Error(a, err)
	}
}

// TestSpansThatOverlap are harmless, and close a hole in the chain; from every index on the log is found, wherever it was cut.
func TestSpansThatOverlap(t *testing.T) {
	t.Parallel()
	l := theLife(t)
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 13))
		s := l.archived(t, r)
		// Another member's uploads in flight are there as well, except some objects.
		e := format.NewEncoder(format.Tip{Cluster: l.cluster, Timeline: l.cluster, Last: l.first, Term: l.terms[l.first]}, 1<<20)
		for e.Tip().Last < l.last {
			for range 1 + r.IntN(30) {
				if next := e.Tip().Last + 1; next <= l.last {
					if _, err := e.Append(format.Entry(l.entries[next-l.first-1])); err != nil {
						t.Fatal(err)
					}
				}
			}
			if name, b := e.Finish(l.hashes[e.Tip().Last]); r.IntN(3) > 0 {
				_ = s.PutIfAbsent(t.Context(), objstore.Object{Name: name, Data: b}) // an error: it is there
			}
		}
		v, found := proved(t, s, At{})
		if v.Wrong > 0 || v.Content != l.had[l.last] || v.Snapshots != len(l.saved) {
			t.Fatalf("seed %d: %+v %v", seed, v, found)
		}
		a := opened(t, s)
		for range 20 {
			from := l.first + r.Uint64N(l.last-l.first)
			c, err := a.chainFrom(t.Context(), format.Tip{Cluster: l.cluster, Timeline: l.cluster, Last: from, Term: l.terms[from]})
			if err != nil {
				t.Fatal(err)
			}
			if span, err := c.next(t.Context()); err != nil || span.First > from+1 || span.Last <= from {
				t.Errorf("seed %d: from %d comes %+v, %v", seed, from+1, span, err)
			}
		}
		// A link is gone: what overlaps with it closes the hole, or it is named.
		names := kinds(s)["span"]
		gone := names[1+r.IntN(len(names)-2)]
		if err := s.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		if v, found := proved(t, s, At{}); v.Content != l.had[v.At.Index] || (v.At.Index != l.last || v.Wrong > 0) && !strings.Contains(fmt.Sprint(found), "missing") {
			t.Errorf("seed %d, without %s: %+v %v", seed, gone, v, found)
		}
	}
}

// TestTheEndIsWhereTheEntriesEnd: a leader died with a span uploaded and its predecessor missing, and the next one put a longer one that
// covers both. The name that sorts last is not the one that goes furthest.
func TestTheEndIsWhereTheEntriesEnd(t *testing.T) {
	t.Parallel()
	l := theLife(t)
	s := objstore.NewMemory()
	l.snapshot(t, s, l.first)
	cut := func(at ...uint64) { // spans of one shipper, of which the last is there
		e := format.NewEncoder(format.Tip{Cluster: l.cluster, Timeline: l.cluster, Last: l.first, Term: l.terms[l.first]}, 1<<20)
		for i, end := range at {
			for next := e.Tip().Last + 1; next <= end; next++ {
				if ok, err := e.Append(format.Entry(l.entries[next-l.first-1])); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
			if name, b := e.Finish(l.hashes[end]); i == len(at)-1 {
				put(t, s, name, b)
			}
		}
	}
	middle := l.first + (l.last-l.first)/2
	cut(middle)
	cut(middle, middle+8, middle+12) // the first two of that leader's never arrived
	cut(middle, l.last)
	if end, err := opened(t, s).End(t.Context()); err != nil || end.Index != l.last {
		t.Fatalf("the end is %d, %v; the entries end with %d", end.Index, err, l.last)
	}
	if v, found := proved(t, s, At{}); v.At.Index != l.last || v.Content != l.had[l.last] {
		t.Errorf("proved up to %d: %v", v.At.Index, found)
	}
}

// TestAHoleAtTheEnd: a server that dies has objects on their way. Objects behind the first missing one are
// left, and told. If there are more than can have been on the way, something was removed.
func TestAHoleAtTheEnd(t *testing.T) {
	t.Parallel()
	l, r := theLife(t), rand.New(rand.NewPCG(14, 14))
	s := l.archived(t, r)
	spans := kinds(s)["span"]
	for _, c := range []struct {
		behind, leaders int
		refused         bool
	}{{1, 1, false}, {3, 1, false}, {3, 6, false}, {9, 4, false}, {20, 1, true}, {20, 4, true}} {
		some := copyOf(t, s)
		last := spans[len(spans)-2-c.behind]
		before, err := format.DecodeSpan(last, bytes.Clone(s.Objects()[last]))
		if err != nil {
			t.Fatal(err)
		}
		for range c.leaders - 1 { // each ships what is behind the entries that are archived once more, and cuts it elsewhere
			its := objstore.NewMemory()
			l.spans(t, its, r, before.Tip(), l.last)
			for name, b := range its.Objects() { // any order
				if err := some.PutIfAbsent(t.Context(), objstore.Object{Name: name, Data: b}); err != nil && !errors.Is(err, objstore.ErrExists) {
					t.Fatal(err)
				}
			}
		}
		gone := spans[len(spans)-1-c.behind]
		_, first, _ := format.ParseSpanName(gone)
		if err := some.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		for index := range l.saved { // any order
			if index >= first { // else that is where it begins
				if err := some.Delete(t.Context(), format.ManifestName(l.cluster, index)); err != nil {
					t.Fatal(err)
				}
			}
		}
		out, err := into(filepath.Join(t.TempDir(), "restored"), some, Restoring{})
		if v, found := proved(t, some, At{}); !strings.Contains(fmt.Sprint(found), "missing") || (v.Wrong > 0) != c.refused || v.Content != l.had[first-1] {
			t.Errorf("%d behind, %d leaders: %+v %v", c.behind, c.leaders, v, found)
		}
		var gap *Gap
		if c.refused {
			if !errors.As(err, &gap) || gap.From != first {
				t.Errorf("%d behind, %d leaders: %+v %v", c.behind, c.leaders, out, err)
			}
			continue
		}
		if err != nil || out.State.Index != first-1 || out.Missing == nil || out.Missing.From != first || out.End.Index != l.last {
			t.Errorf("%d behind, %d leaders: %+v %v", c.behind, c.leaders, out, err)
		}
		if _, err := into(filepath.Join(t.TempDir(), "restored"), some, Restoring{At: At{Index: l.last}}); !errors.As(err, &gap) {
			t.Errorf("what is behind a hole was restored: %v", err)
		}
	}
}

// TestASecondServerThatWasRefused leaves entries of another history beside the chain. They are named, and not read.
func TestASecondServerThatWasRefused(t *testing.T) {
	l, r := theLife(t), rand.New(rand.NewPCG(17, 17))
	s := l.archived(t, r)
	other := *l
	other.entries = append([]node.Entry(nil), l.entries...)
	at := len(l.entries) / 2
	other.entries[at].Data = []byte("another")
	tip := other.spans(t, objstore.NewMemory(), r, format.Tip{Cluster: l.cluster, Timeline: l.cluster, Last: l.first, Term: l.terms[l.first]}, l.entries[at-1].Index)
	mine := objstore.NewMemory()
	other.spans(t, mine, r, tip, l.last-20)
	n := 0
	for name, b := range mine.Objects() { // any order
		if err := s.PutIfAbsent(t.Context(), objstore.Object{Name: name, Data: b}); err == nil {
			n++
		}
	}
	v, found := proved(t, s, At{})
	if v.Wrong > 0 || len(found) != n || n == 0 || !strings.Contains(fmt.Sprint(found), "another history") || v.Content != l.had[l.last] {
		t.Errorf("%d are beside the chain: %+v %v", n, v, found)
	}
}

// TestADamagedArchiveIsNotRestored, with any object damaged, unless it is not needed; and a server does not start with the remains.
func TestADamagedArchiveIsNotRestored(t *testing.T) {
	t.Parallel()
	l, r := theLife(t), rand.New(rand.NewPCG(15, 15))
	s := l.archived(t, r)
	for kind, names := range kinds(s) {
		n := 5
		if testing.Short() {
			n = 2
		}
		for i := range n {
			name := names[len(names)-1-r.IntN(min(len(names), 1+i))] // the last one is needed
			was := s.Objects()[name]
			bad, at := bytes.Clone(was), r.IntN(len(was))
			bad[at] ^= 1 << r.IntN(8)
			put(t, s, name, bad)
			dir := filepath.Join(t.TempDir(), "restored")
			out, err := into(dir, s, Restoring{})
			put(t, s, name, was)
			switch {
			case err == nil && (out.Hash != l.hashes[l.last] || i == 0):
				t.Errorf("%s %s, byte %d: restored %+v", kind, name, at, out)
			case err == nil:
			case !strings.Contains(err.Error(), name):
				t.Errorf("%s %s, byte %d: %v", kind, name, at, err)
			default:
				cfg := house()
				cfg.Dir = dir
				if n, err := node.Open(cfg); err == nil {
					n.Stop()
					t.Errorf("a server starts with what is left")
				}
			}
		}
	}
}

// TestWhatNoChecksumSeesIsFoundByTheReplay: an attacker who can write the bucket can make whole objects. The state hashes that leaders
// stamped on entries do not fit then.
func TestWhatNoChecksumSeesIsFoundByTheReplay(t *testing.T) {
	l, r := theLife(t), rand.New(rand.NewPCG(16, 16))
	s := objstore.NewMemory()
	forged := *l
	forged.entries = append([]node.Entry(nil), l.entries...)
	e := &forged.entries[len(forged.entries)/2]
	for len(e.Data) == 0 || e.Type != 0 {
		e = &forged.entries[r.IntN(len(forged.entries))]
	}
	e.Data = bytes.Clone(e.Data)
	e.Data[len(e.Data)-1] ^= 1 // in a value, or the like
	forged.spans(t, s, r, format.Tip{Cluster: l.cluster, Timeline: l.cluster, Last: l.first, Term: l.terms[l.first]}, l.last)
	l.snapshot(t, s, l.first)
	_, err := into(filepath.Join(t.TempDir(), "restored"), s, Restoring{})
	var at *node.EntryError
	if !errors.As(err, &at) || !at.Has(e.Index) {
		t.Errorf("entry %d was changed: %v", e.Index, err)
	}
	// A snapshot of another state than the log comes to.
	s = l.archived(t, r)
	var middle uint64
	for index := range l.saved { // any order: the greatest
		middle = max(middle, index)
	}
	other := *l
	other.saved = map[uint64][]byte{middle: retold(t, l.saved[middle])}
	other.snapshot(t, s, middle)
	if v, found := proved(t, s, At{}); v.Wrong == 0 || !strings.Contains(wrongs(found), format.ManifestName(l.cluster, middle)) {
		t.Errorf("%+v %v", v, found)
	}
}

// TestObjectsThatAreWholeAndSaySomethingElse than their neighbours are named. The next hash names a span of other entries, the state names
// a state hash in a span or a manifest.
func TestObjectsThatAreWholeAndSaySomethingElse(t *testing.T) {
	t.Parallel()
	l, r := theLife(t), rand.New(rand.NewPCG(18, 18))
	s := objstore.NewMemory()
	l.spans(t, s, r, format.Tip{Cluster: l.cluster, Timeline: l.cluster, Last: l.first, Term: l.terms[l.first]}, l.last)
	l.snapshot(t, s, l.first)
	names := kinds(s)["span"]
	decoded := func(name string) *format.Span {
		span, err := format.DecodeSpan(name, bytes.Clone(s.Objects()[name]))
		if err != nil {
			t.Fatal(err)
		}
		return span
	}
	refused := func(what string, changed *objstore.Memory, want string) {
		t.Helper()
		if _, err := into(filepath.Join(t.TempDir(), "restored"), changed, Restoring{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is restored, or not named by %s: %v", what, want, err)
		}
		if v, found := proved(t, changed, At{}); v.Wrong == 0 || !strings.Contains(wrongs(found), want) {
			t.Errorf("%s is proved, or not named by %s: %+v %v", what, want, v, found)
		}
	}
	// On who proposed a command no state hash depends: the chain's hash alone sees it.
	seen := 0
	for range 30 {
		i := r.IntN(len(names) - 1)
		span, other := decoded(names[i]), copyOf(t, s)
		victim := span.First + r.Uint64N(span.Last-span.First+1)
		e := format.NewEncoder(span.TipAt(span.First-1), 1<<20)
		for one := range span.Entries() {
			if one.Index == victim && len(one.Data) > 0 {
				one.Data[r.IntN(len(one.Data))] ^= 1 << r.IntN(8)
			}
			if _, err := e.Append(one); err != nil {
				t.Fatal(err)
			}
		}
		name, b := e.Finish(span.State)
		put(t, other, name, b)
		v, found := proved(t, other, At{})
		if v.Wrong == 0 && !bytes.Equal(b, s.Objects()[name]) {
			t.Errorf("%s has other entries and is proved", name)
		}
		if strings.HasPrefix(wrongs(found), "archive object "+names[i+1]) {
			refused("a span of another history", other, names[i+1])
			seen++
		}
	}
	if seen == 0 {
		t.Error("no change was seen by the chain alone: this test shows nothing")
	}
	last, other := decoded(names[len(names)-1]), copyOf(t, s)
	e := format.NewEncoder(last.TipAt(last.First-1), 1<<20)
	for one := range last.Entries() {
		if _, err := e.Append(one); err != nil {
			t.Fatal(err)
		}
	}
	name, b := e.Finish(last.State + 1)
	put(t, other, name, b)
	refused("a span with another state hash", other, name)
	name = format.ManifestName(l.cluster, l.first)
	m, err := format.DecodeManifest(name, s.Objects()[name])
	if err != nil {
		t.Fatal(err)
	}
	m.State++
	if _, b, err = m.Encode(); err != nil {
		t.Fatal(err)
	}
	other = copyOf(t, s)
	put(t, other, name, b)
	refused("a manifest with another state hash", other, name)
}

// retold is a snapshot with one row more, whole in itself.
func retold(t *testing.T, was []byte) []byte {
	t.Helper()
	st := store.NewMem()
	info, err := node.LoadSnapshot(house(), st, bytes.NewReader(was))
	if err != nil {
		t.Fatal(err)
	}
	b := st.NewBatch()
	b.Set([]byte("tzz"), []byte("not by the log"))
	if err := st.Commit(b, info.Index); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	v := st.NewView()
	defer v.Close()
	if err := node.WriteSnapshot(context.Background(), &out, v, info); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// impatient waits for nothing.
type impatient struct{ task.Runner }

func (i impatient) Wait(d time.Duration, on ...<-chan struct{}) int {
	if d > 0 {
		d = 0
	}
	return i.Runner.Wait(d, on...)
}
