package gate

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

func listen(path string) (*Gate, error) {
	return Listen(path, func(Hello) Database { return nil }, slog.New(slog.DiscardHandler))
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hfg") // a socket's path is short, t.TempDir's is not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestWhatIsNoSocketOfOursStays: a wrong --socket must not remove a user's file.
func TestWhatIsNoSocketOfOursStays(t *testing.T) {
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(at("dir"), 0o700)
	os.Symlink("file", at("link"))
	os.Symlink("nowhere", at("dangling"))
	stream, err := net.Listen("unix", at("stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	other, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: at("packet"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	os.Symlink("packet", at("link to a socket"))
	for name, want := range map[string]string{"file": "there is a file", "dir": "there is a directory", "link": "a symbolic link", "dangling": "a symbolic link",
		"link to a socket": "a symbolic link", "stream": "another program has it", "packet": "another agent listens", "new\nline": "a byte", strings.Repeat("x", 120): "107 bytes",
		"dir/missing/s": "no such file"} {
		before, _ := os.Lstat(at(name))
		g, err := listen(at(name))
		if err == nil {
			g.Close()
			t.Errorf("%s: it listens", name)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.Lstat(at(name)); before != nil && (err != nil || !os.SameFile(before, after)) {
			t.Errorf("%s was removed or replaced: %v", name, err)
		}
	}
}

func TestASocketThatNobodyListensAtIsReplaced(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	for range 2 {
		l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false) // as a kill leaves it
		l.Close()
		g, err := listen(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := listen(path); err == nil || !strings.Contains(err.Error(), "another agent") {
			t.Errorf("a second agent: %v", err)
		}
		g.Close()
	}
}

// TestOfAgentsThatStartTogetherOneHasTheSocket: each of them finds a socket without a listener.
func TestOfAgentsThatStartTogetherOneHasTheSocket(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	for round := range 50 {
		l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
		var wg sync.WaitGroup
		gates := make([]*Gate, 4)
		for i := range gates {
			wg.Go(func() { gates[i], _ = listen(path) }) // the others are refused
		}
		wg.Wait()
		n := 0
		for _, g := range gates {
			if g != nil {
				n++
				g.Close()
			}
		}
		if n != 1 {
			t.Fatalf("round %d: %d agents have one socket", round, n)
		}
	}
}

// TestTheSocketIsForItsUserAlone: with any umask, from the first moment on. So is the socket that takes the place of an old one.
func TestTheSocketIsForItsUserAlone(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	for _, umask := range []int{0, 0o022, 0o077} {
		old := syscall.Umask(umask)
		l, err := listenPrivate(path)
		if err == nil {
			var info os.FileInfo
			if info, err = os.Lstat(path); err == nil && info.Mode().Perm() != 0o600 {
				t.Errorf("umask %o: a socket that was just bound has mode %o", umask, info.Mode().Perm())
			}
			l.Close()
		}
		var g *Gate
		if err == nil {
			g, err = listen(path)
		}
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{path, path + ".lock"} {
			if info, err := os.Lstat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("umask %o: %s has mode %v, %v", umask, filepath.Base(name), info.Mode(), err)
			}
		}
		g.Close()
	}
}

// TestNonsenseDoesNotFillTheLog: thousands of connections that send nonsense are a few lines, which say how many there were; the gate goes on.
func TestNonsenseDoesNotFillTheLog(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	var lines safeBuffer
	known := Hello{Path: "/known"}
	g, err := Listen(path, func(h Hello) Database {
		if h.Path == known.Path {
			return quiet{}
		}
		return nil
	}, slog.New(slog.NewTextHandler(&lines, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var clock atomic.Int64
	g.strange.mu.Lock()
	g.strange.now = func() time.Time { return time.Unix(1000+clock.Load(), 0) }
	g.strange.mu.Unlock()
	dial := func() *net.UnixConn {
		t.Helper()
		c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(wait.Limit(t)))
		return c
	}
	const strangers = 500
	nonsense := func() {
		for i := range strangers {
			c := dial()
			if i%2 == 0 {
				c.Write(known.Encode()) // one that begins as the extension does
				c.Read(make([]byte, 100))
			}
			c.Write([]byte("nonsense"))
			c.Read(make([]byte, 100)) // the gate ends the connection
			c.Close()
		}
	}
	nonsense()
	if n := strings.Count(lines.String(), "\n"); n != 1 {
		t.Errorf("%d strangers are %d lines:\n%.500s", strangers, n, lines.String())
	}
	clock.Add(int64(complaintInterval / time.Second))
	nonsense()
	if got := lines.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, fmt.Sprint(strangers-1)) {
		t.Errorf("an interval later:\n%.500s", got)
	}
	c := dial()
	defer c.Close()
	c.Write(known.Encode())
	if n, err := c.Read(make([]byte, 100)); n == 0 || err != nil {
		t.Errorf("after the strangers the extension hears %d bytes, %v", n, err)
	}
}

// quiet is a database of which nothing is to be said.
type quiet struct{}

func (quiet) Join(*Conn) State     { return State{Managed: true} }
func (quiet) Leave(*Conn)          {}
func (quiet) Commit(*Conn, Commit) {}
func (quiet) Note()                {}
func (quiet) Status() string       { return "" }

// safeBuffer takes what several goroutines write.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
