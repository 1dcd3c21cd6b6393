package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A start with every door that is refused names what is wrong, and leaves no key, no directory and no file behind.
func TestARefusedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	top := t.TempDir()
	foreign := filepath.Join(top, "foreign")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(foreign, "report.odt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(top, "empty")
	if err := os.MkdirAll(filepath.Join(empty, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, data string
		more       []string
		want       string
	}{
		{"a file", "/etc/passwd", nil, "open --data /etc/passwd: it is a file; give a directory"},
		{"another program's directory", foreign, nil, "open --data " + foreign + ": " + foreign + " holds report.odt and no identity.json"},
		{"where nothing can be made", "/proc/holdfast/data", nil, "--data"},
		{"the admin port in use", filepath.Join(top, "new", "data"), []string{"--admin", taken.Addr().String()}, "give another --admin"},
		{"a later door refuses", filepath.Join(top, "new", "data"), []string{"--saga-tokens", filepath.Join(top, "none")}, "--saga-tokens"},
		{"a later door refuses an empty file system", empty, []string{"--saga-tokens", filepath.Join(top, "none")}, "--saga-tokens"},
	} {
		args := append([]string{"serve", "--data", tc.data, "--admin", "off", "--kv", "127.0.0.1:0", "--tlog", "127.0.0.1:0", "--saga", "127.0.0.1:0"}, tc.more...)
		status, _, errs := execute(nil, args...)
		lines := strings.Split(strings.TrimSpace(errs), "\n")
		if last := lines[len(lines)-1]; status != 1 || !strings.Contains(last, tc.want) || strings.Contains(last, "--tlog-keys;") || strings.HasSuffix(last, "--tlog-keys") && !strings.Contains(last, "--data") {
			t.Errorf("%s: status %d: %s", tc.name, status, errs)
		}
	}
	var left []string
	filepath.Walk(top, func(path string, _ os.FileInfo, _ error) error {
		left = append(left, strings.TrimPrefix(path, top))
		return nil
	})
	if got := strings.Join(left, " "); got != " /empty /empty/lost+found /foreign /foreign/report.odt" {
		t.Errorf("left behind: %s", got)
	}
}

// A new file system has lost+found in it, and a first start begins there.
func TestAFileSystemOfItsOwnIsEmpty(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if err := os.Mkdir(filepath.Join(data, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := serveFlags(t, data, "--tlog", freeAddr(t))
	if _, err := r.client(t, nil).Put(timely(t), "a", "1"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"identity.json", "tlog-keys/default.key", "lost+found"} {
		if _, err := os.Stat(filepath.Join(data, name)); err != nil {
			t.Error(err)
		}
	}
}
