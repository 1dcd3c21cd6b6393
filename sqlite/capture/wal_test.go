package capture

import (
	"bytes"
	"errors"
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// pagesOf are a group's pages by their numbers.
func pagesOf(t *testing.T, g *Group) map[uint32][]byte {
	t.Helper()
	pages := map[uint32][]byte{}
	if err := g.Each(func(number uint32, page []byte) error {
		pages[number] = bytes.Clone(page)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return pages
}

// TestAGroupIsHeldPageForPage: a WAL holds a group if every page of it is the same, the first one and the last one of
// the database too. Later commits of programs take nothing away.
func TestAGroupIsHeldPageForPage(t *testing.T) {
	f := followOne(t)
	f.exec("begin")
	f.exec("update t set v = 2")
	f.exec("update u set v = 2")
	f.exec("commit")
	g := f.capture()
	pages := pagesOf(t, g)
	if len(pages) != 2 || g.State.Pages != 3 || pages[3] == nil {
		t.Fatalf("the group has %d pages of %d, and the last is among them: %v", len(pages), g.State.Pages, pages[3] != nil)
	}
	holds := func(what string, want bool) {
		t.Helper()
		if got, err := f.d.Holds(g.Offset, g.Size, pages, g.State.Pages); err != nil || got != want {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	holds("its pages", true)
	for number, page := range pages {
		page[100] ^= 1
		holds("another page than it has", false)
		page[100] ^= 1
		delete(pages, number)
		holds("a page less than it has", false)
		pages[number] = page
	}
	f.exec("insert into t values (3)")
	holds("its pages, with a commit behind them", true)
}

// TestPendingIsWhatWasCapturedSince: in bytes of pages, from a position in this WAL. It is all captures from this WAL if the position is in
// another, or behind it, as after a power cut.
func TestPendingIsWhatWasCapturedSince(t *testing.T) {
	f := followOne(t)
	was, size := f.d.State().Position, int64(f.d.State().PageSize)
	f.exec("update t set v = 2")
	f.exec("update u set v = 2")
	f.exec("update u set v = 3")
	f.capture()
	now := f.d.State().Position
	if now.Frame != was.Frame+3 || was.Frame == 0 {
		t.Fatalf("three commits lead from frame %d to %d", was.Frame, now.Frame)
	}
	for what, c := range map[string]struct {
		from walfile.Position
		want int64
	}{
		"what was captured last":   {now, 0},
		"what was captured before": {was, 3 * size},
		"the WAL's beginning":      {walfile.Position{Salt: now.Salt}, int64(now.Frame) * size},
		"another WAL":              {walfile.Position{Salt: [8]byte{1}, Frame: now.Frame}, int64(now.Frame) * size},
		"behind what was captured": {walfile.Position{Salt: now.Salt, Frame: now.Frame + 1}, int64(now.Frame) * size},
	} {
		if got := f.d.Pending(c.from); got != c.want {
			t.Errorf("from %s: %d bytes, want %d", what, got, c.want)
		}
	}
}

// TestAnIndexThatDoesNotFitItsWAL: an index that says another size of the database than the last commit in the WAL is
// damage, and nothing is captured of it.
func TestAnIndexThatDoesNotFitItsWAL(t *testing.T) {
	f := followOne(t)
	before := f.d.State()
	f.exec("insert into t values (2)")
	f.r.look = func(h *walfile.Header) { h.Pages++ }
	if g, err := f.d.Capture(); g != nil || !errors.Is(err, walfile.ErrDamaged) {
		t.Errorf("%v, %v", g, err)
	}
	if f.d.State() != before {
		t.Errorf("the state is %v", f.d.State())
	}
	f.r.look = nil
	f.capture()
}

// TestPagesThatNoFrameHas: by which a database has grown belong to the group all the same, the last one of the database
// too.
func TestPagesThatNoFrameHas(t *testing.T) {
	for _, without := range []uint32{4, 5} {
		f := followOne(t)
		f.exec("begin")
		f.exec("create table v (v)")
		f.exec("create table w (v)")
		f.exec("commit")
		f.exec("update t set v = 2") // in whose frame the size of the database is
		f.r.without = without
		g, err := f.d.Capture()
		if err != nil || g == nil || g.State.Pages != 5 || g.Found {
			t.Fatal(g, err)
		}
		f.m.take(t, g) // which compares the checksum of all pages
		if len(f.m.pages) != 5 {
			t.Errorf("without a frame of page %d the groups have %d pages of 5", without, len(f.m.pages))
		}
		for _, p := range g.Pages {
			if (p.Frame == 0) != (p.Number == without) {
				t.Errorf("page %d is in frame %d", p.Number, p.Frame)
			}
		}
		g.Release()
	}
}

// TestAllIsEveryPage: after the database became larger, and after it became smaller.
func TestAllIsEveryPage(t *testing.T) {
	f := followOne(t)
	all := func(what string) {
		t.Helper()
		f.capture()
		want := uint32(0)
		for number := range f.d.All {
			if want++; number != want {
				t.Fatalf("%s: page %d after %d", what, number, want-1)
			}
		}
		if want != f.d.State().Pages {
			t.Errorf("%s: %d pages of %d", what, want, f.d.State().Pages)
		}
	}
	f.exec("insert into t values (zeroblob(50000))")
	all("larger")
	f.exec("drop table t")
	f.exec("vacuum")
	all("smaller")
	f.exec("create table t (v)")
	all("larger again")
}
