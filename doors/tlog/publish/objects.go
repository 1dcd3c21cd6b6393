package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/objstore"
)

// Objects is a Place of objects with the paths of tlog-tiles: a tree of static files or a bucket. It is complete for readers
// because of the order: the checkpoint is put when all that it covers is there. And it only replaces the checkpoint that was
// read: a late upload of a deposed leader finds another one there and changes nothing.
type Objects struct {
	store objstore.Store
	least time.Duration

	mu       sync.Mutex
	unproved bool             // guarded by mu: it is not known that the store keeps to conditions
	log      *tlogmachine.Log // guarded by mu: which catch-up is under way,
	base     string           // guarded by mu: from which version of the checkpoint,
	put      map[int]uint64   // guarded by mu: and how many full tiles of each level are there
}

// NewObjects publishes to a store that keeps to conditions, with at least this time between two publications.
func NewObjects(s objstore.Store, least time.Duration) *Objects {
	return &Objects{store: s, least: least}
}

const (
	checkpointName = "checkpoint"
	// batch is how many objects are put with one call: their directories are synced once.
	batch = 64
)

// Headers of the objects where they are served over HTTP, the same as doors/tlog sends.
const (
	textType  = "text/plain; charset=utf-8"
	tileType  = "application/octet-stream"
	tileCache = "max-age=31536000, immutable"
	noteCache = "no-cache"
)

// Least implements Place.
func (p *Objects) Least() time.Duration { return p.least }

// Prove finds out whether the store keeps to the condition under which a checkpoint is put. It returns
// objstore.ErrUnconditional if the store does not, and then nothing is published there. After any other error it is not known,
// and tried again before the first publication.
func (p *Objects) Prove(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.unproved {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := objstore.Probe(ctx, p.store)
	if errors.Is(err, objstore.ErrUnconditional) {
		return fmt.Errorf("%w, so that a late one could set the published checkpoint back; publish to a store that knows conditional uploads", err)
	}
	if err == nil {
		p.unproved = false
	}
	return err
}

// Held implements Place.
func (p *Objects) Held(ctx context.Context, l *tlogmachine.Log) (Published, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	note, version, err := p.store.GetVersion(ctx, checkpointName)
	if errors.Is(err, objstore.ErrAbsent) {
		return Published{version: objstore.Absent}, nil
	}
	if err != nil {
		return Published{}, fmt.Errorf("read the published checkpoint: %w", err)
	}
	return heldBy(l, note, version)
}

// Publish implements Place. Uploaded objects of a catch-up stay: after an error the next one continues from there.
func (p *Objects) Publish(ctx context.Context, l *tlogmachine.Log, from Published, c *tlogmachine.Checkpoint) (Published, error) {
	if err := p.Prove(ctx); err != nil {
		return from, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log != l || p.base != from.version || p.put == nil {
		p.log, p.base, p.put = l, from.version, map[int]uint64{}
	}
	var edge, full []tiles.Ref // at the right edge; were partial, and can go
	for level := tiles.EntryLevel; level < levels(c.Size); level++ {
		var some []tiles.Ref
		for r := range growth(level, from.Size, c.Size) {
			if r.Width < tiles.Width {
				edge = append(edge, r)
				continue
			}
			if completed(r, from.Size) {
				full = append(full, r)
			}
			if r.N < p.put[level] {
				continue
			}
			if some = append(some, r); len(some) == batch {
				if err := p.putAll(ctx, l, some); err != nil {
					return from, err
				}
				p.put[level], some = r.N+1, some[:0]
			}
		}
		if len(some) > 0 {
			if err := p.putAll(ctx, l, some); err != nil {
				return from, err
			}
			p.put[level] = some[len(some)-1].N + 1
		}
	}
	if err := p.putAll(ctx, l, edge); err != nil {
		return from, err
	}
	// The commit point: from here on readers find the new size, and all of it is there.
	version, err := p.putCheckpoint(ctx, c, from.version)
	if err != nil {
		return from, err
	}
	is := Published{Any: true, Size: c.Size, checkpoint: c, version: version}
	p.put = nil
	for _, r := range full {
		// A reader that still holds an older checkpoint takes the full one in its place, as tlog-tiles says.
		if err := p.store.DeleteAll(ctx, r.Path()+".p"); err != nil {
			return is, fmt.Errorf("published, but partial tiles below %s.p stay: %w", r.Path(), err)
		}
	}
	return is, nil
}

func (p *Objects) putCheckpoint(ctx context.Context, c *tlogmachine.Checkpoint, was string) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.store.PutIfMatch(ctx, objstore.Object{Name: checkpointName, Data: c.Note, Type: textType, Cache: noteCache}, was)
}

// putAll puts tiles. Those that fail are tried again for as long as others succeed.
func (p *Objects) putAll(ctx context.Context, l *tlogmachine.Log, refs []tiles.Ref) error {
	var objects []objstore.Object
	for _, r := range refs {
		b, err := read(l, r)
		if err != nil {
			return err
		}
		objects = append(objects, objstore.Object{Name: r.Path(), Data: b, Type: tileType, Cache: tileCache})
	}
	for len(objects) > 0 {
		err := p.putOnce(ctx, objects)
		var partial *objstore.Partial
		if err == nil || !errors.As(err, &partial) {
			return err
		}
		var left []objstore.Object
		for i, o := range objects {
			if !partial.Done[i] {
				left = append(left, o)
			}
		}
		if len(left) == len(objects) || ctx.Err() != nil {
			return err
		}
		objects = left
	}
	return nil
}

func (p *Objects) putOnce(ctx context.Context, objects []objstore.Object) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.store.Put(ctx, objects...)
}
