package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// originals make a file of the program that a door stands in for, of the kind that people take for a snapshot. A door without one here has no such
// file: the originals of tlog and saga keep their state in databases of other makers.
var originals = map[string]struct {
	program string // its name
	page    string // tells how its data comes over
	file    func(t *testing.T, path string)
}{
	"kv": {"etcd", "docs/IMPORT.md", func(t *testing.T, path string) {
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}},
}

// TestAFileOfTheOriginalIsNamed: an operator who gives another program's file for a snapshot is told which program it is of, and the
// command that takes it. The help and the page on it know that command.
func TestAFileOfTheOriginalIsNamed(t *testing.T) {
	for _, d := range all {
		o, ok := originals[d.Name]
		if d.Original == nil || !ok {
			if ok || d.Original != nil {
				t.Errorf("%s: a file of its original is known to the door: %v, to this test: %v", d.Name, d.Original != nil, ok)
			}
			continue
		}
		dir := t.TempDir()
		path, data := filepath.Join(dir, "theirs.db"), filepath.Join(dir, "data")
		o.file(t, path)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := d.Original(b[:64], path)
		if all.Original(b[:64], path) != text || !strings.Contains(text, o.program) || !strings.Contains(text, path) {
			t.Errorf("%s says %q of a file of %s at %s", d.Name, text, o.program, path)
		}
		for _, head := range [][]byte{nil, b[:8], []byte("holdfast snapshot"), make([]byte, 64)} {
			if said := d.Original(head, path); said != "" {
				t.Errorf("%s says %q of %q", d.Name, said, head)
			}
		}
		refuses(t, text, "snapshot", "status", path)
		refuses(t, text, "snapshot", "restore", path, "--data", data)
		if _, err := os.Lstat(data); err == nil {
			t.Errorf("%s: a directory was made", d.Name)
		}
		_, command, _ := strings.Cut(text, "`holdfast ")
		command, _, ok = strings.Cut(command, "`")
		words := strings.Fields(command)
		if !ok || len(words) < 2 {
			t.Errorf("%s: %q names no command", d.Name, text)
			continue
		}
		help := says(t, words[0], "--help")
		page, err := os.ReadFile(filepath.Join("..", "..", o.page))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range words[1:] {
			if strings.HasPrefix(w, "--") && (!strings.Contains(help, w) || !strings.Contains(string(page), w)) {
				t.Errorf("%s: the help of %s and %s are to know %s", d.Name, words[0], o.page, w)
			}
		}
		if !strings.Contains(string(page), "holdfast "+words[0]) {
			t.Errorf("%s: %s does not name holdfast %s", d.Name, o.page, words[0])
		}
	}
}

// TestEveryDoorNamesItsOriginal: README.md says of each door whose clients it serves.
func TestEveryDoorNamesItsOriginal(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{"kv": "etcd", "tlog": "Tessera", "saga": "DTM", "sql": "MySQL"}
	for _, d := range all {
		name, ok := names[d.Name]
		if !ok {
			t.Errorf("whose clients does the %s door serve? add it to this test", d.Name)
			continue
		}
		_, sentence, found := strings.Cut(string(b), "`"+d.Name+"` ")
		sentence, _, _ = strings.Cut(sentence, ". ")
		if !found || !strings.Contains(sentence, name) {
			t.Errorf("README.md does not say that `%s` serves the clients of %s", d.Name, name)
		}
	}
}
