package objstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// List implements Store. It holds the names of one directory of each depth at a time.
func (s *File) List(ctx context.Context, prefix, after string) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		begin, err := below(prefix)
		if err == nil {
			_, err = s.walk(ctx, begin, after, yield)
		}
		if err != nil {
			yield(Listed{}, err)
		}
	}
}

// walk yields the files below a directory, whose name is empty or ends with a slash; it returns false when the caller has had
// enough.
func (s *File) walk(ctx context.Context, dir, after string, yield func(Listed, error) bool) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, filepath.FromSlash(dir)))
	if isAbsent(err) {
		return true, nil // removed since its name was read
	}
	if err != nil {
		return false, fmt.Errorf("list %s: %w", dir, err)
	}
	// A directory sorts by the names below it, which go on with a slash: a.b is before a/b.
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	for _, e := range entries {
		name := dir + sortName(e)
		switch {
		case strings.HasPrefix(e.Name(), tempPrefix):
		case e.IsDir():
			if name < after && !strings.HasPrefix(after, name) {
				continue // all below it sorts before after
			}
			if more, err := s.walk(ctx, name, after, yield); !more || err != nil {
				return false, err
			}
		case name > after && e.Type().IsRegular():
			info, err := e.Info()
			if isAbsent(err) {
				continue
			}
			if err != nil {
				return false, fmt.Errorf("list %s: %w", name, err)
			}
			if !yield(Listed{name, info.Size(), info.ModTime()}, nil) {
				return false, nil
			}
		}
	}
	return true, nil
}

func sortName(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

// isAbsent reports whether there is no file of a name, nor a directory where its path needs one.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Delete implements Store. Removals are not synced, and directories stay.
func (s *File) Delete(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := checkName(name); err != nil {
			return err
		}
		path := filepath.Join(s.dir, filepath.FromSlash(name))
		info, err := os.Lstat(path)
		switch {
		case isAbsent(err), err == nil && info.IsDir(): // a directory is no object, and an empty one would be removed
			continue
		case err == nil:
			err = os.Remove(path)
		}
		if err != nil && !isAbsent(err) {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	return nil
}
