package lock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/golden"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestStories plays testdata/stories.txt: a line is what an owner does, what comes of it stands below it, further in.
func TestStories(t *testing.T) {
	t.Parallel()
	const file = "testdata/stories.txt"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]Mode{}
	for m := range modes {
		names[m.String()] = m
	}
	var out strings.Builder
	table := New(1 << 20)
	owners := map[string]*Owner{}
	waiting := map[string]*Request{}
	// told says which requests have ended.
	told := func() {
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for name := range waiting { // any order: it is sorted
				if !yield(name) {
					return
				}
			}
		}) {
			select {
			case <-waiting[name].Done():
				fmt.Fprintf(&out, "  %s: %s\n", name, outcome(waiting[name].Err()))
				delete(waiting, name)
			default:
			}
		}
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, " ") {
			continue
		}
		fmt.Fprintln(&out, line)
		if strings.HasPrefix(line, "#") {
			if len(table.locks) != 0 || table.room != 1<<20 {
				t.Errorf("before %q: %d keys are locked, %d bytes are missing", line, len(table.locks), 1<<20-table.room)
			}
			owners = map[string]*Owner{}
			continue
		}
		words := strings.Fields(line)
		o := owners[words[0]]
		if o == nil {
			o = table.Owner()
			owners[words[0]] = o
		}
		switch words[1] {
		case "lock", "try":
			r, err := o.Lock([]byte(words[2]), names[strings.Join(words[3:], " ")], words[1] == "lock")
			if r != nil {
				waiting[words[0]] = r
				fmt.Fprintln(&out, "  waits")
			} else {
				fmt.Fprintf(&out, "  %s\n", outcome(err))
			}
		case "weight":
			var n int64
			if _, err := fmt.Sscan(words[2], &n); err != nil {
				t.Fatal(err)
			}
			o.SetWeight(n)
		case "give":
			if !o.GiveUp(waiting[words[0]]) {
				t.Errorf("%s: it has ended", line)
			}
		case "range", "over": // of letters, in the table "t"
			f, mode := o.LockRange, names[strings.Join(words[4:], " ")]
			if words[1] == "over" {
				f = func(table, key, _ []byte, mode Mode, wait bool) (*Request, error) {
					return o.LockOver(table, key, mode, wait)
				}
				mode = names[strings.Join(words[3:], " ")]
			}
			r, err := f([]byte("t"), []byte(words[2]), []byte(words[min(3, len(words)-1)]), mode, true)
			if r != nil {
				waiting[words[0]] = r
				fmt.Fprintln(&out, "  waits")
			} else {
				fmt.Fprintf(&out, "  %s\n", outcome(err))
			}
		case "kin":
			owners[words[2]] = o.Kin()
		case "unlock":
			o.Unlock([]byte(words[2]))
		case "drop":
			o.UnlockAll(0, func(key string) bool { return strings.HasPrefix(key, words[2]) })
		case "since", "share", "dropsince": // behind so many locks
			var mark int
			if _, err := fmt.Sscan(words[2], &mark); err != nil {
				t.Fatal(err)
			}
			switch words[1] {
			case "since":
				o.UnlockSince(mark, []byte(words[3]))
			case "share":
				o.ShareSince(mark, []byte(words[3]))
			default:
				o.UnlockAll(mark, func(key string) bool { return strings.HasPrefix(key, words[3]) })
			}
		case "release":
			o.Release()
		default:
			t.Fatalf("%q?", line)
		}
		told()
	}
	golden.Check(t, file, out.String())
}

func outcome(err error) string {
	if err == nil {
		return "has it"
	}
	return err.Error()
}

// check holds a table to what must be true between two calls.
func check(t *testing.T, table *Table, owners []*Owner) {
	t.Helper()
	room, waits := int64(0), 0
	for _, on := range table.locks { // any order: each is looked at by itself
		room += int64(len(on.key)) + keyBytes + holdBytes*int64(len(on.holds))
		for i, a := range on.holds {
			for _, b := range on.holds[i+1:] {
				for m := range modes {
					if a.owner.party != b.owner.party && a.modes&(1<<m) != 0 && b.modes&conflicts[m] != 0 {
						t.Fatalf("key %s: two owners hold modes %b and %b", on.key, a.modes, b.modes)
					}
				}
			}
		}
		var before set
		waits += len(on.queue)
		for _, r := range on.queue {
			if on.of(r.owner) == nil {
				room += holdBytes
			}
			if on.free(r, before) {
				t.Fatalf("key %s: a request for mode %d waits for nothing", on.key, r.mode)
			}
			before |= 1 << r.mode
		}
	}
	if got := table.Waiting(); got != waits {
		t.Fatalf("%d requests are counted, %d wait", got, waits)
	}
	if got := int64(1<<20) - table.room; got != room {
		t.Fatalf("%d bytes are counted, %d are used", got, room)
	}
	ranges := 0
	for name, all := range table.ranges { // any order: each is looked at by itself
		ranges += len(all)
		for _, on := range all {
			if table.locks[on.key] != on || on.span.table != name {
				t.Fatalf("range %q is not there", on.key)
			}
		}
	}
	if got := table.watched.Load(); got != int64(ranges) {
		t.Fatalf("%d ranges are counted, there are %d", got, ranges)
	}
	blocked := map[*party]int{}
	for _, o := range owners {
		for _, on := range o.held {
			if len(on.queue) > 0 {
				blocked[o.party]++
			}
		}
	}
	for i, o := range owners {
		if o.party.blocked != blocked[o.party] {
			t.Fatalf("owner %d: others wait for %d of its locks, and %d are counted", i, blocked[o.party], o.party.blocked)
		}
		if inCircle(o.party) {
			t.Fatalf("owner %d waits for itself", i)
		}
	}
}

// inCircle is a plain search for circles: along everything that a request conflicts with.
func inCircle(o *party) bool {
	seen := map[*party]bool{}
	var walk func(from *party) bool
	walk = func(from *party) bool {
		r := from.waits
		if r == nil || seen[from] {
			return false
		}
		seen[from] = true
		for _, h := range r.on.holds {
			if h.owner.party != from && h.modes&conflicts[r.mode] != 0 && (h.owner.party == o || walk(h.owner.party)) {
				return true
			}
		}
		for _, other := range r.on.queue {
			if other == r {
				break
			}
			if conflicts[r.mode]&(1<<other.mode) != 0 && (other.owner.party == o || walk(other.owner.party)) {
				return true
			}
		}
		return false
	}
	return walk(o)
}

// TestRandom: whatever owners do, no two conflicting locks are held, no request waits for nothing, and none waits in a circle.
func TestRandom(t *testing.T) {
	t.Parallel()
	ended := map[error]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		table := New(1 << 20)
		owners := make([]*Owner, 2+r.IntN(8))
		requests := make([]*Request, len(owners))
		for i := range owners {
			owners[i] = table.Owner()
		}
		// Of a session with two owners one acts at a time.
		kin := table.Owner()
		if seed%3 == 0 {
			kin = owners[0].Kin()
		}
		keys := 1 + r.IntN(4)
		for range 300 {
			i := r.IntN(len(owners))
			o := owners[i]
			if requests[i] != nil {
				select {
				case <-requests[i].Done():
					ended[requests[i].Err()]++
					if requests[i].Err() != nil {
						o.Release()
					}
					requests[i] = nil
				default:
					if r.IntN(10) == 0 {
						o.GiveUp(requests[i])
					}
				}
				check(t, table, append(slices.Clone(owners), kin))
				continue
			}
			switch n := r.IntN(14); {
			case n == 0:
				o.Release()
			case n == 1:
				o.SetWeight(int64(r.IntN(3)))
			case n == 10:
				o.Unlock([]byte{byte('a' + r.IntN(keys))})
			case n == 11:
				if i == 0 {
					_, err := kin.Lock([]byte{byte('a' + r.IntN(keys))}, Mode(r.IntN(int(modes))), false)
					ended[err]++
				}
			case n > 11:
				f := func() (*Request, error) {
					return o.LockRange([]byte("t"), []byte{byte('a' + r.IntN(keys))}, []byte("z"), Shared+Mode(r.IntN(2))*(Exclusive-Shared), true)
				}
				if n == 13 {
					f = func() (*Request, error) {
						return o.LockOver([]byte("t"), []byte{byte('a' + r.IntN(keys))}, Exclusive, true)
					}
				}
				req, err := f()
				ended[err]++
				requests[i] = req
				if errors.Is(err, ErrDeadlock) {
					o.Release()
				}
			default:
				mode := Mode(r.IntN(int(modes)))
				if seed%2 == 0 {
					mode = Shared + Mode(r.IntN(2))*(Exclusive-Shared)
				}
				req, err := o.Lock([]byte{byte('a' + r.IntN(keys))}, mode, n > 2)
				ended[err]++
				requests[i] = req
				if errors.Is(err, ErrDeadlock) {
					o.Release()
				}
			}
			check(t, table, append(slices.Clone(owners), kin))
		}
		kin.Release()
		for _, o := range owners {
			o.Release()
		}
		if len(table.locks) != 0 || table.room != 1<<20 {
			t.Fatalf("%d keys are locked at the end", len(table.locks))
		}
	}
	for _, err := range []error{nil, ErrDeadlock, ErrBusy, ErrGivenUp} {
		if ended[err] < 100 {
			t.Errorf("%v came %d times", err, ended[err])
		}
	}
}

// TestEnd: with the term every request ends, and nothing is granted any more.
func TestEnd(t *testing.T) {
	t.Parallel()
	table := New(1 << 20)
	a, b := table.Owner(), table.Owner()
	if _, err := a.Lock([]byte("k"), Exclusive, true); err != nil {
		t.Fatal(err)
	}
	r, err := b.Lock([]byte("k"), Shared, true)
	if err != nil {
		t.Fatal(err)
	}
	table.End()
	<-r.Done()
	if r.Err() != ErrEnded {
		t.Error(r.Err())
	}
	if b.GiveUp(r) {
		t.Error("a request that has ended was given up")
	}
	if _, err := b.Lock([]byte("other"), Shared, true); err != ErrEnded {
		t.Error(err)
	}
	a.Release()
	b.Release()
}

// TestRoom: a table that is full refuses, and has room again.
func TestRoom(t *testing.T) {
	t.Parallel()
	table := New(3 * (keyBytes + holdBytes + 1))
	o, other := table.Owner(), table.Owner()
	for _, k := range []string{"a", "b", "c"} {
		if _, err := o.Lock([]byte(k), Shared, true); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.Lock([]byte("d"), Shared, true); err != ErrFull {
		t.Error(err)
	}
	if _, err := other.Lock([]byte("a"), Shared, true); err != ErrFull {
		t.Error(err)
	}
	if _, err := o.Lock([]byte("a"), Exclusive, true); err != nil {
		t.Errorf("a lock that takes no more room: %v", err)
	}
	o.Release()
	if _, err := other.Lock([]byte("d"), Shared, true); err != nil {
		t.Error(err)
	}
}

// TestBound: a table that is given less room keeps the locks that are held, takes none until transactions have ended, and then as many as the bound
// says; with more room it takes more at once. All is counted back.
func TestBound(t *testing.T) {
	t.Parallel()
	const one = keyBytes + holdBytes + 1
	table := New(4 * one)
	o, other := table.Owner(), table.Owner()
	take := func(o *Owner, key string, want error) {
		t.Helper()
		if _, err := o.Lock([]byte(key), Shared, true); err != want {
			t.Errorf("%s: %v, want %v", key, err, want)
		}
	}
	for _, k := range []string{"a", "b", "c"} {
		take(o, k, nil)
	}
	table.Bound(2 * one)
	if got := table.Bytes(); got != 3*one {
		t.Errorf("%d bytes are held, want %d", got, 3*one)
	}
	take(other, "d", ErrFull)
	if _, err := o.Lock([]byte("a"), Exclusive, true); err != nil {
		t.Errorf("a lock that takes no more room: %v", err)
	}
	o.Release()
	take(other, "d", nil)
	take(other, "e", nil)
	take(other, "f", ErrFull)
	table.Bound(3 * one)
	take(other, "f", nil)
	other.Release()
	if got := table.Bytes(); got != 0 || table.room != 3*one {
		t.Errorf("%d bytes are held and %d left after all have ended", got, table.room)
	}
}

// TestCounters: goroutines that lock, read and write counters lose no increment, and every deadlock ends.
func TestCounters(t *testing.T) {
	t.Parallel()
	const goroutines, rounds, keys = 8, 300, 4
	table := New(1 << 20)
	var counters [keys]int // each guarded by its lock
	var done [goroutines]int
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 3))
			for done[g] < rounds {
				o := table.Owner()
				a, b := r.IntN(keys), r.IntN(keys)
				ok := true
				for _, k := range []int{a, b} {
					req, err := o.Lock([]byte{byte(k)}, Exclusive, true)
					if req != nil {
						select {
						case <-req.Done():
							err = req.Err()
						case <-time.After(wait.Limit(t)):
							t.Error("a request that does not end")
							return
						}
					}
					if ok = err == nil; !ok {
						break
					}
				}
				if ok {
					counters[a]++
					if a != b {
						counters[b]++
					}
					done[g] += 1
				}
				o.Release()
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range counters {
		sum += n
	}
	if sum < goroutines*rounds {
		t.Errorf("%d increments for %d transactions", sum, goroutines*rounds)
	}
}

// BenchmarkLock is a row and its table, locked and released by nobody else, and by 1,000 that wait for the same row.
func BenchmarkLock(b *testing.B) {
	b.Run("free", func(b *testing.B) {
		table := New(1 << 20)
		for b.Loop() {
			o := table.Owner()
			_, _ = o.Lock([]byte("table"), IntentExclusive, true)
			_, _ = o.Lock([]byte("row of a table"), Exclusive, true)
			o.Release()
		}
	})
	b.Run("hot", func(b *testing.B) {
		table := New(1 << 20)
		first := table.Owner()
		_, _ = first.Lock([]byte("row"), Exclusive, true)
		queue := []*Owner{first}
		for range 1000 {
			o := table.Owner()
			_, _ = o.Lock([]byte("row"), Exclusive, true)
			queue = append(queue, o)
		}
		for b.Loop() {
			queue[0].Release()
			o := table.Owner()
			_, _ = o.Lock([]byte("row"), Exclusive, true)
			queue = append(queue[1:], o)
		}
	})
}

// TestARangeHasItsKeys: goroutines that write keys and goroutines that add up ranges of them see no half of a write, and no key that was not there when
// the range was locked.
func TestARangeHasItsKeys(t *testing.T) {
	t.Parallel()
	const goroutines, rounds, keys = 6, 200, 8
	table := New(1 << 20)
	var values [keys]int // a write moves one from a key to another; guarded by the locks
	name := []byte("t")
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 4))
			for done := 0; done < rounds; {
				o := table.Owner()
				ask := func(f func() (*Request, error)) bool {
					for {
						req, err := f()
						if req == nil {
							return err == nil
						}
						select {
						case <-req.Done():
							if req.Err() != nil {
								return false
							}
						case <-time.After(wait.Limit(t)):
							t.Error("a request that does not end")
							return false
						}
					}
				}
				write := func(k int) bool {
					key := []byte{byte(k)}
					return ask(func() (*Request, error) { return o.Lock(key, Exclusive, true) }) &&
						ask(func() (*Request, error) { return o.LockOver(name, key, Exclusive, true) })
				}
				intent := IntentShared
				if g%2 == 0 {
					intent = IntentExclusive
				}
				ok := ask(func() (*Request, error) { return o.Lock(name, intent, true) })
				if g%2 == 0 {
					a, b := r.IntN(keys), r.IntN(keys)
					if ok = ok && write(a) && write(b); ok {
						values[a]--
						runtime.Gosched()
						values[b]++
					}
				} else if ok = ok && ask(func() (*Request, error) { return o.LockRange(name, []byte{0}, []byte{keys}, Shared, true) }); ok {
					sum := 0
					for _, v := range values {
						sum += v
						runtime.Gosched()
					}
					if sum != 0 {
						t.Errorf("the range adds up to %d", sum)
					}
				}
				if ok {
					done++
				}
				o.Release()
			}
		})
	}
	wg.Wait()
	if len(table.locks) != 0 || table.room != 1<<20 || table.watched.Load() != 0 {
		t.Errorf("%d keys and %d ranges are locked at the end", len(table.locks), table.watched.Load())
	}
}
