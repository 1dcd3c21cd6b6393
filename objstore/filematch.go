package objstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
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
func (s *File) PutIfMatch(ctx context.Context, o Object, was string) (string, error) {
	if err := checkName(o.Name); err != nil {
		return Absent, err
	}
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

// putLocked writes an object of which the caller knows that it is still of the version was. PutIfAbsent takes no lock, so where
// there is no object yet its way is the only one that does not replace what it has put meanwhile.
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

// lock locks the store's directory, which is made if it is missing, against every other process and every other caller in this one.
func (s *File) lock(ctx context.Context) (unlock func(), err error) {
	if err := s.makeDir(s.dir, map[string]bool{}); err != nil {
		return nil, err
	}
	f, err := os.Open(s.dir)
	if err != nil {
		return nil, err
	}
	beside := false
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil // which unlocks
		case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR):
		case !beside: // some network file systems lock only files that are open for writing
			beside = true
			_ = f.Close()
			if f, err = os.OpenFile(filepath.Join(s.dir, lockFile), os.O_RDWR|os.O_CREATE, s.mode); err != nil {
				return nil, err
			}
			continue
		default:
			_ = f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		case <-time.After(lockPause):
		}
	}
}
