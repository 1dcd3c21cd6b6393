package restore

import (
	"hash/crc64"
	"sync"

	"github.com/superfly/ltx"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// bitmap has a bit for each page of a database, from 1.
type bitmap []byte

func newBitmap(pages uint32) bitmap { return make(bitmap, pages/8+1) }

func (b bitmap) has(page uint32) bool { return b[page/8]&(1<<(page%8)) != 0 }
func (b bitmap) set(page uint32)      { b[page/8] |= 1 << (page % 8) }

// pageSum is the checksum of a page as LTX has it, but for the bit that is always set. The caller's hash is begun with its number.
func pageSum(page uint32, data []byte) uint64 {
	n := [4]byte{byte(page >> 24), byte(page >> 16), byte(page >> 8), byte(page)}
	return crc64.Update(crc64.Update(0, iso, n[:]), iso, data) &^ uint64(ltx.ChecksumFlag)
}

// databaseSum is the checksum of a database whose pages' are xored.
func databaseSum(xor uint64) replica.Checksum {
	return ltx.ChecksumFlag | replica.Checksum(xor)
}

const (
	batchBytes = 256 << 10
	sinks      = 2 // goroutines that write
)

// batch is some pages on their way to a file, and where each belongs.
type batch struct {
	pages []uint32
	data  []byte
}

// sink writes pages into a database file and adds up their checksums. put, wait and close are one goroutine's; after an error wait tells it.
type sink struct {
	file     disk.File
	pageSize int
	full     chan *batch
	empty    chan *batch
	now      *batch
	pending  sync.WaitGroup // batches that are on their way

	mu  sync.Mutex
	xor uint64 // guarded by mu
	err error  // guarded by mu
}

func newSink(file disk.File, pageSize uint32, xor uint64) *sink {
	s := &sink{file: file, pageSize: int(pageSize), xor: xor, full: make(chan *batch, sinks), empty: make(chan *batch, 2*sinks)}
	most := max(batchBytes/s.pageSize, 1)
	for range cap(s.empty) {
		s.empty <- &batch{data: make([]byte, 0, most*s.pageSize), pages: make([]uint32, 0, most)}
	}
	for range sinks {
		go s.run()
	}
	return s
}

// room is where the next page goes; put says that it is there.
func (s *sink) room() []byte {
	if s.now == nil {
		s.now = <-s.empty
	}
	n := len(s.now.data)
	return s.now.data[n : n+s.pageSize]
}

func (s *sink) put(page uint32) {
	b := s.now
	b.pages, b.data = append(b.pages, page), b.data[:len(b.data)+s.pageSize]
	if len(b.data) == cap(b.data) {
		s.send()
	}
}

func (s *sink) send() {
	s.pending.Add(1)
	s.full <- s.now
	s.now = nil
}

// wait returns when all that was put is in the file, with the sum of it.
func (s *sink) wait() (xor uint64, err error) {
	if s.now != nil && len(s.now.pages) > 0 {
		s.send()
	}
	s.pending.Wait()
	return s.state()
}

func (s *sink) state() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.xor, s.err
}

// close ends the goroutines. Nothing is put afterwards.
func (s *sink) close() {
	s.pending.Wait()
	close(s.full)
}

func (s *sink) run() {
	for b := range s.full {
		xor, err := s.write(b)
		s.mu.Lock()
		if s.xor ^= xor; s.err == nil {
			s.err = err
		}
		s.mu.Unlock()
		b.pages, b.data = b.pages[:0], b.data[:0]
		s.empty <- b
		s.pending.Done()
	}
}

// write writes a batch, pages that follow each other in one go.
func (s *sink) write(b *batch) (xor uint64, err error) {
	for i, page := range b.pages {
		xor ^= pageSum(page, b.data[i*s.pageSize:(i+1)*s.pageSize])
	}
	for i := 0; i < len(b.pages); {
		n := 1
		for i+n < len(b.pages) && b.pages[i+n] == b.pages[i]+uint32(n) {
			n++
		}
		if _, err := s.file.WriteAt(b.data[i*s.pageSize:(i+n)*s.pageSize], int64(b.pages[i]-1)*int64(s.pageSize)); err != nil {
			return xor, err
		}
		i += n
	}
	return xor, nil
}
