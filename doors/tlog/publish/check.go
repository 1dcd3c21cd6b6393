package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/objstore"
)

// Publishing never reads its own objects again. Other programs, or a failing disk, can remove or change them, and readers would be the
// first to notice. So they are compared with the log once a day.

// Report is the result of a check.
type Report struct {
	// Looked counts tiles and bundles, Bad those that are missing or altered, Mended those of them that were put again.
	Looked, Bad, Mended int
	// First is the fault of the first of them.
	First string
}

func (r *Report) bad(what string) {
	if r.Bad++; r.First == "" {
		r.First = what
	}
}

func (r *Report) add(o Report) {
	r.Looked, r.Bad, r.Mended = r.Looked+o.Looked, r.Bad+o.Bad, r.Mended+o.Mended
	if r.First == "" {
		r.First = o.First
	}
}

// looks is how many objects a check reads at a time.
const looks = 8

// Check implements Place.
func (p *Objects) Check(ctx context.Context, l *tlogmachine.Log, size uint64, mend bool, pace func() error) (Report, error) {
	var all Report
	var some []tiles.Ref
	flush := func() error {
		r, err := p.look(ctx, l, some, size, mend)
		all.add(r)
		some = some[:0]
		return err
	}
	for level := tiles.EntryLevel; level < levels(size); level++ {
		for ref := range growth(level, 0, size) {
			if err := pace(); err != nil {
				return all, err
			}
			if some = append(some, ref); len(some) == looks {
				if err := flush(); err != nil {
					return all, err
				}
			}
		}
	}
	return all, flush()
}

// look looks at some tiles.
func (p *Objects) look(ctx context.Context, l *tlogmachine.Log, refs []tiles.Ref, size uint64, mend bool) (r Report, err error) {
	whats, errs := make([]string, len(refs)), make([]error, len(refs))
	var wg sync.WaitGroup
	for i, ref := range refs {
		wg.Go(func() { whats[i], errs[i] = p.lookAt(ctx, l, ref) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return r, err
	}
	var again []tiles.Ref
	for i, ref := range refs {
		r.Looked++
		if whats[i] == "" {
			continue
		}
		if ref.Width < tiles.Width { // is removed when the full tile is there
			if there, err := p.Held(ctx, l); err != nil || there.Size != size {
				continue
			}
		}
		r.bad(whats[i])
		again = append(again, ref)
	}
	if mend && len(again) > 0 {
		if err := p.putAll(ctx, l, again); err != nil {
			return r, err
		}
		r.Mended = len(again)
	}
	return r, nil
}

// lookAt returns the fault of a published tile, "" for none.
func (p *Objects) lookAt(ctx context.Context, l *tlogmachine.Log, ref tiles.Ref) (string, error) {
	want, err := read(l, ref)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got, err := p.store.Get(ctx, ref.Path())
	switch {
	case errors.Is(err, objstore.ErrAbsent):
		return ref.Path() + " is missing", nil
	case err != nil:
		return "", err
	case !bytes.Equal(got, want):
		return ref.Path() + " is altered", nil
	}
	return "", nil
}

// Repair implements Place. A checkpoint that begins with the log's origin, and whose signature is not good, was of this log.
func (p *Objects) Repair(ctx context.Context, l *tlogmachine.Log) (Published, error) {
	there, err := p.Held(ctx, l)
	if err == nil || !errors.Is(err, ErrRefused) || errors.Is(err, ErrAhead) {
		return there, err
	}
	note, version, err2 := p.store.GetVersion(ctx, checkpointName)
	if err2 != nil {
		return Published{}, err2
	}
	c := l.Checkpoint()
	if !strings.HasPrefix(string(note), l.Spec.Key.Name+"\n") || c == nil {
		return Published{}, err
	}
	return p.Publish(ctx, l, Published{Any: true, version: version}, c)
}

// Check implements Place. Rows at the right edge may be further than the checkpoint.
func (p *Database) Check(ctx context.Context, l *tlogmachine.Log, size uint64, mend bool, pace func() error) (r Report, err error) {
	for level := tiles.EntryLevel; level < levels(size); level++ {
		for ref := range growth(level, 0, size) {
			if err := pace(); err != nil {
				return r, err
			}
			what, err := p.lookAt(ctx, l, ref)
			if err != nil {
				return r, err
			}
			if r.Looked++; what == "" {
				continue
			}
			r.bad(what)
			if !mend {
				continue
			}
			if err := p.mend(ctx, l, ref); err != nil {
				return r, err
			}
			r.Mended++
		}
	}
	return r, nil
}

func (p *Database) lookAt(ctx context.Context, l *tlogmachine.Log, ref tiles.Ref) (string, error) {
	want, err := read(l, ref)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if ref.Level == tiles.EntryLevel {
		got, width, err := p.tables.Bundle(ctx, ref.N)
		if err != nil || got == nil || width < ref.Width {
			return what(ref, got == nil || width < ref.Width, err)
		}
		got, err = tiles.CutBundle(got, ref.Width)
		return what(ref, err != nil || !bytes.Equal(got, want), nil)
	}
	got, err := p.tables.Tile(ctx, ref.Level, ref.N)
	return what(ref, err == nil && !bytes.HasPrefix(got, want), err)
}

func what(ref tiles.Ref, bad bool, err error) (string, error) {
	if err != nil || !bad {
		return "", err
	}
	return "the row of " + ref.Path() + " is missing or altered", nil
}

// mend writes one row again, as wide as the tree in the tables needs it.
func (p *Database) mend(ctx context.Context, l *tlogmachine.Log, ref tiles.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tx, err := p.tables.Begin(ctx)
	if err != nil {
		return refused(err)
	}
	defer tx.Rollback()
	s := tx.State()
	ref.Width = int(min(s.Size>>(tiles.Height*max(ref.Level, 0))-ref.N*tiles.Width, tiles.Width))
	b, err := read(l, ref)
	if err != nil {
		return err
	}
	if ref.Level == tiles.EntryLevel {
		err = tx.PutBundle(ctx, ref.N, ref.Width, b)
	} else {
		err = tx.PutTile(ctx, ref.Level, ref.N, b)
	}
	if err != nil {
		return err
	}
	return tx.Commit(ctx, s.Size, s.Root, nil)
}

// Repair implements Place. The tables' own state shows how far they are: a checkpoint that is not good there is another writer's.
func (p *Database) Repair(ctx context.Context, l *tlogmachine.Log) (Published, error) {
	return p.Held(ctx, l)
}

// Republish compares a place with the log and puts again what is missing or altered, the checkpoint included.
func Republish(ctx context.Context, p Place, l *tlogmachine.Log, mend bool) (Report, error) {
	there, err := p.Held(ctx, l)
	if mend && err != nil {
		there, err = p.Repair(ctx, l)
	}
	if err != nil {
		return Report{}, err
	}
	c := l.Checkpoint()
	if !there.Any && c != nil {
		r := Report{Bad: 1, First: "nothing is published"}
		if !mend {
			return r, nil
		}
		if there, err = p.Publish(ctx, l, there, c); err != nil {
			return r, fmt.Errorf("publish: %w", err)
		}
		r.Mended = 1
		return r, nil
	}
	return p.Check(ctx, l, there.Size, mend, func() error { return ctx.Err() })
}
