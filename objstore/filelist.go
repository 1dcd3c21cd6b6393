package objstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfastdb/holdfast/core/disk"
)

// List implements Store. It holds the names of one directory of each depth at a time.
func (s *File) List(ctx context.Context, prefix, after string) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		begin, err := below(prefix)
		if err == nil {
			err = s.enter(false)
		}
		if err == nil {
			var more bool
			if more, err = s.walk(ctx, begin, after, nil, yield); err == nil && !more {
				return // the caller has had enough
			}
			s.leave(&err)
		}
		if err != nil {
			yield(Listed{}, err)
		}
	}
}

// walk yields the files below a directory, whose name is empty or ends with a slash; it returns false when the caller has had enough. above
// are the directories on the way there. A link back to one of them is an error, for its list would have no end. A named pipe or another
// special file is listed as an empty object. So its reader gets ErrSpecial and does not take it for missing.
func (s *File) walk(ctx context.Context, dir, after string, above []disk.ID, yield func(Listed, error) bool) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	info, err := s.fs.Stat(s.path(dir))
	if isAbsent(err) {
		return true, nil // removed since its name was read
	}
	if err != nil {
		return false, fmt.Errorf("list %s: %w", dir, err)
	}
	if slices.Contains(above, disk.IDOf(info)) {
		return false, fmt.Errorf("list %s: the link leads to a directory that it lies in; remove it: %w", dir, ErrSpecial)
	}
	above = append(above, disk.IDOf(info))
	entries, err := s.fs.ReadDir(s.path(dir))
	if isAbsent(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("list %s: %w", dir, err)
	}
	entries = s.follow(dir, entries)
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
			if more, err := s.walk(ctx, name, after, above, yield); !more || err != nil {
				return false, err
			}
		case name > after:
			info, err := e.Info()
			if isAbsent(err) {
				continue
			}
			if err != nil {
				return false, fmt.Errorf("list %s: %w", name, err)
			}
			l := Listed{Name: name, Time: info.ModTime()}
			if info.Mode().IsRegular() {
				l.Size = info.Size()
			}
			if !yield(l, nil) {
				return false, nil
			}
		}
	}
	return true, nil
}

// follow replaces links by their targets, and leaves out dangling ones.
func (s *File) follow(dir string, entries []fs.DirEntry) []fs.DirEntry {
	kept := entries[:0]
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			info, err := s.fs.Stat(s.path(dir + e.Name()))
			if err != nil {
				continue
			}
			e = linked{fs.FileInfoToDirEntry(info), e.Name()}
		}
		kept = append(kept, e)
	}
	return kept
}

// linked is the target of a link, under the link's name.
type linked struct {
	fs.DirEntry
	name string
}

// Name implements fs.DirEntry.
func (l linked) Name() string { return l.name }

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
func (s *File) Delete(ctx context.Context, names ...string) (err error) {
	if err := s.enter(false); err != nil {
		return err
	}
	defer s.leave(&err)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := checkName(name); err != nil {
			return err
		}
		path := s.path(name)
		info, err := s.fs.Lstat(path)
		switch {
		case isAbsent(err), err == nil && info.IsDir(): // a directory is no object, and an empty one would be removed
			continue
		case err == nil:
			err = s.fs.Remove(path)
		}
		if err != nil && !isAbsent(err) {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	return nil
}
