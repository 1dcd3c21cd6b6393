package agentsim

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/place"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// handle is a database that an agent has open: the model of walfile.DB.
type handle struct {
	p    *process
	n    *inode
	log  *walInode
	x    *index // nil: it is not shared
	lone bool
	slot int
	open bool
}

var _ capture.Files = (*handle)(nil)

// files is the agent's Files of a process.
type files struct{ p *process }

// Pause implements capture.Opener.
func (f files) Pause(d time.Duration) { f.p.Wait(d) }

// LookAt implements agent.Files. Times are as coarse as a kernel's clock tick.
func (f files) LookAt(path string) (l walfile.Look) {
	const tick = 4 * time.Millisecond
	n := f.p.m.disk.names[path]
	if n == nil {
		return l
	}
	l.DB = walfile.Glance{Device: 1, Inode: n.number, Size: int64(len(n.pages)) * pageSize, Time: int64(n.written.Truncate(tick)) + 1}
	if n.log != nil {
		l.WAL = walfile.Glance{Device: 1, Inode: n.log.number, Time: int64(n.log.written.Truncate(tick)) + 1}
		if n.log.longest > 0 {
			l.WAL.Size = 32 + int64(n.log.longest)*(24+pageSize)
		}
	}
	return l
}

// Open implements capture.Opener.
func (f files) Open(path string) (capture.Files, error) { return f.p.openHandle(path, false) }

// OpenExclusive implements capture.Opener.
func (f files) OpenExclusive(path string) (capture.Files, error) { return f.p.openHandle(path, true) }

func (p *process) openHandle(path string, lone bool) (capture.Files, error) {
	n := p.m.disk.names[path]
	switch {
	case n == nil, len(n.pages) == 0:
		return nil, walfile.ErrAbsent
	case n.wal && !lone && n.exclusive != nil:
		return nil, walfile.ErrExclusive
	}
	h := &handle{p: p, n: n, lone: lone, open: true}
	if n.wal && !lone {
		n.shared = append(n.shared, h)
	}
	p.m.handles = append(p.m.handles, h)
	return h, h.Join()
}

func (h *handle) w() *world        { return h.p.m.w }
func (h *handle) IsOpen() bool     { return h.open }
func (h *handle) PageSize() uint32 { return pageSize }
func (h *handle) WAL() bool        { return h.n.wal }
func (h *handle) Live() bool       { return h.x != nil }
func (h *handle) Held() bool       { return h.slot != 0 }

// Close releases everything.
func (h *handle) Close() {
	if h.x != nil {
		h.x.release(h)
		h.x.holders = drop(h.x.holders, h)
	}
	h.n.shared = drop(h.n.shared, h)
	h.x, h.slot, h.open, h.log = nil, 0, false, nil
	h.p.m.handles = slices.DeleteFunc(h.p.m.handles, func(o *handle) bool { return o == h })
}

// ID is the file's identity.
func (h *handle) ID() place.ID { return h.n.id() }

func (n *inode) id() place.ID { return place.ID{Dev: 1, Ino: n.number} }

func (h *handle) Moved() bool { return h.p.m.disk.names[dbPath] != h.n }

func (h *handle) Join() error {
	if !h.n.wal {
		return nil
	}
	if h.log == nil || h.x == nil {
		h.log = h.n.log
	}
	if h.x != nil || h.lone {
		return nil
	}
	if x := h.n.index; x != nil && len(x.holders) > 0 {
		h.x, h.log = x, h.n.log
		x.holders = append(x.holders, h)
	}
	return nil
}

func (h *handle) Sync() error {
	h.w().note("%s makes the database durable", h.p.m.name)
	if h.log != nil {
		h.log.sync()
	}
	h.n.sync()
	return nil
}

func (h *handle) Header() (walfile.Header, error) {
	if h.w().chance(1, 300) {
		return walfile.Header{}, walfile.ErrBusy // a connection writes it
	}
	return h.x.Header, nil
}

func (h *handle) Recover(walfile.Header) (walfile.Header, error) {
	if h.log != h.n.log { // the file that is open was removed
		return (&inode{pages: h.n.pages, log: h.log}).recover(), nil
	}
	return h.n.recover(), nil
}

func (h *handle) Pages() (uint32, error) { return uint32(len(h.n.pages)), nil }

func (h *handle) ReadPage(page uint32, p []byte) error {
	clear(p)
	if int(page) <= len(h.n.pages) {
		copy(p, h.n.pages[page-1])
	}
	return nil
}

func (h *handle) FrameOffset(n uint32) int64 { return 32 + int64(n-1)*(24+pageSize) }

func (h *handle) Frames(from uint32, sum [2]uint32, to walfile.Header, each func(walfile.Frame, []byte) error) error {
	l := h.log
	switch {
	case l == nil:
		return walfile.ErrBusy
	case !l.header || l.salt != to.Salt || int(to.Frame) > len(l.slots):
		return walfile.ErrDamaged
	}
	if from == 0 {
		sum = begins(l.salt)
	}
	for i := from; i < to.Frame; i++ {
		f := &l.slots[i]
		if sum = f.next(sum); f.salt != to.Salt || f.sum != sum {
			return walfile.ErrDamaged
		}
		if err := each(walfile.Frame{Number: i + 1, Page: f.page, Commit: f.commit}, f.data); err != nil {
			return err
		}
	}
	if sum != to.Sum {
		return walfile.ErrDamaged
	}
	return nil
}

func (h *handle) ReadFrame(n uint32, p []byte) error {
	if h.log == nil || int(n) > len(h.log.slots) {
		return io.EOF
	}
	copy(p, h.log.slots[n-1].data)
	return nil
}

func (h *handle) Hold() error {
	if h.slot != 0 {
		return nil
	}
	return h.moveMark(unused)
}

func (h *handle) moveMark(value uint32) error {
	for i := len(h.x.marks) - 1; i > 0; i-- {
		if i == h.slot || h.takeMark(i, value) != nil {
			continue
		}
		if h.slot != 0 {
			h.x.held[h.slot] = drop(h.x.held[h.slot], h)
		}
		h.slot = i
		return nil
	}
	return walfile.ErrBusy
}

func (h *handle) takeMark(i int, value uint32) error {
	if others(h.x.held[i], h) {
		return walfile.ErrBusy
	}
	h.x.marks[i], h.x.held[i] = value, []any{h}
	return nil
}

func (h *handle) Release() error {
	if h.slot != 0 {
		h.x.held[h.slot] = drop(h.x.held[h.slot], h)
		h.slot = 0
	}
	return nil
}

func (h *handle) Pin(frame uint32) error {
	if h.takeMark(h.slot, frame) == nil {
		return nil
	}
	return h.moveMark(frame)
}

func (h *handle) Unpin() error { return h.Pin(unused) }

func (h *handle) Rest() error {
	h.w().note("%s lets the database rest", h.p.m.name)
	h.n.shared = drop(h.n.shared, h)
	return h.Release()
}

func (h *handle) Rouse() error {
	if h.n.exclusive != nil {
		return walfile.ErrExclusive
	}
	h.n.shared = append(h.n.shared, h)
	if h.Moved() || h.x != h.n.index || h.log != nil && h.log != h.n.log {
		return walfile.ErrMoved
	}
	return nil
}

func (h *handle) LockWriters() error {
	if h.x.writer != nil && h.x.writer != h {
		return walfile.ErrBusy
	}
	h.x.writer = h
	return nil
}

func (h *handle) UnlockWriters() error {
	if h.x.writer == h {
		h.x.writer = nil
	}
	return nil
}

func (h *handle) Restart(read walfile.Position) error {
	x := h.x
	if h.slot == 0 || x.writer != h {
		return errors.New("restart a WAL: a lock is missing")
	}
	if x.checker != nil || x.Position != read || x.Copied != x.Frame || x.Frame == 0 || h.Read() {
		return walfile.ErrBusy
	}
	x.Frame, x.Copied = 0, 0
	binary.BigEndian.PutUint32(x.Salt[:], binary.BigEndian.Uint32(x.Salt[:])+1)
	binary.BigEndian.PutUint32(x.Salt[4:], h.w().rng.Uint32())
	x.marks = [5]uint32{0, 0, unused, unused, unused}
	x.marks[h.slot] = unused
	h.w().rep.Restarts++
	h.w().note("%s starts the WAL anew", h.p.m.name)
	return nil
}

func (h *handle) Alone() bool { return h.x == nil || !others(h.x.holders, h) }

func (h *handle) Read() bool {
	return slices.ContainsFunc(h.x.held[1:], func(l []any) bool { return others(l, h) })
}

func (h *handle) Wanted() bool { return h.n.pending != nil }

func (h *handle) Checkpointing() bool {
	return h.x.checker != nil && h.x.checker != h && h.x.writer != nil && h.x.writer != h
}
