package replica

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/superfly/ltx"

	"github.com/holdfastdb/holdfast/objstore"
)

const pageSize = 512

// writer is an owner in a test: the database as it has it, and where its next file goes.
type writer struct {
	r     *Replica
	owner uint64
	head  Head
	pages map[uint32][]byte
}

func page(fill byte) []byte { return bytes.Repeat([]byte{fill}, pageSize) }

// sum is the checksum of a database.
func sum(pages map[uint32][]byte) Checksum {
	all := ltx.ChecksumFlag
	for n, p := range pages { // any order: they are added
		all = ltx.ChecksumFlag | (all ^ ltx.ChecksumPage(n, p))
	}
	return all
}

// group makes the owner's next file, which sets the pages changed.
func (w *writer) group(t testing.TB, changed map[uint32]byte) (File, Body) {
	t.Helper()
	for n, fill := range changed { // any order: they are different pages
		w.pages[n] = page(fill)
	}
	min, max := w.head.Next()
	h := Header{PageSize: pageSize, Commit: uint32(len(w.pages)), MinTXID: min, MaxTXID: max, Timestamp: int64(max&0xffff) * 1000, NodeID: w.owner,
		PreApplyChecksum: w.head.Post}
	f, body := encode(t, h, w.pages, changed, sum(w.pages))
	w.head = headOf(h, f.Post, false)
	return f, body
}

func encode(t testing.TB, h Header, pages map[uint32][]byte, changed map[uint32]byte, post Checksum) (File, Body) {
	t.Helper()
	var b bytes.Buffer
	err := WriteGroup(&b, h, func(yield func(uint32, []byte) error) error {
		for n := uint32(1); n <= h.Commit; n++ {
			if _, ok := changed[n]; ok || h.MinTXID == 1 {
				if err := yield(n, pages[n]); err != nil {
					return err
				}
			}
		}
		return nil
	}, post)
	if err != nil {
		t.Fatal(err)
	}
	return File{Min: h.MinTXID, Max: h.MaxTXID, Size: int64(b.Len()), Pre: h.PreApplyChecksum, Post: post, Time: time.UnixMilli(h.Timestamp).UTC()},
		Bytes(b.Bytes())
}

func (w *writer) commit(t testing.TB, changed map[uint32]byte) error {
	f, body := w.group(t, changed)
	return w.r.Create(context.Background(), f, body)
}

func newWriter(r *Replica, owner uint64) *writer {
	return &writer{r: r, owner: owner, pages: map[uint32][]byte{}}
}

// takeOver makes a writer of another owner that takes over and has the same database.
func takeOver(t testing.TB, from *writer, owner uint64) *writer {
	t.Helper()
	c, err := from.r.TakeOver(context.Background(), owner)
	if err != nil {
		t.Fatal(err)
	}
	w := newWriter(from.r, owner)
	w.head = c.Head
	for n, p := range from.pages {
		w.pages[n] = p
	}
	return w
}

func TestWhoTakesOverLeavesTheOldOwnerFenced(t *testing.T) {
	for _, layout := range []Layout{Bucket, Directory} {
		store := objstore.NewMemory()
		a := newWriter(New(store, layout), 1)
		for i := range byte(3) {
			if err := a.commit(t, map[uint32]byte{1: i, 2: i}); err != nil {
				t.Fatal(err)
			}
		}
		b := takeOver(t, a, 2)
		if b.head.TXID != 4 || !b.head.Fence || b.head.Post != a.head.Post || b.head.Owner != 2 {
			t.Fatalf("head %+v", b.head)
		}
		if err := a.commit(t, map[uint32]byte{1: 9}); !errors.Is(err, ErrFenced) {
			t.Errorf("the old owner goes on: %v", err)
		}
		if err := a.commit(t, map[uint32]byte{1: 10}); err != nil {
			t.Errorf("what it had on its way: %v", err)
		}
		if err := b.commit(t, map[uint32]byte{2: 7}); err != nil {
			t.Fatal(err)
		}
		c, err := New(store, layout).Read(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if c.Head != b.head || len(c.Files) != 5 || len(c.Orphans) != 1 || c.Epoch != 2 {
			t.Errorf("%+v", c)
		}
		if c.Head.TXID != 5+jump {
			t.Errorf("head at %s", c.Head.TXID)
		}
	}
}

func TestAnUploadThatIsRepeatedIsStoredOnce(t *testing.T) {
	a := newWriter(New(objstore.NewMemory(), Bucket), 1)
	f, body := a.group(t, map[uint32]byte{1: 1})
	for range 2 {
		if err := a.r.Create(context.Background(), f, body); err != nil {
			t.Fatal(err)
		}
	}
	f.Size--
	if err := a.r.Create(context.Background(), f, Bytes(nil)); err == nil || errors.Is(err, ErrFenced) {
		t.Errorf("a body of another size than said: %v", err)
	}
}

// TestNothingIsStoredBehindAFirstFileThatIsNot: it has no fence before it, so it would be taken for a part of what another begins with.
func TestNothingIsStoredBehindAFirstFileThatIsNot(t *testing.T) {
	store := objstore.NewMemory()
	w := newWriter(New(store, Bucket), 1)
	if c, err := w.r.TakeOver(context.Background(), 1); err != nil || !c.Head.Empty() {
		t.Fatalf("%+v %v", c, err)
	}
	first, firstBody := w.group(t, map[uint32]byte{1: 1})
	second, secondBody := w.group(t, map[uint32]byte{1: 2})
	if err := w.r.Create(context.Background(), second, secondBody); err == nil || len(store.Objects()) != 0 {
		t.Errorf("stored before the first: %v", err)
	}
	for _, u := range []struct {
		f File
		b Body
	}{{first, firstBody}, {second, secondBody}} {
		if err := w.r.Create(context.Background(), u.f, u.b); err != nil {
			t.Error(err)
		}
	}
}
