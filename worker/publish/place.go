package publish

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/tiles"
	"github.com/holdfastdb/holdfast/tlogdb"
)

// Place is where one log is published: objects with the paths of tlog-tiles, or the tables of a database. Implementations are
// safe for concurrent use. Their errors may pass, except ErrRefused.
type Place interface {
	// Held returns the size of the published checkpoint, 0 if there is none, and ErrRefused if the place holds anything but an
	// earlier state of l. Nothing is written.
	Held(ctx context.Context, l *tree.Log) (uint64, error)
	// Publish brings the place from the checkpoint of size from, which Held or the last Publish left there, to c. Readers find
	// every checkpoint with all it promises. After an error the new one may be there all the same.
	Publish(ctx context.Context, l *tree.Log, from uint64, c *tree.Checkpoint) error
	// Least is the time that must lie between two publications.
	Least() time.Duration
}

// patience bounds one step of a publication: some objects, or one transaction. What steps have put stays.
const patience = time.Minute

// ErrRefused: the place holds something else than an earlier state of the log. Nothing is written to it.
var ErrRefused = errors.New("not an earlier state of this log")

const forms = "write file:///dir, s3://bucket/prefix or mysql://user@host:port/db"

// Open returns the place a URL names: file:///dir, s3://bucket/prefix or mysql://user@host:port/db. Only the database needs the
// password. Nothing is read or written yet.
func Open(text, password string) (Place, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil: // which has the text in it, and perhaps somebody's password
		return nil, errors.New("no URL; " + forms)
	case u.Scheme == "mysql":
		db, err := tlogdb.Open(text, password)
		if err != nil {
			return nil, err
		}
		return NewDatabase(db), nil
	case u.Scheme != "file" && u.Scheme != "s3":
		return nil, errors.New("no place to publish to; " + forms)
	}
	s, err := objstore.Open(text)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "s3" {
		return NewObjects(s, leastBucket), nil
	}
	return NewObjects(s, least), nil
}

const (
	// least is the time between two publications to one place.
	least = 100 * time.Millisecond
	// leastBucket is more, because providers charge for every upload and slow down whoever replaces one object too often.
	leastBucket = time.Second
)

// sizeOf returns the size of a published checkpoint of l, or ErrRefused.
func sizeOf(l *tree.Log, note []byte) (uint64, error) {
	c, _, err := tiles.OpenCheckpoint(note, &l.Spec.Key)
	if err != nil {
		return 0, fmt.Errorf("%w: its checkpoint is not signed by %s: %w", ErrRefused, l.Spec.Key.Name, err)
	}
	return c.Size, continues(l, c.Size, c.Root)
}

// continues answers nil if l had this root when it had this size.
func continues(l *tree.Log, size uint64, root tiles.Hash) error {
	v := l.View()
	if size > v.Size {
		return fmt.Errorf("%w: it has %d entries, the log %d", ErrRefused, size, v.Size)
	}
	own, err := l.Prover(v, size).Root()
	if err != nil {
		return err
	}
	if root != own {
		return fmt.Errorf("%w: at size %d its root is %s, the log's %s", ErrRefused, size, root, own)
	}
	return nil
}

// read returns what a Ref names.
func read(l *tree.Log, r tiles.Ref) ([]byte, error) {
	if r.Level == tiles.EntryLevel {
		return l.Bundle(r.N, r.Width)
	}
	return l.Tile(r.Level, r.N, r.Width)
}
