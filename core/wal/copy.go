package wal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/holdfastdb/holdfast/core/disk"
)

// Copy copies the closed log in the directory from to the directory to, which must not exist, and leaves the former alone. Blocks of
// zeros are not written. The copy is not durable, and as damaged as the log.
func Copy(fs disk.FS, from, to string) error {
	st, ok, err := readStart(fs, from)
	if err == nil && !ok {
		err = fmt.Errorf("%s: no log here: %s is missing", from, startName)
	}
	if err != nil {
		return fmt.Errorf("copy log: %w", err)
	}
	names := []string{startName}
	numbers, _, err := listSegments(fs, from, st.segment)
	if err != nil {
		return fmt.Errorf("copy log: %w", err)
	}
	for _, number := range numbers {
		names = append(names, segmentName(number))
	}
	if err := fs.MkdirAll(to); err != nil {
		return fmt.Errorf("copy log: %w", err)
	}
	for _, name := range names {
		if err := copyFile(fs, filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return fmt.Errorf("copy log: %w", err)
		}
	}
	return nil
}

func copyFile(fs disk.FS, from, to string) (err error) {
	src, err := fs.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := fs.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	size, err := src.Size()
	if err != nil {
		return err
	}
	if err := dst.Truncate(size); err != nil {
		return err
	}
	buf := make([]byte, scanWindow)
	for off := int64(0); off < size; off += int64(len(buf)) {
		b := buf[:min(int64(len(buf)), size-off)]
		if n, err := src.ReadAt(b, off); err != nil && !(errors.Is(err, io.EOF) && n == len(b)) {
			return fmt.Errorf("read log segment %s at %d: %w", from, off, err)
		}
		if allZero(b) {
			continue
		}
		if _, err := dst.WriteAt(b, off); err != nil {
			return err
		}
	}
	return nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
