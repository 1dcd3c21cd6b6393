package wal

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// maxSpares bounds the dropped segments kept for reuse. Under load the log gives back that many at once: the entries made durable by one
// flush, checked after every second segment.
const maxSpares = 4

// prepare makes the next segment ahead of time, so that a switch costs nothing. Filling a new file with zeros and syncing its name takes
// longer than many appends.
type prepare struct {
	mu     sync.Mutex // held while a segment is made or becomes the active one; taken before Log.mu
	next   *segment   // ready to use, nil if none
	spares []string   // files to reuse, all of Options.SegmentBytes

	wakeC    chan struct{} // nil if manual
	quit     chan struct{}
	done     chan struct{}
	stopOnce sync.Once
}

func (p *prepare) run(l *WAL) {
	if l.opt.Manual {
		return
	}
	p.wakeC, p.quit, p.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(p.done)
		for {
			select {
			case <-p.quit:
				return
			case <-p.wakeC:
				p.mu.Lock()
				// The error is dropped: when the segment is needed it is made again, and an error then stops the node. The disk
				// may have room by then.
				_ = l.makeNext()
				p.mu.Unlock()
			}
		}
	}()
}

// wake asks for the next segment. It never blocks.
func (p *prepare) wake() {
	select {
	case p.wakeC <- struct{}{}:
	default:
	}
}

func (p *prepare) stop() {
	if p.quit == nil {
		return
	}
	p.stopOnce.Do(func() { close(p.quit) })
	<-p.done
}

// takeNext returns the segment that follows the active one, with room for size bytes. The caller holds prep.mu, and makes it the active one
// before releasing.
func (l *WAL) takeNext(size int64) (*segment, error) {
	if err := l.makeNext(); err != nil {
		return nil, err
	}
	seg := l.prep.next
	if seg.size < size {
		const page = 4 << 10
		size = (size + page - 1) &^ (page - 1)
		if err := seg.file.Preallocate(size); err != nil {
			return nil, fmt.Errorf("make log segment %s: %w", seg.name, err)
		}
		seg.size = size
	}
	l.prep.next = nil
	return seg, nil
}

// makeNext sees to it that there is a next segment; the caller holds prep.mu. Its name is durable before anything is
// written to it.
func (l *WAL) makeNext() error {
	if l.prep.next != nil {
		return nil
	}
	l.mu.Lock()
	number := l.active().number + 1
	l.mu.Unlock()
	seg, err := l.makeSegment(number)
	if err != nil {
		return err
	}
	l.prep.next = seg
	return nil
}

// makeSegment makes an empty segment file from a spare one or from nothing; the caller holds prep.mu or is Open. A
// recycled file is full of old records, which their segment number gives away.
func (l *WAL) makeSegment(number uint64) (*segment, error) {
	name := segmentName(number)
	seg := &segment{number: number, name: name, size: l.opt.SegmentBytes}
	fail := func(err error) (*segment, error) {
		if seg.file != nil {
			err = errors.Join(err, seg.file.Close())
		}
		return nil, fmt.Errorf("make log segment %s: %w", name, err)
	}
	if n := len(l.prep.spares); n > 0 {
		i := slices.Index(l.prep.spares, name) // one that was prepared before a restart has the right name already
		if i < 0 {
			i = n - 1
		}
		spare := l.prep.spares[i]
		l.prep.spares = slices.Delete(l.prep.spares, i, i+1)
		if spare != name {
			if err := l.fs.Rename(l.path(spare), l.path(name)); err != nil {
				return fail(err)
			}
		}
	} else if err := l.makeFile(l.path(name), seg.size); err != nil {
		return fail(err)
	}
	var err error
	if seg.file, err = l.fs.OpenDirect(l.path(name)); err != nil {
		return fail(err)
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return fail(err)
	}
	return seg, nil
}

// makeFile makes a file full of zeros.
func (l *WAL) makeFile(path string, size int64) error {
	f, err := l.fs.Create(path)
	if err != nil {
		return err
	}
	if err = f.Preallocate(size); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// recycle keeps a file that no longer belongs to the log as a spare, or removes it. The caller holds prep.mu or is Open.
func (l *WAL) recycle(name string) error {
	f, err := l.fs.Open(l.path(name))
	if err != nil {
		return fmt.Errorf("recycle log segment: %w", err)
	}
	size, err := f.Size()
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("recycle log segment: %w", err)
	}
	if size == l.opt.SegmentBytes && len(l.prep.spares) < maxSpares {
		l.prep.spares = append(l.prep.spares, name)
		return nil
	}
	if err := l.fs.Remove(l.path(name)); err != nil {
		return fmt.Errorf("recycle log segment: %w", err)
	}
	return nil
}
