package objstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
)

// lockFile is locked instead of the directory on file systems that cannot lock a directory.
const lockFile = tempPrefix + "lock"

// lockPause is the time between two attempts at a lock.
const lockPause = 5 * time.Millisecond

// GetVersion implements Store.
func (s *File) GetVersion(ctx context.Context, name string) ([]byte, string, error) {
	b, err := s.Get(ctx, name)
	if err != nil {
		return nil, Absent, err
	}
	return b, hashVersion(b), nil
}

// PutIfMatch implements Store. The caller holds a lock on the store's directory from reading the old file until it has replaced
// it. The kernel drops the lock if the process ends.
func (s *File) PutIfMatch(ctx context.Context, o Object, was string) (version string, err error) {
	if err := checkName(o.Name); err != nil {
		return Absent, err
	}
	if err := s.enter(true); err != nil {
		return Absent, fmt.Errorf("put %s: %w", o.Name, err)
	}
	defer s.leave(&err)
	unlock, err := s.lock(ctx)
	if err != nil {
		return Absent, fmt.Errorf("put %s: lock %s: %w", o.Name, s.dir, err)
	}
	defer unlock()
	switch _, is, err := s.GetVersion(ctx, o.Name); {
	case err != nil && !errors.Is(err, ErrAbsent):
		return Absent, err
	case is != was:
		return Absent, fmt.Errorf("put %s: %w", o.Name, ErrChanged)
	}
	if err := s.putLocked(ctx, o, was); err != nil {
		return Absent, err
	}
	return hashVersion(o.Data), nil
}

// putLocked writes an object that, as the caller knows, is still of the version was. PutIfAbsent takes no lock. So without an existing
// object only PutIfAbsent's way does not replace an object that it has put meanwhile.
func (s *File) putLocked(ctx context.Context, o Object, was string) error {
	if was != Absent {
		return s.Put(ctx, o)
	}
	err := s.PutIfAbsent(ctx, o)
	switch {
	case errors.Is(err, ErrExists):
		return fmt.Errorf("put %s: %w", o.Name, ErrChanged)
	case errors.Is(err, ErrUnconditional): // no PutIfAbsent works here, so the lock is enough
		return s.Put(ctx, o)
	}
	return err
}

// lock locks the store's directory against every other process and every other caller in this one.
func (s *File) lock(ctx context.Context) (unlock func(), err error) {
	beside := false
	for {
		var l disk.Unlocker
		if beside {
			l, err = s.fs.Lock(filepath.Join(s.dir, lockFile))
		} else {
			l, err = s.fs.LockDir(s.dir)
		}
		switch {
		case err == nil:
			return func() { _ = l.Unlock() }, nil // the lock goes with the descriptor
		case errors.Is(err, disk.ErrLocked):
		case !beside && !errors.Is(err, fs.ErrNotExist): // some network file systems lock only files that are open for writing
			beside = true
			continue
		default:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockPause):
		}
	}
}
