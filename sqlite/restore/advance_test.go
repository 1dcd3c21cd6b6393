package restore

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// TestWhatAdvanceReadsIsCounted, and with nothing new nothing is read.
func TestWhatAdvanceReadsIsCounted(t *testing.T) {
	w := lived(t, objstore.NewMemory(), replica.Bucket, 1)
	p, err := Prepare(context.Background(), w.R, Options{To: target, FS: newDisk(t)})
	must(t, err)
	want := p.Restored()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		must(t, p.Advance(context.Background()))
		if got := p.Restored(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		for range 2 {
			must(t, w.Commit(change(rng, w)))
			f := w.Past[len(w.Past)-1].File
			want.Files, want.Bytes = want.Files+1, want.Bytes+f.Size
			want.TXID, want.Time, want.Pages, want.Checksum = f.Max, f.Time, w.Head.Pages, f.Post
		}
	}
	must(t, p.Close())
}

// TestAdvanceRefusesWhatDoesNotFit: a file that is not there, and one that is whole and has another name, other pages or another checksum than it
// should. The next restore says so as well.
func TestAdvanceRefusesWhatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(c *Content) *Content // nil: the file is lost
		want  string
	}{
		{"the first is lost", nil, "no files go on"},
		{"another name", func(c *Content) *Content { c.Header.MaxTXID++; return c }, "another name"},
		{"pages of another size", func(c *Content) *Content {
			c.Header.PageSize *= 2
			for n, p := range c.Pages { // any order: each by itself
				c.Pages[n] = append(bytes.Clone(p), p...)
			}
			return c
		}, "size of a page"},
		{"another checksum behind it", func(c *Content) *Content { c.Trailer.PostApplyChecksum ^= 1; return c }, "checksum"},
		{"another page", func(c *Content) *Content { c.Pages[slices.Max(slices.Collect(maps.Keys(c.Pages)))][0] ^= 1; return c }, "checksum"},
	} {
		store := objstore.NewMemory()
		w := lived(t, store, replica.Bucket, 1)
		fsys := newDisk(t)
		p, err := Prepare(context.Background(), w.R, Options{To: target, FS: fsys})
		must(t, err)
		must(t, w.Commit(change(rand.New(rand.NewPCG(1, 2)), w)))
		must(t, w.Commit(uint32(len(w.DB)), map[uint32][]byte{1: make([]byte, w.PageSize)})) // the other pages are the first one's
		s := w.Past[len(w.Past)-2]
		if c.spoil == nil {
			must(t, w.PutManifest()) // it names both
			must(t, store.Delete(context.Background(), w.R.Name(s.File)))
		} else {
			b := written(t, c.spoil(mustRead(t, s.Data)), false)
			must(t, store.Put(context.Background(), objstore.Object{Name: w.R.Name(s.File), Data: b}))
		}
		err = p.Advance(context.Background())
		if err == nil || c.spoil != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		must(t, p.Close())
		if _, err := Restore(context.Background(), w.R, Options{To: target, FS: fsys}); err == nil {
			t.Errorf("%s: the next restore finds nothing wrong", c.name)
		}
	}
}

// stubborn is a disk that does not remove files of a name.
type stubborn struct {
	disk.FS
	name string
}

func (s stubborn) Remove(name string) error {
	if name == s.name {
		return errDisk
	}
	return s.FS.Remove(name)
}

// TestAdvanceChangesNothingWhileTheJournalStands: the journal says what is in the working file, and a restore that went on from it would take later
// pages for its own. So where it cannot be removed, or that is not durable, not a page is written.
func TestAdvanceChangesNothingWhileTheJournalStands(t *testing.T) {
	for name, broken := range map[string]func(fsys *disk.Mem) disk.FS{
		"it cannot be removed": func(fsys *disk.Mem) disk.FS { return stubborn{fsys, target + journalSuffix} },
		"its removal is not durable": func(fsys *disk.Mem) disk.FS {
			f := disk.NewFaulty(fsys)
			f.FailSync(func(name string) bool { return name == "/data" }, errDisk)
			return f
		},
	} {
		w := lived(t, objstore.NewMemory(), replica.Bucket, 1)
		fsys := newDisk(t)
		p, err := Prepare(context.Background(), w.R, Options{To: target, FS: fsys})
		must(t, err)
		before, err := fsys.ReadFile(target + workSuffix)
		must(t, err)
		must(t, w.Commit(change(rand.New(rand.NewPCG(1, 2)), w)))
		p.j.fs = broken(fsys)
		if err := p.Advance(context.Background()); !errors.Is(err, errDisk) {
			t.Errorf("%s: %v", name, err)
		}
		p.j.fs = fsys
		must(t, p.Close())
		if after, err := fsys.ReadFile(target + workSuffix); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%s, and the working file is another one: %v", name, err)
		}
	}
}
