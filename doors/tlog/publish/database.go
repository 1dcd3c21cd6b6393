package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/doors/tlog/mysql"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// Database is a Place in the tables that Tessera v1.0.2 reads. A publication is one transaction, the checkpoint its last row.
//
// Every transaction first reads, under the lock, the state of the tables, and continues from there. So two members that both believe to
// lead cannot overwrite each other, and nothing need be remembered between two publications.
type Database struct {
	tables mysql.Tables
	most   int // bytes in one transaction before it is cut
}

// NewDatabase publishes to tables.
func NewDatabase(t mysql.Tables) *Database { return &Database{tables: t, most: mostBytes} }

// mostBytes bounds one transaction: the server must be able to roll it back, and a slow connection to carry it within patience. A longer
// catch-up takes several. All but the last leave a larger tree under the old checkpoint, as Tessera's own writer does between two
// checkpoints.
const mostBytes = 16 << 20

// Least implements Place.
func (p *Database) Least() time.Duration { return least }

// Held implements Place.
func (p *Database) Held(ctx context.Context, l *tlogmachine.Log) (Published, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := p.tables.State(ctx)
	if err != nil {
		return Published{}, refused(err)
	}
	return accept(l, s)
}

// refused turns an error that only an operator can do something about into ErrRefused.
func refused(err error) error {
	if errors.Is(err, mysql.ErrVersion) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// accept returns what is published in the tables. ErrRefused: they hold no earlier state of l. A tree beyond the checkpoint must be an
// earlier state too. It belongs to a signed checkpoint, even if this place never had it.
func accept(l *tlogmachine.Log, s mysql.State) (p Published, err error) {
	if s.Note != nil {
		if p, err = heldBy(l, s.Note, ""); err != nil {
			return p, err
		}
	}
	if s.Size < p.Size {
		return p, fmt.Errorf("%w: its tables have %d entries, its checkpoint %d", ErrRefused, s.Size, p.Size)
	}
	if s.Size == 0 {
		return p, nil
	}
	var root tiles.Hash
	if len(s.Root) != len(root) {
		return p, fmt.Errorf("%w: its root has %d bytes", ErrRefused, len(s.Root))
	}
	copy(root[:], s.Root)
	return p, continues(l, s.Size, root)
}

// Publish implements Place.
func (p *Database) Publish(ctx context.Context, l *tlogmachine.Log, from Published, c *tlogmachine.Checkpoint) (Published, error) {
	for {
		if done, err := p.step(ctx, l, c); err != nil {
			return from, err
		} else if done {
			return Published{Any: true, Size: c.Size, checkpoint: c}, nil
		}
	}
}

// step is one transaction on the way to a checkpoint.
func (p *Database) step(ctx context.Context, l *tlogmachine.Log, c *tlogmachine.Checkpoint) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tx, err := p.tables.Begin(ctx)
	if err != nil {
		return false, refused(err)
	}
	defer tx.Rollback()
	was := tx.State()
	published, err := accept(l, was)
	switch {
	case err != nil:
		return false, err
	case published.Any && published.Size >= c.Size:
		return true, nil // another member has published meanwhile
	case was.Size > c.Size:
		return false, fmt.Errorf("its tables have %d entries, on the way to a later checkpoint than that of %d", was.Size, c.Size)
	}
	is, bytes := c.Size, 0
	for r := range growth(tiles.EntryLevel, was.Size, c.Size) {
		if bytes >= p.most {
			is = r.N * tiles.Width // the rest comes in the next transaction
			break
		}
		b, err := l.Bundle(r.N, r.Width)
		if err != nil {
			return false, err
		}
		if err := tx.PutBundle(ctx, r.N, r.Width, b); err != nil {
			return false, err
		}
		bytes += len(b) + r.Width*tiles.HashSize
	}
	for level := range levels(is) {
		for r := range growth(level, was.Size, is) {
			b, err := l.Tile(r.Level, r.N, r.Width)
			if err != nil {
				return false, err
			}
			if err := tx.PutTile(ctx, r.Level, r.N, b); err != nil {
				return false, err
			}
		}
	}
	if is == c.Size {
		return true, tx.Commit(ctx, c.Size, c.Root[:], c.Note)
	}
	root, err := l.Prover(l.View(), is).Root()
	if err != nil {
		return false, err
	}
	return false, tx.Commit(ctx, is, root[:], nil)
}
