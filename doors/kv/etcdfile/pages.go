package etcdfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
)

// pages reads bbolt's pages by itself: bbolt maps the file and trusts what it finds there, so that a damaged one ends the program. The
// layout is bbolt's internal/common. A page has id (8 bytes), kind (2), count (2), number of overflow pages (4), then its elements; all
// little endian.
type pages struct {
	r        io.ReaderAt
	size     int64
	pageSize int64
	root     uint64 // of the tree of buckets
	high     uint64 // first page behind the last one used
}

const (
	pageHead    = 16
	elementSize = 16
	kindBranch  = 1
	kindLeaf    = 2
	leafBucket  = 1 // element flag: the value is a bucket
	bucketHead  = 16
	metaBytes   = 64
	maxDepth    = 32
)

// meta is one of the first two pages; the one with the later transaction is valid.
type meta struct {
	pageSize         uint32
	root, high, txid uint64
}

func parseMeta(b []byte) (m meta, ok bool) {
	sum := fnv.New64a()
	sum.Write(b[:metaBytes-8])
	m = meta{binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[40:]), binary.LittleEndian.Uint64(b[48:])}
	return m, binary.LittleEndian.Uint32(b) == magic && binary.LittleEndian.Uint32(b[4:]) == 2 &&
		binary.LittleEndian.Uint64(b[metaBytes-8:]) == sum.Sum64() && m.pageSize >= 1<<10 && m.pageSize <= 1<<16 && m.pageSize&(m.pageSize-1) == 0
}

func newPages(r io.ReaderAt, size int64) (*pages, error) {
	p := &pages{r: r, size: size}
	var best meta
	b := make([]byte, metaBytes)
	// The second meta page lies one page later. The first one has the page size; if it is damaged, every possible size is
	// tried.
	for at := int64(0); at <= 1<<16; at = max(1<<10, at*2) {
		if _, err := r.ReadAt(b, at+pageHead); err != nil {
			break
		}
		if m, ok := parseMeta(b); ok && (at == 0 || int64(m.pageSize) == at) && (best.pageSize == 0 || m.txid > best.txid) {
			best = m
		}
	}
	if best.pageSize == 0 {
		return nil, fmt.Errorf("%w: no first page", ErrDamaged)
	}
	p.pageSize, p.root, p.high = int64(best.pageSize), best.root, best.high
	if best.high > uint64(size/p.pageSize) {
		return nil, fmt.Errorf("%w: %d bytes, it had %d", ErrDamaged, size, best.high*uint64(p.pageSize))
	}
	return p, nil
}

// page reads a page with all that belongs to it.
func (p *pages) page(id uint64) ([]byte, error) {
	var h [pageHead]byte
	if id < 2 || id >= p.high {
		return nil, fmt.Errorf("%w: page %d of %d", ErrDamaged, id, p.high)
	}
	if _, err := p.r.ReadAt(h[:], int64(id)*p.pageSize); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	n := uint64(binary.LittleEndian.Uint32(h[12:])) + 1
	if binary.LittleEndian.Uint64(h[:]) != id || id+n > p.high {
		return nil, fmt.Errorf("%w: page %d says that it is %d, of %d", ErrDamaged, id, binary.LittleEndian.Uint64(h[:]), n)
	}
	b := make([]byte, int64(n)*p.pageSize)
	if _, err := p.r.ReadAt(b, int64(id)*p.pageSize); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	return b, nil
}

// element is one of a page: of a branch the page below, of a leaf a key and its value.
type element struct {
	flags      uint32
	below      uint64
	key, value []byte
}

func elements(b []byte) (leaf bool, count int, at func(i int) (element, error), err error) {
	kind := binary.LittleEndian.Uint16(b[8:])
	count = int(binary.LittleEndian.Uint16(b[10:]))
	if kind != kindLeaf && kind != kindBranch || pageHead+count*elementSize > len(b) || kind == kindBranch && count == 0 {
		return false, 0, nil, fmt.Errorf("%w: page of kind %d with %d elements", ErrDamaged, kind, count)
	}
	return kind == kindLeaf, count, func(i int) (e element, err error) {
		from := pageHead + i*elementSize
		h := b[from : from+elementSize]
		u32 := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(h[at:])) }
		var pos, nk, nv uint64
		if kind == kindLeaf {
			e.flags, pos, nk, nv = uint32(u32(0)), u32(4), u32(8), u32(12)
		} else {
			pos, nk, e.below = u32(0), u32(4), binary.LittleEndian.Uint64(h[8:])
		}
		pos += uint64(from)
		if pos+nk+nv > uint64(len(b)) {
			return e, fmt.Errorf("%w: element %d reaches out of its page", ErrDamaged, i)
		}
		e.key, e.value = b[pos:pos+nk:pos+nk], b[pos+nk:pos+nk+nv:pos+nk+nv]
		return e, nil
	}, nil
}

// tree is one bucket: the page at its root, or the page itself if it is so small that it lies in its parent's.
type tree struct {
	root   uint64
	inline []byte
}

func parseTree(v []byte) (t tree, err error) {
	if len(v) < bucketHead {
		return t, fmt.Errorf("%w: bucket of %d bytes", ErrDamaged, len(v))
	}
	if t.root = binary.LittleEndian.Uint64(v); t.root == 0 {
		if t.inline = v[bucketHead:]; len(t.inline) < pageHead {
			return t, fmt.Errorf("%w: bucket of %d bytes", ErrDamaged, len(v))
		}
	}
	return t, nil
}

// walk hands over the rows of a bucket in order. Their memory is not used again.
func (p *pages) walk(t tree, fn func(flags uint32, k, v []byte) error) error {
	w := walker{p: p, fn: fn}
	if t.inline != nil {
		return w.visit(t.inline, 0)
	}
	return w.page(t.root, 0)
}

type walker struct {
	p     *pages
	fn    func(flags uint32, k, v []byte) error
	seen  uint64
	last  []byte
	begun bool
}

func (w *walker) page(id uint64, depth int) error {
	if w.seen++; w.seen > w.p.high || depth > maxDepth {
		return fmt.Errorf("%w: pages that lead back to each other", ErrDamaged)
	}
	b, err := w.p.page(id)
	if err != nil {
		return err
	}
	return w.visit(b, depth)
}

func (w *walker) visit(b []byte, depth int) error {
	leaf, n, at, err := elements(b)
	if err != nil {
		return err
	}
	for i := range n {
		e, err := at(i)
		if err != nil {
			return err
		}
		if !leaf {
			if err := w.page(e.below, depth+1); err != nil {
				return err
			}
			continue
		}
		if w.begun && bytes.Compare(e.key, w.last) <= 0 {
			return fmt.Errorf("%w: keys out of order", ErrDamaged)
		}
		w.begun, w.last = true, e.key
		if err := w.fn(e.flags, e.key, e.value); err != nil {
			return err
		}
	}
	return nil
}

// lastKey is the greatest key of a bucket, nil if it is empty.
func (p *pages) lastKey(t tree) ([]byte, error) {
	b := t.inline
	var err error
	for depth, id := 0, t.root; ; depth++ {
		if b == nil || depth > 0 {
			if b, err = p.page(id); err != nil {
				return nil, err
			}
		}
		leaf, n, at, err := elements(b)
		if err != nil || n == 0 {
			return nil, err
		}
		e, err := at(n - 1)
		if err != nil {
			return nil, err
		}
		if leaf {
			return e.key, nil
		}
		if id = e.below; depth > maxDepth {
			return nil, fmt.Errorf("%w: pages that lead back to each other", ErrDamaged)
		}
	}
}
