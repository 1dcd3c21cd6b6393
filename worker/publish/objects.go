package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/tiles"
)

// Objects is a Place of objects with the paths of tlog-tiles: a tree of static files or a bucket. Order is what keeps it
// whole: the checkpoint is put when all it promises is there.
type Objects struct {
	store objstore.Store
	least time.Duration
}

// NewObjects publishes to a store, with at least this time between two publications.
func NewObjects(s objstore.Store, least time.Duration) *Objects { return &Objects{s, least} }

const (
	checkpointName = "checkpoint"
	// batch is how many objects are put with one call: their directories are synced once.
	batch = 64
)

// Headers for whoever serves the objects over HTTP, the same that door/tlog sends.
const (
	textType  = "text/plain; charset=utf-8"
	tileType  = "application/octet-stream"
	tileCache = "max-age=31536000, immutable"
	noteCache = "no-cache"
)

// Least implements Place.
func (p *Objects) Least() time.Duration { return p.least }

// Held implements Place.
func (p *Objects) Held(ctx context.Context, l *tree.Log) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	note, err := p.store.Get(ctx, checkpointName)
	if errors.Is(err, objstore.ErrAbsent) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the published checkpoint: %w", err)
	}
	return sizeOf(l, note)
}

// Publish implements Place.
func (p *Objects) Publish(ctx context.Context, l *tree.Log, from uint64, c *tree.Checkpoint) error {
	var objects []objstore.Object
	var full []tiles.Ref // were partial: those can go
	for level := tiles.EntryLevel; level < levels(c.Size); level++ {
		for r := range growth(level, from, c.Size) {
			b, err := read(l, r)
			if err != nil {
				return err
			}
			objects = append(objects, objstore.Object{Name: r.Path(), Data: b, Type: tileType, Cache: tileCache})
			if completed(r, from) {
				full = append(full, r)
			}
			if len(objects) == batch {
				if err := p.put(ctx, objects...); err != nil {
					return err
				}
				objects = objects[:0]
			}
		}
	}
	if err := p.put(ctx, objects...); err != nil {
		return err
	}
	// The commit point: from here on readers find the new size, and all of it is there.
	if err := p.put(ctx, objstore.Object{Name: checkpointName, Data: c.Note, Type: textType, Cache: noteCache}); err != nil {
		return err
	}
	for _, r := range full {
		// A reader that still holds an older checkpoint takes the full one in its place, as tlog-tiles says.
		if err := p.store.DeleteAll(ctx, r.Path()+".p"); err != nil {
			return fmt.Errorf("published, but partial tiles below %s.p stay: %w", r.Path(), err)
		}
	}
	return nil
}

func (p *Objects) put(ctx context.Context, objects ...objstore.Object) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.store.Put(ctx, objects...)
}
