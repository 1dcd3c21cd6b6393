package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/holdfastdb/holdfast/objstore"
)

// Body writes a file's bytes, the same whenever it is called. It may be called more than once: for a client that repeats an upload, and to
// compare.
type Body func(w io.Writer) error

// Bytes is the body of a file in memory.
func Bytes(b []byte) Body {
	return func(w io.Writer) error { _, err := w.Write(b); return err }
}

// Create adds a file of level 0, under the name that follows the owner's last one; several may be in flight at once. Nil: the file with
// these bytes is stored under its name, by this or an earlier attempt. It is part of the chain if all earlier ones are. Of an empty replica
// the first file must be stored before the next is created. ErrFenced says that another's file is there, for good. Any other error may be
// transient: the caller tries the same again, and nothing else under that name.
func (r *Replica) Create(ctx context.Context, f File, body Body) error {
	if f.Level != 0 {
		return fmt.Errorf("create %s: not of level 0", f)
	}
	if f.Min != 1 && r.isEmpty() {
		// A file behind 1-1 has no fence before it. If another's 1-1 is stored, it would be taken for that one's.
		return fmt.Errorf("create %s: %w", f, errNotFirst)
	}
	if err := r.create(ctx, f, body); err != nil || f.Min != 1 {
		return err
	}
	// The replica was empty when its owner looked. If it has a manifest, it is another's, whose 1-1 may have been removed.
	m, err := r.manifest(ctx)
	switch {
	case errors.Is(err, ErrBadManifest):
		return fmt.Errorf("create %s: %w", f, ErrFenced)
	case err != nil:
		return err
	case m == nil:
		r.setEmpty(false)
		return nil
	}
	if !slices.ContainsFunc(m.Files, func(g File) bool { return g.Level == 0 && g.Min == 1 }) {
		if err := r.store.Delete(ctx, r.Name(f)); err != nil {
			return err
		}
	}
	return fmt.Errorf("create %s: %w", f, ErrFenced)
}

// CreateAlone is Create of the first file of an owner that made no fence. Another agent that began from a copy of the same disk may have
// stored a file of this name. It may have removed it since, behind a manifest with the replica's end: then ErrFenced.
func (r *Replica) CreateAlone(ctx context.Context, f File, body Body) error {
	if err := r.Create(ctx, f, body); err != nil || f.Min == 1 { // Create has looked
		return err
	}
	m, err := r.manifest(ctx)
	switch {
	case errors.Is(err, ErrBadManifest): // it was whole when this owner began
	case err != nil:
		return err
	case m == nil || m.Head.TXID < f.Max:
		return nil
	case !slices.ContainsFunc(m.Files, func(g File) bool { return r.Name(g) == r.Name(f) }):
		if err := r.store.Delete(ctx, r.Name(f)); err != nil {
			return err
		}
	}
	return fmt.Errorf("create %s: %w", f, ErrFenced)
}

var errNotFirst = errors.New("the replica is empty, and its first file is not stored yet")

// PutLevel adds a file of a higher level; it begins behind and ends with a file of the chain that is stored. Errors are Create's.
func (r *Replica) PutLevel(ctx context.Context, f File, body Body) error {
	if f.Level < 1 || f.Level >= levels {
		return fmt.Errorf("create %s: not of a level from 1 to %d", f, SnapshotLevel)
	}
	return r.create(ctx, f, body)
}

func (r *Replica) create(ctx context.Context, f File, body Body) error {
	name := r.Name(f)
	err := r.put(ctx, name, f.Size, body)
	if !errors.Is(err, objstore.ErrExists) {
		return err
	}
	same, err := r.holds(ctx, name, body)
	switch {
	case err != nil:
		return err
	case !same:
		return fmt.Errorf("create %s: %w", f, ErrFenced)
	}
	return nil
}

var errDiffers = errors.New("it differs")

// holds reports whether an object has the bytes of body. Both are read as they come.
func (r *Replica) holds(ctx context.Context, name string, body Body) (bool, error) {
	in, err := r.open(ctx, name, 0, -1)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	defer in.Close() // it was read
	c := &comparer{in: in}
	if err := body(c); c.differs {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("compare %s: %w", name, err)
	}
	if _, err := io.ReadFull(in, make([]byte, 1)); err == nil {
		return false, nil
	} else if !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	return true, nil
}

// comparer is written what an object should hold.
type comparer struct {
	in      io.Reader
	buf     [16 << 10]byte
	differs bool
}

func (c *comparer) Write(b []byte) (n int, err error) {
	for n < len(b) {
		part := c.buf[:min(len(c.buf), len(b)-n)]
		// Not io.ReadFull: it calls both the end of a shorter object and a connection that broke an unexpected end.
		for got := 0; got < len(part); {
			k, err := c.in.Read(part[got:])
			if got += k; err == io.EOF && got < len(part) {
				c.differs = true
				return n, errDiffers
			} else if err != nil && err != io.EOF {
				return n, err
			}
		}
		if string(part) != string(b[n:n+len(part)]) {
			c.differs = true
			return n, errDiffers
		}
		n += len(part)
	}
	return n, nil
}

// PutManifest replaces the manifest, if it has not changed since the chain was last read. ErrFenced: a later owner wrote one. ErrOutdated:
// an earlier owner did, after this one took over. Its removals are then unknown, and the caller reads the chain again. Any other error may
// be transient. Calls with the manifests of one owner must not overlap.
func (r *Replica) PutManifest(ctx context.Context, m *Manifest) error {
	data := m.Encode()
	if _, err := DecodeManifest(data); err != nil {
		return fmt.Errorf("put %s: %w", ManifestName, err)
	}
	r.mu.Lock()
	was, seen, owner, epoch := r.version, r.seen, r.seenOwner, r.seenEpoch
	r.mu.Unlock()
	// An owner that has lost the replica may have read its successor's manifest since, so the version alone would let it in.
	if epoch > m.Epoch || epoch == m.Epoch && owner != m.Owner {
		return fmt.Errorf("put %s: %w", ManifestName, ErrFenced)
	}
	if !seen {
		return fmt.Errorf("put %s: %w: it was never read", ManifestName, ErrOutdated)
	}
	version, err := r.store.PutIfMatch(ctx, objstore.Object{Name: ManifestName, Data: data, Type: "text/plain", Cache: "no-store"}, was)
	if err == nil {
		r.mu.Lock()
		r.version, r.seenOwner, r.seenEpoch = version, m.Owner, m.Epoch
		r.mu.Unlock()
		return nil
	}
	if !errors.Is(err, objstore.ErrChanged) {
		return err
	}
	is, err := r.manifest(ctx)
	switch {
	case errors.Is(err, ErrBadManifest), err == nil && is == nil:
		return fmt.Errorf("put %s: %w", ManifestName, ErrOutdated)
	case err != nil:
		return err
	case string(is.Encode()) == string(data):
		return nil // an earlier attempt, whose answer was lost
	case is.Epoch > m.Epoch || is.Epoch == m.Epoch && is.Owner != m.Owner:
		return fmt.Errorf("put %s: %w", ManifestName, ErrFenced)
	case is.Owner == m.Owner: // an attempt with an earlier one, whose answer was lost
		return r.PutManifest(ctx, m)
	}
	return fmt.Errorf("put %s: %w", ManifestName, ErrOutdated)
}

// Remove removes files. The manifest in the store must not name them any more, and its head must not be before them: a takeover relies on
// that. Fences and the last file of the chain are never removed.
func (r *Replica) Remove(ctx context.Context, files ...File) error {
	const batch = 1000
	for part := range slices.Chunk(files, batch) {
		names := make([]string, len(part))
		for i, f := range part {
			names[i] = r.Name(f)
		}
		if err := r.store.Delete(ctx, names...); err != nil {
			return err
		}
	}
	return nil
}

// RemoveOrphans removes the files of level 0 up to the head of m that m does not name, and returns how many. m must be the manifest that
// its caller has stored.
func (r *Replica) RemoveOrphans(ctx context.Context, m *Manifest) (int, error) {
	named := map[string]bool{}
	for _, f := range m.Files {
		named[r.Name(f)] = true
	}
	var gone []File
	if err := r.list(ctx, 0, "", func(f File) bool {
		if f.Max <= m.Head.TXID && !named[r.Name(f)] {
			gone = append(gone, f)
		}
		return f.Min <= m.Head.TXID
	}); err != nil {
		return 0, err
	}
	return len(gone), r.Remove(ctx, gone...)
}
