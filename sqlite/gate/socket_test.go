package gate

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
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

// TestOfAgentsThatStartTogetherOneHasTheSocket: each of them finds a socket that nobody listens at.
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
