package agentsim

import (
	"encoding/binary"
	"hash/crc32"
	"hash/crc64"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// pageSize is every database's, in bytes.
const pageSize = 512

// inode is a database's file. A name may come to mean another inode; processes that have it open keep it.
type inode struct {
	number  uint64
	wal     bool     // the journal mode that its header says
	pages   [][]byte // as every process sees them; none is changed in place
	written time.Duration
	// old is the last durable content of each page written since. nil: it was behind the end.
	old map[uint32][]byte

	log   *walInode // its -wal, nil: there is none
	index *index    // its -shm, nil: there is none

	shared    []any // holders of the shared lock
	exclusive *conn // its exclusive holder
	pending   *conn // the connection that waits for that
}

// walInode is a WAL's file.
type walInode struct {
	number  uint64
	salt    [8]byte
	counts  uint32 // checkpoints: the header's, that salts depend on
	header  bool
	slots   []frame // also those of earlier rounds behind the last one
	longest int     // frames that the file was long
	written time.Duration
	old     map[int]*frame // the last durable content of each slot written since; nil: nothing
	before  *walInode      // the header likewise; nil: it was not written since
}

// frame is one of a WAL.
type frame struct {
	salt   [8]byte
	page   uint32
	commit uint32
	data   []byte
	sum    [2]uint32
}

// index is a wal-index, in memory that processes share.
type index struct {
	walfile.Header
	marks   [5]uint32
	held    [5][]any // holders of the lock of a mark
	holders []any    // its sharers
	writer  any
	checker any // the process that checkpoints
}

const unused = 0xffffffff

func newIndex() *index { return &index{marks: [5]uint32{0, unused, unused, unused, unused}} }

func drop(list []any, who any) []any {
	return slices.DeleteFunc(list, func(other any) bool { return other == who })
}

// others reports whether a list has anything but who.
func others(list []any, who any) bool {
	return slices.ContainsFunc(list, func(other any) bool { return other != who })
}

// release takes all locks of one holder away.
func (x *index) release(who any) {
	for i := range x.held {
		x.held[i] = drop(x.held[i], who)
	}
	if x.writer == who {
		x.writer = nil
	}
	if x.checker == who {
		x.checker = nil
	}
}

// write puts a page into the database's file, unsynced.
func (n *inode) write(page uint32, data []byte, now time.Duration) {
	if n.old == nil {
		n.old = map[uint32][]byte{}
	}
	if _, ok := n.old[page]; !ok {
		if int(page) <= len(n.pages) {
			n.old[page] = n.pages[page-1]
		} else {
			n.old[page] = nil
		}
	}
	for len(n.pages) < int(page) {
		n.pages = append(n.pages, make([]byte, pageSize))
	}
	n.pages[page-1] = data
	n.written = now
}

func (n *inode) sync() { n.old = nil }

func (l *walInode) put(at int, f frame, now time.Duration) {
	if l.old == nil {
		l.old = map[int]*frame{}
	}
	if _, ok := l.old[at]; !ok {
		l.old[at] = nil
		if at < len(l.slots) {
			f := l.slots[at]
			l.old[at] = &f
		}
	}
	if at < len(l.slots) {
		l.slots[at] = f
	} else {
		l.slots = append(l.slots, f)
	}
	l.longest = max(l.longest, len(l.slots))
	l.written = now
}

func (l *walInode) putHeader(salt [8]byte, counts uint32, now time.Duration) {
	if l.before == nil {
		l.before = &walInode{salt: l.salt, counts: l.counts, header: l.header}
	}
	l.salt, l.counts, l.header, l.written = salt, counts, true, now
}

func (l *walInode) sync() { l.old, l.before = nil, nil }

// empty truncates the WAL, durably.
func (l *walInode) empty(now time.Duration) {
	l.slots, l.header, l.longest, l.written = nil, false, 0, now
	l.sync()
}

// recover is the state for a connection that opens the WAL without an index: everything up to the last whole commit.
func (n *inode) recover() walfile.Header {
	h := walfile.Header{Pages: uint32(len(n.pages)), PageSize: pageSize}
	if n.log == nil || !n.log.header {
		return h
	}
	h.Salt, h.Sum = n.log.salt, begins(n.log.salt)
	running := h.Sum
	for i, f := range n.log.slots {
		if running = f.next(running); f.salt != h.Salt || running != f.sum {
			break
		}
		if f.commit != 0 {
			h.Frame, h.Pages, h.Sum = uint32(i+1), f.commit, running
		}
	}
	return h
}

// begins is the running checksum before a WAL's first frame.
func begins(salt [8]byte) [2]uint32 {
	return [2]uint32{binary.BigEndian.Uint32(salt[:]), binary.BigEndian.Uint32(salt[4:])}
}

// next is the running checksum behind f.
func (f *frame) next(sum [2]uint32) [2]uint32 {
	return [2]uint32{sum[0]*31 + f.page + f.commit*7, crc32.Update(sum[1]^sum[0], crc32.IEEETable, f.data)}
}

// image is the whole database as the last commit up to h left it.
func (n *inode) image(h walfile.Header) [][]byte {
	pages := make([][]byte, h.Pages)
	for i := range pages {
		if i < len(n.pages) {
			pages[i] = n.pages[i]
		} else {
			pages[i] = make([]byte, pageSize)
		}
	}
	if n.log != nil {
		for _, f := range n.log.slots[:h.Frame] {
			if f.page <= h.Pages {
				pages[f.page-1] = f.data
			}
		}
	}
	return pages
}

var iso = crc64.MakeTable(crc64.ISO)

// sumOf is LTX's checksum of a database.
func sumOf(pages [][]byte) replica.Checksum {
	var sum uint64
	for i, p := range pages {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(i+1))
		sum ^= crc64.Update(crc64.Update(0, iso, b[:]), iso, p)
	}
	return replica.Checksum(sum | 1<<63)
}

// powerCut forgets what was not made durable, as chance has it.
func (n *inode) powerCut(lost func() bool) {
	for _, page := range slices.Backward(sortedKeys(n.old)) {
		if !lost() {
			continue
		}
		switch was := n.old[page]; {
		case was != nil:
			n.pages[page-1] = was
		case int(page) == len(n.pages):
			n.pages = n.pages[:page-1]
		default:
			n.pages[page-1] = make([]byte, pageSize)
		}
	}
	n.sync()
	if l := n.log; l != nil {
		for _, at := range slices.Backward(sortedKeys(l.old)) {
			if !lost() {
				continue
			}
			if was := l.old[at]; was != nil {
				l.slots[at] = *was
			} else if at == len(l.slots)-1 {
				l.slots = l.slots[:at]
			} else {
				l.slots[at] = frame{data: make([]byte, pageSize)}
			}
		}
		if l.before != nil && lost() {
			l.salt, l.counts, l.header = l.before.salt, l.before.counts, l.before.header
		}
		l.sync()
	}
	n.index, n.shared, n.exclusive, n.pending = nil, nil, nil, nil
}

func sortedKeys[K ~int | ~uint32, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m { // any order: they are sorted
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// clone is a copy of the files, on another disk.
func (n *inode) clone(w *world) *inode {
	c := &inode{number: w.number(), wal: n.wal, pages: slices.Clone(n.pages), written: n.written}
	if l := n.log; l != nil {
		c.log = &walInode{number: w.number(), salt: l.salt, counts: l.counts, header: l.header, slots: slices.Clone(l.slots), longest: l.longest,
			written: l.written}
	}
	return c
}

// has reports whether a page has ever been in the file, or in the WAL up to h.
func (n *inode) has(page uint32, h walfile.Header) bool {
	return int(page) <= len(n.pages) || n.log != nil && slices.ContainsFunc(n.log.slots[:h.Frame], func(f frame) bool { return f.page == page })
}
