// Package replica is a SQLite database in a bucket, as seen from the bucket. It has the names of the files, which of them count, and how an
// owner adds one. It has also the takeover by another owner, after which the first can add no more. docs/formats/sqlite.md is the contract.
// The files are LTX and the names are Litestream's, so a replica of Litestream's is read by the same code.
//
// It is not the agent: it does not know the source of pages, when a group is due, or which files are worth keeping. It starts nothing by
// itself, keeps no state but the manifest's version, and reads no clock but for the time in a fence.
package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/superfly/ltx"

	"github.com/holdfastdb/holdfast/objstore"
)

// ErrFenced: another owner has taken the replica over. Nothing that this one still adds can become part of the chain.
var ErrFenced = errors.New("another owner has taken the replica over")

// ErrOutdated: the manifest was changed by an earlier owner meanwhile. The caller reads the chain again and writes another.
var ErrOutdated = errors.New("the manifest is another than the one it was made from")

// A Fault is a file of a replica that is not as it must be.
type Fault struct {
	Name   string // of the object, below the prefix
	Reason string
	// Absent: the object is not there. Gap: it is whole, and no file leads on from it to those that were there behind it.
	Absent, Gap bool
}

func (f *Fault) Error() string { return f.Name + ": " + f.Reason }

// Replica is one in a store. Its methods may be called from several goroutines at a time.
type Replica struct {
	store  objstore.Store
	layout Layout
	now    func() time.Time
	serial bool // it starts no goroutine

	mu      sync.Mutex
	version string // guarded by mu: of the manifest, as it was last seen
	seen    bool   // guarded by mu: version says something
	// guarded by mu: owner and number of takeovers of the manifest of that version; 0: there is none, or it is damaged.
	seenOwner, seenEpoch uint64
	empty                bool // guarded by mu: there was no file when it was last read, and the caller has not stored the first
}

func (r *Replica) setEmpty(empty bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.empty = empty
}

func (r *Replica) isEmpty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.empty
}

// New returns the replica that store holds, rooted at its prefix. Nothing is read or written yet.
func New(store objstore.Store, layout Layout) *Replica {
	return &Replica{store: store, layout: layout, now: time.Now}
}

// Simulated is New for a simulation: it starts no goroutine, its clock is now, and its store is not asked whether it keeps to conditions.
func Simulated(store objstore.Store, layout Layout, now func() time.Time) *Replica {
	return &Replica{store: store, layout: layout, now: now, serial: true}
}

// Detect returns the replica in store, in either layout, or in the one of LayoutOf if it is empty.
func Detect(ctx context.Context, store objstore.Store, url string) (*Replica, error) {
	r := New(store, LayoutOf(url))
	other := New(store, Bucket+Directory-r.layout)
	for _, at := range []*Replica{r, other} {
		for level := range levels {
			for l, err := range store.List(ctx, at.layout.folder(level), "") {
				if err != nil {
					return nil, fmt.Errorf("list %s: %w", url, err)
				}
				if _, ok := at.layout.Parse(l.Name); ok {
					return at, nil
				}
			}
		}
	}
	return r, nil
}

// Conditional reports objstore.ErrUnconditional if the store does not keep to conditions: then two owners may both be told that they have created
// one file. It asks once for each place in a process. A simulated store keeps to them, and is not asked.
func (r *Replica) Conditional(ctx context.Context) error {
	if r.serial {
		return nil
	}
	return objstore.Conditional(ctx, r.store, objstore.IfNoneMatch|objstore.IfMatch)
}

// Layout is how its names are made.
func (r *Replica) Layout() Layout { return r.layout }

// Name is a file's name in the store.
func (r *Replica) Name(f File) string { return r.layout.Name(f) }

// Open reads n bytes of a file from the offset off on; n -1: up to its end. The caller closes it. ErrAbsent is objstore's.
func (r *Replica) Open(ctx context.Context, f File, off, n int64) (io.ReadCloser, error) {
	return r.open(ctx, r.Name(f), off, n)
}

// open reads a part of an object.
func (r *Replica) open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	return r.store.Open(ctx, name, off, n)
}

// inMemory is the largest file in bytes that is encoded before its upload begins. A larger one is encoded during the upload.
const inMemory = 4 << 20

// put uploads an object that must not be there.
func (r *Replica) put(ctx context.Context, name string, size int64, body Body) error {
	if size > inMemory && !r.serial {
		in, out := io.Pipe()
		defer in.Close() // ends body, if the upload ended before it
		go func() { out.CloseWithError(body(out)) }()
		return r.store.PutFrom(ctx, name, size, in, true)
	}
	b := bytes.NewBuffer(make([]byte, 0, size))
	if err := body(b); err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	return r.store.PutFrom(ctx, name, size, bytes.NewReader(b.Bytes()), true)
}

// Stat reads a file's header and trailer, by two small requests. A file that is not LTX, or another than its name says, is a *Fault.
func (r *Replica) Stat(ctx context.Context, f File) (h Header, t ltx.Trailer, err error) {
	name := r.Name(f)
	if f.Size < FenceSize {
		return h, t, &Fault{Name: name, Reason: fmt.Sprintf("%d bytes are no LTX file", f.Size)}
	}
	head, err := r.part(ctx, name, 0, ltx.HeaderSize)
	if err != nil {
		return h, t, err
	}
	tail, err := r.part(ctx, name, f.Size-ltx.TrailerSize, ltx.TrailerSize)
	if err != nil {
		return h, t, err
	}
	if err = h.UnmarshalBinary(head); err == nil {
		err = h.Validate()
	}
	if err == nil {
		if err = t.UnmarshalBinary(tail); err == nil {
			err = t.Validate(h)
		}
	}
	switch {
	case err != nil:
		return h, t, &Fault{Name: name, Reason: err.Error()}
	case h.MinTXID != f.Min || h.MaxTXID != f.Max:
		return h, t, &Fault{Name: name, Reason: fmt.Sprintf("it is %s under another name", ltx.FormatFilename(h.MinTXID, h.MaxTXID))}
	}
	return h, t, nil
}

func (r *Replica) part(ctx context.Context, name string, off, n int64) ([]byte, error) {
	in, err := r.open(ctx, name, off, n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &Fault{Name: name, Reason: "it is shorter than listed"}
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer in.Close() // it was read
	b := make([]byte, n)
	if _, err := io.ReadFull(in, b); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return nil, &Fault{Name: name, Reason: "it is shorter than listed"}
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}
