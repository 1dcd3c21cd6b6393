package objstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
)

// swaps are the ways in which a store's directory goes or becomes another one.
var swaps = map[string]func(t *testing.T, root string){
	"gone":              func(t *testing.T, root string) { do(t, os.RemoveAll(root)) },
	"moved":             func(t *testing.T, root string) { do(t, os.Rename(root, root+"-aside")) },
	"parent gone":       func(t *testing.T, root string) { do(t, os.RemoveAll(filepath.Dir(root))) },
	"made anew":         func(t *testing.T, root string) { do(t, os.RemoveAll(root), os.Mkdir(root, 0o700)) },
	"another directory": func(t *testing.T, root string) { do(t, os.Rename(root, root+"-aside"), os.Mkdir(root, 0o700)) },
	"a copy": func(t *testing.T, root string) {
		do(t, os.Rename(root, root+"-aside"), os.CopyFS(root, os.DirFS(root+"-aside")))
	},
	"a file":           func(t *testing.T, root string) { do(t, os.RemoveAll(root), os.WriteFile(root, nil, 0o600)) },
	"dangling":         func(t *testing.T, root string) { do(t, os.RemoveAll(root), os.Symlink("/nowhere/at/all", root)) },
	"a link elsewhere": func(t *testing.T, root string) { do(t, os.RemoveAll(root), os.Symlink(t.TempDir(), root)) },
	"parent swapped": func(t *testing.T, root string) {
		above := filepath.Dir(root)
		do(t, os.Rename(above, above+"-aside"), os.MkdirAll(root, 0o700))
	},
}

func do(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestASwappedStoreAnswersNothing: after a first use, by a writer or by a reader, no call trusts another directory, and none makes the
// directory again.
func TestASwappedStoreAnswersNothing(t *testing.T) {
	for how, swap := range swaps {
		for _, first := range []string{"write", "read"} {
			t.Run(how+" after a "+first, func(t *testing.T) {
				root := filepath.Join(t.TempDir(), "mnt", "store")
				do(t, NewFile(root).Put(t.Context(), object("a/o", "1")))
				s := NewFile(root)
				if first == "write" {
					do(t, s.Put(t.Context(), object("a/o", "1")))
				} else if _, err := s.Get(t.Context(), "a/o"); err != nil {
					t.Fatal(err)
				}
				swap(t, root)
				for range 2 {
					for call, err := range everyCall(t, s) {
						if !errors.Is(err, ErrSwapped) || errors.Is(err, ErrAbsent) || errors.Is(err, ErrExists) || !Final(err) {
							t.Errorf("%s: %v", call, err)
						}
					}
					if _, err := Identity(t.Context(), s, "identity", true); !errors.Is(err, ErrSwapped) {
						t.Errorf("identity: %v", err)
					}
				}
				if how == "gone" || how == "moved" || how == "parent gone" {
					if _, err := os.Lstat(root); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("the directory was made again: %v", err)
					}
				}
			})
		}
	}
}

// TestAStoreThatComesBackGoesOn: the same directory under its path again is the same store.
func TestAStoreThatComesBackGoesOn(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	s := NewFile(root)
	do(t, s.Put(t.Context(), object("o", "1")), os.Rename(root, root+"-aside"))
	if err := s.Put(t.Context(), object("o", "2")); !errors.Is(err, ErrSwapped) {
		t.Fatal(err)
	}
	do(t, os.Rename(root+"-aside", root), s.Put(t.Context(), object("o", "3")))
	if b, err := s.Get(t.Context(), "o"); string(b) != "3" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// TestAStoreThatMustExistIsNotMade, while one that need not is made once.
func TestAStoreThatMustExistIsNotMade(t *testing.T) {
	root := filepath.Join(t.TempDir(), "mnt", "store")
	s := NewFile(root, MustExist())
	for call, err := range everyCall(t, s) {
		if !errors.Is(err, ErrSwapped) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if _, err := os.Lstat(filepath.Dir(root)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
	do(t, NewFile(root).Put(t.Context(), object("o", "1")), s.Put(t.Context(), object("o", "2")))
	opened, err := Open("file://"+root+"-2", MustExist())
	do(t, err)
	if err := opened.Put(t.Context(), object("o", "1")); !errors.Is(err, ErrSwapped) {
		t.Errorf("opened by its URL: %v", err)
	}
}

// swapDisk swaps the store's directory in the middle of a call: after the n-th call of its file system.
type swapDisk struct {
	disk.FS
	n    int
	swap func()
}

func (d *swapDisk) tick() {
	if d.n--; d.n == 0 {
		d.swap()
	}
}

func (d *swapDisk) Rename(old, name string) error { defer d.tick(); return d.FS.Rename(old, name) }
func (d *swapDisk) Link(old, name string) error   { defer d.tick(); return d.FS.Link(old, name) }
func (d *swapDisk) SyncDir(dir string) error      { defer d.tick(); return d.FS.SyncDir(dir) }
func (d *swapDisk) OpenRead(name string) (disk.File, error) {
	defer d.tick()
	return d.FS.OpenRead(name)
}

// TestASwapInTheMiddleOfACallIsSeen: the comparison comes after the last write.
func TestASwapInTheMiddleOfACallIsSeen(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, s *File) error{
		"put":    func(ctx context.Context, s *File) error { return s.Put(ctx, object("o", "2")) },
		"absent": func(ctx context.Context, s *File) error { return s.PutIfAbsent(ctx, object("p", "2")) },
		"exists": func(ctx context.Context, s *File) error { return s.PutIfAbsent(ctx, object("o", "2")) },
		"match": func(ctx context.Context, s *File) error {
			_, err := s.PutIfMatch(ctx, object("o", "2"), hashVersion([]byte("1")))
			return err
		},
		"from": func(ctx context.Context, s *File) error { return s.PutFrom(ctx, "o", 1, strings.NewReader("2"), false) },
		"none": func(ctx context.Context, s *File) error { _, err := s.Get(ctx, "none"); return err },
	} {
		for n := 1; n <= 2; n++ {
			root := filepath.Join(t.TempDir(), "store")
			d := &swapDisk{FS: disk.OS()}
			s := NewFile(root, OnDisk(d))
			do(t, s.Put(t.Context(), object("o", "1")))
			swapped := false
			d.n, d.swap = n, func() {
				swapped = true
				do(t, os.Rename(root, root+"-aside"), os.Mkdir(root, 0o700))
			}
			if err := call(t.Context(), s); swapped && !errors.Is(err, ErrSwapped) {
				t.Errorf("%s, after %d calls: %v", name, n, err)
			}
		}
	}
}

// TestADanglingStoreIsNotEmpty: a reader that never saw it is not told that there is nothing.
func TestADanglingStoreIsNotEmpty(t *testing.T) {
	dir := t.TempDir()
	do(t, os.Symlink("/nowhere/at/all", filepath.Join(dir, "link")))
	for _, root := range []string{"link", "link/a/b"} {
		s := NewFile(filepath.Join(dir, root))
		for call, err := range everyCall(t, s) {
			if !Final(err) || errors.Is(err, ErrAbsent) {
				t.Errorf("%s of %s: %v", call, root, err)
			}
		}
	}
	if _, err := NewFile(filepath.Join(dir, "not", "yet")).Get(t.Context(), "o"); !errors.Is(err, ErrAbsent) {
		t.Errorf("of one that is not there yet: %v", err)
	}
}

// TestModesOfFilesAndDirectories: private unless said otherwise, and existing files stay as they were.
func TestModesOfFilesAndDirectories(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	for text, want := range map[string][2]os.FileMode{"": {0o600, 0o700}, "?mode=0600": {0o600, 0o700}, "?mode=0644": {0o644, 0o755},
		"?mode=0660": {0o660, 0o770}, "public": {0o640, 0o750}} { // the umask applies where no mode was set
		root := filepath.Join(t.TempDir(), "above", "store")
		var opts []Option
		url := "file://" + root + text
		if text == "public" {
			url, opts = "file://"+root, []Option{WithMode(0o644)}
		}
		s, err := Open(url, opts...)
		do(t, err, s.Put(t.Context(), object("a/put", "1")), s.PutIfAbsent(t.Context(), object("b/absent", "1")),
			s.PutFrom(t.Context(), "c/from", 1, strings.NewReader("1"), true))
		_, err = s.PutIfMatch(t.Context(), object("d/match", "1"), Absent)
		do(t, err)
		err = filepath.WalkDir(filepath.Dir(root), func(path string, e os.DirEntry, err error) error {
			do(t, err)
			info, err := e.Info()
			do(t, err)
			is := want[0]
			if e.IsDir() {
				is = want[1]
			}
			if info.Mode().Perm() != is {
				t.Errorf("%q: %s is %v", text, path, info.Mode())
			}
			return nil
		})
		do(t, err)
	}
	root := t.TempDir()
	do(t, os.Chmod(root, 0o755), os.Mkdir(filepath.Join(root, "old"), 0o755), os.Chmod(filepath.Join(root, "old"), 0o755),
		os.WriteFile(filepath.Join(root, "old/o"), nil, 0o644), NewFile(root).Put(t.Context(), object("old/new", "1")))
	for name, want := range map[string]os.FileMode{"": 0o755, "old": 0o755, "old/o": 0o640, "old/new": 0o600} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("an older store: %s is %v, %v", name, info.Mode(), err)
		}
	}
}
