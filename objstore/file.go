package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
)

// tempPrefix begins the names of files that are being written. Each has a name of its own, for there may be several writers, in one process
// or in two. A file that two of them wrote would appear with half of each.
const tempPrefix = ".new-"

// tempLife is how old such a file must be for its writer to be taken for dead. Written files are renamed within seconds.
const tempLife = time.Hour

// File is a Store in a directory: an object is a file of its name. Its root is made when the first object is put, and never again: see
// ErrSwapped.
type File struct {
	fs        disk.FS
	dir       string      // the root
	mode      fs.FileMode // of new objects
	exact     bool        // the umask takes no part in mode
	mustExist bool
	unique    func() uint64 // part of a temporary file's name

	root root

	mu      sync.Mutex
	swept   map[string]bool    // directories in which this value has looked for leftovers of dead writers; guarded by mu
	durable map[string]disk.ID // directories whose names this value has made durable; guarded by mu
}

// NewFile returns a store in dir, which is made when the first object is put. Its files are for this user alone (0600, and 0700 for
// directories) unless an option says otherwise; existing ones keep their permissions.
func NewFile(dir string, opts ...Option) *File {
	s := &File{fs: disk.OS(), dir: filepath.Clean(dir), mode: 0o600, unique: rand.Uint64, swept: map[string]bool{}, durable: map[string]disk.ID{}}
	for _, o := range opts {
		o(s)
	}
	return s
}

// path is where an object lies.
func (s *File) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// Get implements Store.
func (s *File) Get(ctx context.Context, name string) (b []byte, err error) {
	r, err := s.open(ctx, name, 0, -1, MaxGet)
	if err != nil {
		return nil, err
	}
	defer r.Close() // nothing was written through it
	switch b, err = readMost(r, MaxGet); {
	case errors.Is(err, ErrTooLarge):
		return nil, tooLarge(name, MaxGet)
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", name, err)
	}
	return b, nil
}

// Put implements Store. Files are written beside their places, synced, and renamed; then each directory is synced once.
func (s *File) Put(ctx context.Context, objects ...Object) (err error) {
	for _, o := range objects {
		if err := checkName(o.Name); err != nil {
			return err
		}
	}
	if err := s.enter(true); err != nil {
		return err
	}
	defer s.leave(&err)
	dirs := map[string]bool{}
	for _, o := range objects {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := s.path(o.Name)
		dir := filepath.Dir(path)
		if !dirs[dir] {
			if err := s.makeDir(dir, s.dir, true); err != nil {
				return fmt.Errorf("put %s: %w", o.Name, err)
			}
			s.sweep(dir)
			dirs[dir] = true
		}
		if err := s.replace(path, bytes.NewReader(o.Data)); err != nil {
			return fmt.Errorf("put %s: %w", o.Name, err)
		}
	}
	for dir := range dirs { // any order: all are synced
		if err := s.fs.SyncDir(dir); err != nil {
			return fmt.Errorf("sync %s: %w", dir, err)
		}
	}
	return nil
}

// sweep removes what writers that died have left in dir, once.
func (s *File) sweep(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.swept[dir] {
		return
	}
	s.swept[dir] = true
	entries, _ := s.fs.ReadDir(dir) // unreadable directories cannot be swept
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err == nil && !info.ModTime().IsZero() && time.Since(info.ModTime()) > tempLife {
			_ = s.fs.Remove(filepath.Join(dir, e.Name())) // a file that stays takes room and does no other harm
		}
	}
}

// replace writes a file so that a reader sees the old or the new one, never a part. The file's name is not synced.
func (s *File) replace(path string, r io.Reader) error {
	temp, err := s.writeTemp(path, r)
	if err != nil {
		return err
	}
	if err := s.fs.Rename(temp, path); err != nil {
		_ = s.fs.Remove(temp) // the first error counts
		return err
	}
	return nil
}

// writeTemp writes what is read from r to a file beside path, syncs it, and returns its name. After an error there is none.
func (s *File) writeTemp(path string, r io.Reader) (name string, err error) {
	name, f, err := s.newTemp(path)
	if err != nil {
		return "", err
	}
	if s.exact {
		err = s.fs.Chmod(name, s.mode)
	}
	if err == nil {
		_, err = io.Copy(io.NewOffsetWriter(f, 0), r)
	}
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		_ = s.fs.Remove(name) // the first error counts
		return "", err
	}
	return name, nil
}

// newTemp makes a file beside path with a name of its own.
func (s *File) newTemp(path string) (name string, f disk.File, err error) {
	for {
		base := fmt.Sprintf("%s%016x-%s", tempPrefix, s.unique(), filepath.Base(path))
		name = filepath.Join(filepath.Dir(path), base)
		f, err = s.fs.CreateNew(name, s.mode)
		if !errors.Is(err, fs.ErrExist) {
			return name, f, err
		}
	}
}

// DeleteAll implements Store. Removals are not synced: after a crash an object may be back, with the content it had.
func (s *File) DeleteAll(_ context.Context, prefix string) (err error) {
	if err := checkName(prefix); err != nil {
		return err
	}
	if err := s.enter(false); err != nil {
		return err
	}
	defer s.leave(&err)
	dir := s.path(prefix)
	s.mu.Lock()
	for d := range s.durable { // any order: they are forgotten, for a directory made anew may get the ID of a removed one
		if d == dir || strings.HasPrefix(d, dir+string(filepath.Separator)) {
			delete(s.durable, d)
		}
	}
	s.mu.Unlock()
	return s.fs.RemoveAll(dir)
}
