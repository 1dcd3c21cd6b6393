package disk

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// all runs a test against every implementation: what they have in common is the contract.
func all(t *testing.T, test func(t *testing.T, fs FS, dir string)) {
	t.Run("os", func(t *testing.T) { test(t, OS(), t.TempDir()) })
	t.Run("mem", func(t *testing.T) { test(t, NewMem(), ".") })
	t.Run("faulty", func(t *testing.T) { test(t, NewFaulty(NewMem()), ".") })
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestFileContract(t *testing.T) {
	all(t, func(t *testing.T, d FS, dir string) {
		sub := filepath.Join(dir, "a/b")
		check(t, d.MkdirAll(sub))
		name := filepath.Join(sub, "f")
		if _, err := d.Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("open a missing file: %v", err)
		}
		f := must(d.Create(name))(t)
		must(f.WriteAt([]byte("hello"), 3))(t)
		buf := make([]byte, 16)
		if n, err := f.ReadAt(buf, 0); n != 8 || err != io.EOF || string(buf[:8]) != "\x00\x00\x00hello" {
			t.Fatalf("read %q, %v", buf[:n], err)
		}
		check(t, f.Preallocate(3000), f.Preallocate(10))
		if n := must(f.Size())(t); n != 3000 {
			t.Fatalf("size %d", n)
		}
		if n, err := f.ReadAt(buf[:5], 3); n != 5 || err != nil || string(buf[:5]) != "hello" {
			t.Fatalf("preallocation changed the contents: %q, %v", buf[:n], err)
		}
		check(t, f.Truncate(4), f.Sync(), f.Close(), d.SyncDir(sub))
		check(t, d.Rename(name, filepath.Join(sub, "g")))
		check(t, d.WriteFileAtomic(filepath.Join(sub, "e"), []byte("whole")))
		if got := must(d.List(sub))(t); !slices.Equal(got, []string{"e", "g"}) {
			t.Fatalf("list %q", got)
		}
		if got := must(d.ReadFile(filepath.Join(sub, "g")))(t); string(got) != "\x00\x00\x00h" {
			t.Fatalf("read %q", got)
		}
		check(t, d.Remove(filepath.Join(sub, "g")), d.RemoveAll(sub), d.RemoveAll(sub))
		if _, err := d.List(sub); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("list a missing directory: %v", err)
		}
		if free := must(d.Free(dir))(t); free == 0 {
			t.Fatal("no space at all")
		}
	})
}

func TestLockIsExclusive(t *testing.T) {
	all(t, func(t *testing.T, d FS, dir string) {
		name := filepath.Join(dir, "LOCK")
		l := must(d.Lock(name))(t)
		if _, err := d.Lock(name); !errors.Is(err, ErrLocked) {
			t.Fatalf("second lock: %v", err)
		}
		check(t, l.Unlock())
		check(t, must(d.Lock(name))(t).Unlock())
	})
}

// TestUnlockDoesNotWaitForAForkedChild: a child has copies of all descriptors until it calls exec.
func TestUnlockDoesNotWaitForAForkedChild(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	l := must(OS().Lock(name))(t)
	copied := must(syscall.Dup(int(l.(osLock).f.Fd())))(t)
	defer syscall.Close(copied)
	check(t, l.Unlock())
	check(t, must(OS().Lock(name))(t).Unlock())
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	m := NewMem()
	f := must(m.Create("f"))(t)
	must(f.WriteAt(bytes.Repeat([]byte{1}, 2000), 0))(t)
	check(t, f.Sync(), m.SyncDir("."))
	must(f.WriteAt(bytes.Repeat([]byte{2}, 3000), 1000))(t)
	must(m.Create("g"))(t)
	m.Crash(nil)
	if _, err := f.ReadAt(nil, 0); !errors.Is(err, ErrCrashed) {
		t.Fatalf("a file outlived the crash: %v", err)
	}
	if got := must(m.ReadFile("f"))(t); !bytes.Equal(got, bytes.Repeat([]byte{1}, 2000)) {
		t.Fatalf("%d bytes after the crash", len(got))
	}
	if _, err := m.Open("g"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("an unsynced creation survived a total loss: %v", err)
	}
}

// TestCrashTearsBySector: every sector is old or new, and over many crashes both happen to each.
func TestCrashTearsBySector(t *testing.T) {
	const sectors = 6
	seen := [sectors][2]bool{}
	for seed := range uint64(100) {
		m := NewMem()
		f := must(m.Create("f"))(t)
		must(f.WriteAt(bytes.Repeat([]byte{1}, sectors*SectorBytes), 0))(t)
		check(t, f.Sync(), m.SyncDir("."))
		must(f.WriteAt(bytes.Repeat([]byte{2}, sectors*SectorBytes), 0))(t)
		m.Crash(rand.New(rand.NewPCG(seed, 0)))
		got := must(m.ReadFile("f"))(t)
		for s := range sectors {
			sector := got[s*SectorBytes : (s+1)*SectorBytes]
			if bytes.Count(sector, sector[:1]) != SectorBytes {
				t.Fatal("a sector is torn inside")
			}
			seen[s][sector[0]-1] = true
		}
	}
	for s, both := range seen {
		if !both[0] || !both[1] {
			t.Fatalf("sector %d: always the same outcome", s)
		}
	}
}

func TestCrashMayLoseNames(t *testing.T) {
	outcomes := map[string]bool{}
	for seed := range uint64(100) {
		m := NewMem()
		check(t, m.WriteFileAtomic("f", []byte("old")))
		f := must(m.Create("f.tmp"))(t)
		must(f.WriteAt([]byte("new"), 0))(t)
		check(t, f.Sync(), m.Rename("f.tmp", "f"))
		m.Crash(rand.New(rand.NewPCG(seed, 0)))
		outcomes[string(must(m.ReadFile("f"))(t))] = true
	}
	if len(outcomes) != 2 || !outcomes["old"] || !outcomes["new"] {
		t.Fatalf("outcomes of an unsynced rename: %v", outcomes)
	}
}

// A directory's own name is lost like any other, and what was synced in it is lost with it.
func TestCrashLosesDirectoriesWithUnsyncedParents(t *testing.T) {
	outcomes := map[bool]bool{}
	for seed := range uint64(101) {
		var rng *rand.Rand
		if seed < 100 {
			rng = rand.New(rand.NewPCG(seed, 0))
		}
		m := NewMem()
		check(t, m.Mkdir("kept"), m.SyncDir("."), m.WriteFileAtomic("kept/f", []byte("1")))
		check(t, m.Mkdir("kept/lost"), m.Mkdir("kept/lost/below"), m.SyncDir("kept/lost"))
		check(t, m.WriteFileAtomic("kept/lost/below/f", []byte("2")))
		check(t, m.Mkdir("/top"), m.WriteFileAtomic("/top/f", []byte("3")))
		if seed == 0 { // kept, by the sync of its directory for the sake of another name
			check(t, m.Mkdir("kept/later"), m.SyncDir("kept"))
		}
		m.Crash(rng)
		if got := string(must(m.ReadFile("kept/f"))(t)); got != "1" {
			t.Fatalf("seed %d: a synced directory holds %q", seed, got)
		}
		_, err := m.ReadFile("kept/lost/below/f")
		names := must(m.List("kept"))(t)
		if there := slices.Contains(names, "lost"); there != (err == nil) {
			t.Fatalf("seed %d: %q, and in it: %v", seed, names, err)
		}
		outcomes[err == nil] = true
		if seed == 0 && err != nil || rng == nil && (err == nil || !errors.Is(m.SyncDir("/top"), fs.ErrNotExist)) {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if len(outcomes) != 2 {
		t.Fatalf("outcomes of an unsynced directory: %v", outcomes)
	}
}

// Files of a removed directory do not turn up in another one that has its name.
func TestCrashTellsDirectoriesOfOneNameApart(t *testing.T) {
	for seed := range uint64(100) {
		m := NewMem()
		check(t, m.MkdirAll("d"), m.WriteFileAtomic("d/old", nil))
		must(m.Create("d/older"))(t)
		check(t, m.RemoveAll("d"), m.MkdirAll("d"), m.WriteFileAtomic("d/new", nil))
		m.Crash(rand.New(rand.NewPCG(seed, 0)))
		if got := must(m.List("d"))(t); !slices.Equal(got, []string{"new"}) {
			t.Fatalf("seed %d: %q", seed, got)
		}
	}
}

// TestMkdirAllAtEveryCrashPoint: a directory that was made stays, also if one that came before died halfway without losing power.
func TestMkdirAllAtEveryCrashPoint(t *testing.T) {
	const dir = "/a/b/c/d"
	for cut, ended := 0, false; !ended; cut++ {
		m := NewMem()
		m.PowerOffAfter(cut)
		ended = m.MkdirAll(dir) == nil
		m.PowerOffAfter(-1) // the process died, the machine did not
		if cut%2 == 0 {
			_ = m.Mkdir("/a") // another process, and without a sync
			_ = m.Mkdir("/a/b")
		}
		check(t, m.MkdirAll(dir), m.WriteFileAtomic(dir+"/f", []byte("held")))
		m.Crash(nil)
		if got, err := m.ReadFile(dir + "/f"); string(got) != "held" {
			t.Fatalf("cut %d: %q, %v", cut, got, err)
		}
	}
	all(t, func(t *testing.T, d FS, dir string) {
		file := filepath.Join(dir, "file")
		check(t, d.WriteFileAtomic(file, nil), d.MkdirAll(filepath.Join(dir, "x/y")), d.MkdirAll(filepath.Join(dir, "x/y")), d.MkdirAll("/"), d.MkdirAll("."))
		if err := d.Mkdir(filepath.Join(dir, "x")); !errors.Is(err, fs.ErrExist) {
			t.Fatalf("made twice: %v", err)
		}
		if err := d.Mkdir(filepath.Join(dir, "no/where")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("made nowhere: %v", err)
		}
		if err := d.MkdirAll(filepath.Join(file, "x")); err == nil {
			t.Fatal("a directory in a file")
		}
	})
	bad := errors.New("bad sector")
	d := NewFaulty(NewMem())
	d.FailSync(func(name string) bool { return name == "/a/b" }, bad)
	if err := d.MkdirAll("/a/b/c"); !errors.Is(err, bad) {
		t.Fatalf("a name that was not synced counts as made: %v", err)
	}
	if err := d.MkdirAll("/a/b/c"); !errors.Is(err, bad) {
		t.Fatalf("nor does it at the second time: %v", err)
	}
}

// If a name cannot be synced because nothing can be made there, an existing directory is good enough: a volume mounted into a read-only
// system.
func TestMkdirAllBelowWhatCannotBeSynced(t *testing.T) {
	for _, refusal := range []error{syscall.EACCES, syscall.EROFS, syscall.EINVAL, syscall.ENOTSUP} {
		d := NewFaulty(NewMem())
		check(t, d.Mkdir("mount"))
		d.FailSync(func(name string) bool { return name == "." }, &fs.PathError{Op: "sync", Path: ".", Err: refusal})
		check(t, d.MkdirAll("mount"), d.MkdirAll("mount/data"))
		if err := d.MkdirAll("other"); !errors.Is(err, refusal) {
			t.Fatalf("one that is not there: %v", err)
		}
	}
}

// TestWriteFileAtomicAtEveryCrashPoint: old or new, at every operation and every fate of the unsynced.
func TestWriteFileAtomicAtEveryCrashPoint(t *testing.T) {
	for n := 0; ; n++ {
		done := false
		for seed := range uint64(20) {
			m := NewMem()
			check(t, m.WriteFileAtomic("f", []byte("old")))
			m.PowerOffAfter(n)
			err := m.WriteFileAtomic("f", []byte("new"))
			done = err == nil
			if err != nil && !errors.Is(err, ErrPowerOff) {
				t.Fatal(err)
			}
			m.Crash(rand.New(rand.NewPCG(seed, 0)))
			got := string(must(m.ReadFile("f"))(t))
			if got != "new" && (done || got != "old") {
				t.Fatalf("power off after %d calls, error %v: %q", n, err, got)
			}
		}
		if done {
			break
		}
	}
}

func TestFaultyFailsOnRequest(t *testing.T) {
	bad := errors.New("bad sector")
	d := NewFaulty(NewMem())
	f := must(d.Create("wal"))(t)
	d.FailSync(func(name string) bool { return name == "wal" }, bad)
	if err := f.Sync(); !errors.Is(err, bad) {
		t.Fatalf("sync: %v", err)
	}
	check(t, d.SyncDir("."))
	d.FailSync(nil, nil)
	check(t, f.Sync())
	d.FillAfter(nil, 5)
	if n, err := f.WriteAt([]byte("12345678"), 0); n != 5 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("write on a full disk: %d, %v", n, err)
	}
	if free := must(d.Free("."))(t); free != 0 {
		t.Fatalf("free %d", free)
	}
	if err := f.Preallocate(100); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("preallocate on a full disk: %v", err)
	}
	d.FillAfter(nil, -1)
	must(f.WriteAt([]byte("12345678"), 0))(t)
	d.FailRead(nil, bad)
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, bad) {
		t.Fatalf("read: %v", err)
	}
	d.FailWrite(nil, bad)
	if _, err := d.Create("x"); !errors.Is(err, bad) {
		t.Fatalf("create: %v", err)
	}
}

// TestNamesContract: links, exclusive files, modes and identities, the same everywhere.
func TestNamesContract(t *testing.T) {
	all(t, func(t *testing.T, d FS, dir string) {
		at := func(name string) string { return filepath.Join(dir, name) }
		id := func(name string) ID {
			t.Helper()
			return IDOf(must(d.Stat(at(name)))(t))
		}
		f := must(d.CreateNew(at("f"), 0o640))(t)
		must(f.WriteAt([]byte("hello"), 0))(t)
		check(t, f.Sync(), f.Close())
		if _, err := d.CreateNew(at("f"), 0o600); !errors.Is(err, fs.ErrExist) {
			t.Fatalf("made twice: %v", err)
		}
		check(t, d.Link(at("f"), at("g")), d.MkdirMode(at("sub"), 0o750))
		if err := d.Link(at("f"), at("g")); !errors.Is(err, fs.ErrExist) {
			t.Fatalf("linked over a file: %v", err)
		}
		if err := d.Link(at("none"), at("h")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("linked from nothing: %v", err)
		}
		if id("f") != id("g") || id("f") == id("sub") || id("f") == (ID{}) {
			t.Fatalf("f %v, g %v, sub %v", id("f"), id("g"), id("sub"))
		}
		check(t, d.Remove(at("f")), d.Chmod(at("g"), 0o604))
		for name, mode := range map[string]fs.FileMode{"g": 0o604, "sub": 0o750 | fs.ModeDir} {
			if info := must(d.Lstat(at(name)))(t); info.Mode() != mode || info.Name() != name || mode.IsRegular() && info.Size() != 5 {
				t.Fatalf("%s: %v %s of %d bytes", name, info.Mode(), info.Name(), info.Size())
			}
		}
		r := must(d.OpenRead(at("g")))(t)
		buf := make([]byte, 5)
		if must(r.ReadAt(buf, 0))(t); string(buf) != "hello" {
			t.Fatalf("read %q", buf)
		}
		if _, err := r.WriteAt([]byte("x"), 0); err == nil {
			t.Fatal("written through a file for reading")
		}
		check(t, r.Close())
		if _, err := d.OpenRead(at("sub")); !errors.Is(err, ErrNotRegular) {
			t.Fatalf("a directory: %v", err)
		}
		if _, err := d.OpenRead(at("none")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("nothing: %v", err)
		}
		entries := must(d.ReadDir(dir))(t)
		if len(entries) != 2 || entries[0].Name() != "g" || entries[1].Name() != "sub" || !entries[1].IsDir() || entries[0].IsDir() {
			t.Fatalf("%v", entries)
		}
		held := must(d.OpenDir(at("sub")))(t)
		if IDOf(must(held.Stat())(t)) != id("sub") {
			t.Fatal("a held directory is another one")
		}
		if _, err := d.OpenDir(at("g")); !errors.Is(err, syscall.ENOTDIR) {
			t.Fatalf("a file is held as a directory: %v", err)
		}
		check(t, d.RemoveAll(at("sub")), d.Mkdir(at("sub")))
		if IDOf(must(held.Stat())(t)) == id("sub") {
			t.Fatal("a directory made anew has the ID of one that is held")
		}
		check(t, held.Close())
		l := must(d.LockDir(at("sub")))(t)
		if _, err := d.LockDir(at("sub")); !errors.Is(err, ErrLocked) {
			t.Fatalf("second lock: %v", err)
		}
		check(t, l.Unlock(), must(d.LockDir(at("sub")))(t).Unlock())
	})
}

// TestACrashForgetsAnUnsyncedLink, and what was not synced in its file.
func TestACrashForgetsAnUnsyncedLink(t *testing.T) {
	m := NewMem()
	f := must(m.CreateNew("f", 0o600))(t)
	must(f.WriteAt([]byte("kept"), 0))(t)
	check(t, f.Sync(), m.SyncDir("."), m.Link("f", "g"))
	m.Crash(nil)
	if _, err := m.Stat("g"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("an unsynced link is there: %v", err)
	}
	check(t, m.Link("f", "g"), m.SyncDir("."))
	must(must(m.Open("g"))(t).WriteAt([]byte("lost"), 0))(t)
	m.Crash(nil)
	for _, name := range []string{"f", "g"} {
		if b := must(m.ReadFile(name))(t); string(b) != "kept" {
			t.Fatalf("%s holds %q", name, b)
		}
	}
}

// TestSpecialFilesAreNotOpened: none of them makes a reader wait or read without end.
func TestSpecialFilesAreNotOpened(t *testing.T) {
	dir := t.TempDir()
	pipe, sock := filepath.Join(dir, "pipe"), filepath.Join(dir, "s")
	check(t, syscall.Mkfifo(pipe, 0o600))
	l := must(net.Listen("unix", sock))(t)
	defer l.Close()
	for _, name := range []string{pipe, sock, "/dev/zero", dir} {
		if _, err := OS().OpenRead(name); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
