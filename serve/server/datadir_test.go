package server

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfastdb/holdfast/core/node"
)

// nobody runs fn in a thread of its own with the rights of an unprivileged user. As another user than root it is the test's own thread.
func nobody(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if os.Geteuid() == 0 {
			const id = 65534
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, id, id, id); errno != 0 {
				panic(errno)
			}
		}
		fn()
	}()
	<-done
}

// The check names what is wrong with the directory and what to do, and leaves everything as it was.
func TestTheDataDirectoryIsJudgedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for dir := top; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			break
		}
	}
	at := func(parts ...string) string { return filepath.Join(append([]string{top}, parts...)...) }
	write := func(text string, parts ...string) {
		if err := os.MkdirAll(filepath.Dir(at(parts...)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(parts...), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mkdir := func(mode os.FileMode, parts ...string) string {
		if err := os.MkdirAll(at(parts...), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at(parts...), mode); err != nil {
			t.Fatal(err)
		}
		return at(parts...)
	}
	link := func(to string, name string) string {
		if err := os.Symlink(to, at(name)); err != nil {
			t.Fatal(err)
		}
		return at(name)
	}
	write("root:x:0:0", "file")
	write("16", "postgres", "PG_VERSION")
	write("", "postgres", "base", "1", "2")
	write("", "postgres", "global", "1")
	write("", "postgres", "pg_wal", "1")
	write("", "dotfile", ".gitkeep")
	write(`{"format":99}`, "later", "identity.json")
	write(`{"name":"a bank account"}`, "other", "identity.json")
	write(`not JSON`, "torn", "identity.json")
	write("", "member", "member", "snap", "db")
	write("", "damaged", "wal", "START")
	write("", "keys", "tlog-keys", "default.key")
	write("", "crashed", "identity.json.tmp")
	write("", "beside", "fixtures", "client", "cert.pem")
	mkdir(0o755, "fresh", "lost+found")
	open := mkdir(0o777, "open")
	before := listing(t, top)
	for _, tc := range []struct {
		name, dir string
		want      string // "": it passes
	}{
		{"a file", at("file"), "it is a file; give a directory"},
		{"below a file", at("file", "data"), at("file") + " is a file; give a directory"},
		{"deep below a file", at("file", "a", "b"), at("file") + " is a file; give a directory"},
		{"a link to a file", link(at("file"), "tofile"), "it is a file; give a directory"},
		{"a dangling link", link(at("gone"), "dangling"), "it is a link to " + at("gone") + ", which does not exist"},
		{"below a dangling link", at("dangling", "data"), "it is a link to " + at("gone")},
		{"a loop of links", link(at("loop"), "loop"), "too many levels of symbolic links; give a directory"},
		{"not permitted", mkdir(0o555, "readonly"), "permission denied; give a directory this user can write"},
		{"not readable", mkdir(0o300, "unread"), "permission denied; give a directory this user can write"},
		{"the parent not writable", filepath.Join(mkdir(0o555, "parent"), "data"), "it cannot be made in " + at("parent") + ": permission denied"},
		{"a parent to be made not writable", at("parent", "a", "b"), "it cannot be made in " + at("parent") + ": permission denied"},
		{"another program's", at("postgres"), "postgres holds PG_VERSION, base, global and 1 more and no identity.json: it is not a Holdfast data directory; give an empty"},
		{"a dotfile", at("dotfile"), "holds .gitkeep and no identity.json"},
		{"etcd's", at("member"), "holds member and no identity.json"},
		{"another version's", at("later"), "data format 99, this build reads 1: use the build that wrote it"},
		{"an identity of another program", at("other"), "damaged or of another program"},
		{"a torn identity", at("torn"), "damaged or of another program"},
		{"without its identity", at("damaged"), "put identity.json back"},
		{"a file system of its own", at("fresh"), ""},
		{"keys put there before", at("keys"), ""},
		{"a first start that a crash ended", at("crashed"), ""},
		{"certificates of --auto-tls", at("beside"), ""},
		{"a link to a directory", link(open, "toopen"), ""},
		{"a missing one", at("open", "a", "b"), ""},
		{"one with a slash behind it", open + "/", ""},
	} {
		var err error
		su := &Setup{Node: node.Config{Dir: tc.dir, Beside: []string{"tlog-keys", "fixtures"}}}
		su.Advise = func(err error) error { return Advise(err, "--data", tc.dir) }
		if strings.Contains(tc.want, "permission denied") {
			nobody(func() { err = su.checkData() })
		} else {
			err = su.checkData()
		}
		if err != nil {
			err = su.Advise(err)
		}
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "open --data "+tc.dir)):
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: not one line: %q", tc.name, err)
		}
	}
	for _, name := range []string{"tofile", "dangling", "loop", "toopen", "readonly", "unread", "parent"} {
		os.Chmod(at(name), 0o755)
		if err := os.RemoveAll(at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if after := listing(t, top); after != before {
		t.Errorf("the check has changed the directories:\n%s\nthen\n%s", before, after)
	}
}

// listing is every path below dir.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	if err := filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		all = append(all, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}
