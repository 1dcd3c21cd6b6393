package objstore

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
)

// TestAnFsyncThatFailsIsNoSuccess: of an object's file, of the directory that has its name, and of one above that was made for it. All ways
// to write are tried. An object reported as stored must be there after a crash. When the disk is mended, the same call stores it.
func TestAnFsyncThatFailsIsNoSuccess(t *testing.T) {
	ctx := context.Background()
	broken := errors.New("the disk is broken")
	temp := func(name string) bool { return strings.HasPrefix(filepath.Base(name), tempPrefix) }
	for way, put := range map[string]func(s Store) error{
		"Put":         func(s Store) error { return s.Put(ctx, object("a/b/o", "1")) },
		"PutIfAbsent": func(s Store) error { return s.PutIfAbsent(ctx, object("a/b/o", "1")) },
		"PutIfMatch": func(s Store) error {
			_, err := s.PutIfMatch(ctx, object("a/b/o", "1"), Absent)
			return err
		},
		"PutFrom":           func(s Store) error { return s.PutFrom(ctx, "a/b/o", 1, strings.NewReader("1"), false) },
		"PutFrom if absent": func(s Store) error { return s.PutFrom(ctx, "a/b/o", 1, strings.NewReader("1"), true) },
	} {
		for what, match := range map[string]func(name string) bool{
			"the object":                 temp,
			"its directory":              func(name string) bool { return name == "/d/store/a/b" },
			"the directory above":        func(name string) bool { return name == "/d/store/a" },
			"the store's directory":      func(name string) bool { return name == "/d/store" },
			"the directory of the store": func(name string) bool { return name == "/d" },
		} {
			fsys := disk.NewFaulty(disk.NewMem())
			if err := fsys.MkdirAll("/d"); err != nil {
				t.Fatal(err)
			}
			s := NewFile("/d/store", OnDisk(fsys))
			fsys.FailSync(match, broken)
			if err := put(s); !errors.Is(err, broken) {
				t.Errorf("%s, and the fsync of %s fails: %v", way, what, err)
			}
			fsys.FailSync(nil, nil)
			if err := put(s); err != nil && !errors.Is(err, ErrExists) && !errors.Is(err, ErrChanged) { // it may have come to be there the first time
				t.Errorf("%s, mended after %s: %v", way, what, err)
			}
			if b, err := s.Get(ctx, "a/b/o"); err != nil || string(b) != "1" {
				t.Errorf("%s, mended after %s: %q, %v", way, what, b, err)
			}
			if entries, err := fsys.ReadDir("/d/store/a/b"); err != nil || len(entries) != 1 {
				t.Errorf("%s, mended after %s: there are %v, %v", way, what, entries, err)
			}
		}
	}
}
