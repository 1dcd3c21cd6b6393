package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/disk"
)

// tempPrefix begins the names of files that are being written. Each has a name of its own, for there may be several writers, in one
// process or in two: a file that two of them wrote would appear with half of each.
const tempPrefix = ".new-"

// tempLife is how old such a file must be for its writer to be taken for dead. Written files are renamed within seconds.
const tempLife = time.Hour

// File is a Store in a directory: an object is a file of its name.
type File struct {
	dir       string
	mode      fs.FileMode // of new objects
	exact     bool        // the umask takes no part in mode
	mustExist bool

	mu    sync.Mutex
	swept map[string]bool // directories in which this value has looked for what dead writers left; guarded by mu
}

// NewFile returns a store in dir, which is made when the first object is put. Its files are for this user alone (0600, and 0700 for
// directories) unless an option says otherwise; what is there already keeps its permissions.
func NewFile(dir string, opts ...Option) *File {
	s := &File{dir: dir, mode: 0o600, swept: map[string]bool{}}
	for _, o := range opts {
		o(s)
	}
	return s
}

// Get implements Store.
func (s *File) Get(_ context.Context, name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, ErrAbsent)
	}
	return b, err
}

// Put implements Store. Files are written beside their places, synced, and renamed; then each directory is synced once.
func (s *File) Put(ctx context.Context, objects ...Object) error {
	dirs := map[string]bool{}
	for _, o := range objects {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := checkName(o.Name); err != nil {
			return err
		}
		path := filepath.Join(s.dir, filepath.FromSlash(o.Name))
		dir := filepath.Dir(path)
		if !dirs[dir] {
			if err := s.makeDir(dir, dirs); err != nil {
				return fmt.Errorf("put %s: %w", o.Name, err)
			}
			s.sweep(dir)
		}
		if err := s.replace(path, bytes.NewReader(o.Data)); err != nil {
			return fmt.Errorf("put %s: %w", o.Name, err)
		}
	}
	for dir := range dirs { // any order: all are synced
		if err := disk.OS().SyncDir(dir); err != nil {
			return fmt.Errorf("sync %s: %w", dir, err)
		}
	}
	return nil
}

// makeTries is how often a directory is made anew that is removed again before its child is made: by DeleteAll, for example.
const makeTries = 3

// makeDir makes a directory with all above it and notes those whose entries must become durable. An error is final, apart from a disk
// that is full or fails.
func (s *File) makeDir(dir string, dirs map[string]bool) error {
	for try := 1; ; try++ {
		dirs[dir] = true
		err := os.Mkdir(dir, dirMode(s.mode))
		above := filepath.Dir(dir)
		switch {
		case err == nil:
			dirs[above] = true
			if s.exact {
				return os.Chmod(dir, dirMode(s.mode))
			}
			return nil
		case errors.Is(err, fs.ErrExist):
			return isDir(dir)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case above == dir || try == makeTries: // what is above it is there, and takes no directory: /proc
			return lasting{err}
		}
		if err := s.makeDir(above, dirs); err != nil {
			return err
		}
	}
}

// isDir is the error of a path under which something is and must be a directory.
func isDir(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		to, _ := os.Readlink(path) // the text is for a person
		return lasting{fmt.Errorf("%s is a link to %s, where nothing is: mount the disk, or remove the link", path, to)}
	case err != nil:
		return err
	case !info.IsDir():
		return lasting{fmt.Errorf("%s is a file and must be a directory", path)}
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
	entries, _ := os.ReadDir(dir) // what cannot be read cannot be swept
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > tempLife {
			_ = os.Remove(filepath.Join(dir, e.Name())) // a file that stays takes room and does no other harm
		}
	}
}

// replace writes a file so that a reader sees the old or the new one, never a part.
func (s *File) replace(path string, r io.Reader) error {
	temp, err := s.writeTemp(path, r)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		_ = os.Remove(temp) // the first error is the one that counts
		return err
	}
	return nil
}

// writeTemp writes what is read from r to a file beside path, syncs it, and returns its name. After an error there is none.
func (s *File) writeTemp(path string, r io.Reader) (name string, err error) {
	f, err := s.newTemp(path)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, r)
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one that counts
		return "", err
	}
	return f.Name(), nil
}

// newTemp makes a file beside path that nobody else writes.
func (s *File) newTemp(path string) (*os.File, error) {
	for {
		name := fmt.Sprintf("%s%016x-%s", tempPrefix, rand.Uint64(), filepath.Base(path))
		f, err := os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, s.mode)
		if err == nil && s.exact {
			err = f.Chmod(s.mode)
		}
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// DeleteAll implements Store. Removals are not synced: after a crash an object may be back, with the content it had.
func (s *File) DeleteAll(_ context.Context, prefix string) error {
	if err := checkName(prefix); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(s.dir, filepath.FromSlash(prefix)))
}
