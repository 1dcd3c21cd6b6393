package etcdfile

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// spill sorts any number of rows. Rows beyond the memory lie on disk as runs, each in order, which are merged when they are read. It
// belongs to one goroutine.
type spill struct {
	dir   string
	limit int // bytes kept in memory

	rows  []row
	bytes int
	runs  []string
}

type row struct{ key, value []byte }

const rowOverhead = 64

func (r *row) size() int { return len(r.key) + len(r.value) + rowOverhead }

// full reports whether a row of n bytes is one too many for memory.
func (s *spill) full(n int) bool { return len(s.rows) > 0 && s.bytes+n+rowOverhead > s.limit }

// add takes a row; the slices belong to the spill from then on.
func (s *spill) add(key, value []byte) error {
	if s.full(len(key) + len(value)) {
		if err := s.write(); err != nil {
			return err
		}
	}
	r := row{key, value}
	s.rows = append(s.rows, r)
	s.bytes += r.size()
	return nil
}

func (s *spill) sort() {
	slices.SortFunc(s.rows, func(a, b row) int { return bytes.Compare(a.key, b.key) })
}

// write moves what is in memory to a run on disk.
func (s *spill) write() (err error) {
	s.sort()
	name := filepath.Join(s.dir, fmt.Sprintf("run-%06d", len(s.runs)))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	s.runs = append(s.runs, name)
	w := bufio.NewWriterSize(f, 64<<10)
	var n []byte
	for i := range s.rows {
		n = binary.AppendUvarint(n[:0], uint64(len(s.rows[i].key)))
		n = binary.AppendUvarint(n, uint64(len(s.rows[i].value)))
		w.Write(n)
		w.Write(s.rows[i].key)
		w.Write(s.rows[i].value)
	}
	err = w.Flush() // has the first error of all
	if e := f.Close(); err == nil {
		err = e
	}
	clear(s.rows)
	s.rows, s.bytes = s.rows[:0], 0
	return err
}

// each hands over all rows in order. They may be kept.
func (s *spill) each(fn func(key, value []byte) error) error {
	s.sort()
	m := make(merge, 0, len(s.runs)+1)
	defer func() {
		for _, r := range m {
			r.close()
		}
	}()
	for _, name := range s.runs {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		r := &run{f: f, r: bufio.NewReaderSize(f, max(4<<10, min(64<<10, s.limit/len(s.runs))))}
		m = append(m, r)
		if err := r.next(); err != nil {
			return err // a run is never empty
		}
	}
	if len(s.rows) > 0 {
		m = append(m, &run{rows: s.rows[1:], now: s.rows[0]})
	}
	heap.Init(&m)
	for len(m) > 0 {
		r := m[0]
		if err := fn(r.now.key, r.now.value); err != nil {
			return err
		}
		switch err := r.next(); {
		case errors.Is(err, io.EOF):
			r.close()
			heap.Pop(&m)
		case err != nil:
			return err
		default:
			heap.Fix(&m, 0)
		}
	}
	return nil
}

// close forgets everything.
func (s *spill) close() {
	for _, name := range s.runs {
		os.Remove(name) // the directory goes as a whole if this fails
	}
	s.rows, s.bytes, s.runs = nil, 0, nil
}

// run is rows in order, on disk or in memory.
type run struct {
	f    *os.File // nil: in memory
	r    *bufio.Reader
	rows []row
	now  row
}

// next moves on; io.EOF at the end.
func (r *run) next() error {
	if r.f == nil {
		if len(r.rows) == 0 {
			return io.EOF
		}
		r.now, r.rows = r.rows[0], r.rows[1:]
		return nil
	}
	nk, err := binary.ReadUvarint(r.r)
	if err != nil {
		return err
	}
	nv, err := binary.ReadUvarint(r.r)
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	b := make([]byte, nk+nv) // this process wrote the lengths a moment ago, so they need no check
	if _, err := io.ReadFull(r.r, b); err != nil {
		return io.ErrUnexpectedEOF
	}
	r.now = row{b[:nk:nk], b[nk:]}
	return nil
}

func (r *run) close() {
	if r.f != nil {
		r.f.Close()
		r.f = nil
	}
}

// merge is a heap of runs by the row they stand on.
type merge []*run

func (m merge) Len() int           { return len(m) }
func (m merge) Less(i, j int) bool { return bytes.Compare(m[i].now.key, m[j].now.key) < 0 }
func (m merge) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *merge) Push(x any)        { *m = append(*m, x.(*run)) }
func (m *merge) Pop() any {
	old := *m
	last := old[len(old)-1]
	*m = old[:len(old)-1]
	return last
}
