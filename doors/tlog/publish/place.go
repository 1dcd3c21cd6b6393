package publish

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/doors/tlog/mysql"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/objstore"
)

// Place is where one log is published: objects with the paths of tlog-tiles, or the tables of a database. Implementations are
// safe for concurrent use. Their errors may be transient, except ErrRefused.
type Place interface {
	// Held returns the published state, and ErrRefused if the place holds anything but an earlier state of l. Nothing is written.
	Held(ctx context.Context, l *tlogmachine.Log) (Published, error)
	// Publish brings the place to c, from the state that Held or the last Publish found or left there, and returns the new state. Readers
	// find every checkpoint with all it promises. ErrChanged: another writer has published meanwhile; the checkpoint there is its own.
	// After any other error the new one may be there all the same.
	Publish(ctx context.Context, l *tlogmachine.Log, from Published, c *tlogmachine.Checkpoint) (Published, error)
	// Check compares the published objects up to a size with the log, one by one. With mend it puts missing and altered ones again. pace is
	// called before each look and may wait; an error from it ends the check.
	Check(ctx context.Context, l *tlogmachine.Log, size uint64, mend bool, pace func() error) (Report, error)
	// Repair is Publish of the newest checkpoint over one that cannot be read any more but was of this log. It answers ErrRefused
	// if the place holds anything else.
	Repair(ctx context.Context, l *tlogmachine.Log) (Published, error)
	// Least is the time that must lie between two publications.
	Least() time.Duration
}

// Published is the checkpoint that a place holds.
type Published struct {
	Any  bool   // there is one
	Size uint64 // 0 if there is none
	// checkpoint is what readers get there.
	checkpoint *tlogmachine.Checkpoint
	// version is the store's own, so that it is replaced only while unchanged.
	version string
}

// patience bounds one step of a publication: some objects, or one transaction. Uploads of finished steps stay.
const patience = time.Minute

// ErrRefused: the place holds something else than an earlier state of the log. Nothing is written to it.
var ErrRefused = errors.New("not an earlier state of this log")

// ErrChanged: another writer has published to the place since it was read.
var ErrChanged = objstore.ErrChanged

// ErrAhead is the ErrRefused of a place with content that the log lacks. The log's own key has signed that content, or was about to sign
// it.
var ErrAhead = fmt.Errorf("%w", ErrRefused)

const forms = "write file:///dir, s3://bucket/prefix or mysql://user@host:port/db"

// Open returns the place a URL names: file:///dir, s3://bucket/prefix or mysql://user@host:port/db. Only the database needs the
// password. Nothing is read or written yet.
func Open(text, password string) (Place, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil: // whose text quotes the URL, which may hold a password
		return nil, errors.New("no URL; " + forms)
	case u.Scheme == "mysql":
		db, err := mysql.Open(text, password)
		if err != nil {
			return nil, err
		}
		return NewDatabase(db), nil
	case u.Scheme != "file" && u.Scheme != "s3":
		return nil, errors.New("no place to publish to; " + forms)
	}
	s, err := objstore.Open(text, objstore.WithMode(0o644)) // for a web server to serve
	if err != nil {
		return nil, err
	}
	if u.Scheme == "s3" {
		p := NewObjects(s, leastBucket)
		p.unproved = true
		return p, nil
	}
	return NewObjects(s, least), nil
}

const (
	// least is the time between two publications to one place.
	least = 100 * time.Millisecond
	// leastBucket is more, because providers charge for every upload and slow down clients that replace one object too often.
	leastBucket = time.Second
)

// heldBy is the state of a place whose checkpoint is note, or ErrRefused.
func heldBy(l *tlogmachine.Log, note []byte, version string) (Published, error) {
	c, _, err := tiles.OpenCheckpoint(note, &l.Spec.Key)
	if err != nil {
		return Published{}, fmt.Errorf("%w: its checkpoint is not signed by %s: %w", ErrRefused, l.Spec.Key.Name, err)
	}
	p := Published{Any: true, Size: c.Size, checkpoint: &tlogmachine.Checkpoint{Size: c.Size, Root: c.Root, Note: note}, version: version}
	return p, continues(l, c.Size, c.Root)
}

// continues answers nil if l had this root when it had this size.
func continues(l *tlogmachine.Log, size uint64, root tiles.Hash) error {
	v := l.View()
	if size > v.Size {
		return fmt.Errorf("%w: it has %d entries, the log %d", ErrAhead, size, v.Size)
	}
	own, err := l.Prover(v, size).Root()
	if err != nil {
		return err
	}
	if root != own {
		return fmt.Errorf("%w: at size %d its root is %s, the log's %s", ErrAhead, size, root, own)
	}
	return nil
}

// read returns what a Ref names.
func read(l *tlogmachine.Log, r tiles.Ref) ([]byte, error) {
	if r.Level == tiles.EntryLevel {
		return l.Bundle(r.N, r.Width)
	}
	return l.Tile(r.Level, r.N, r.Width)
}
