package rig

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDirectoriesAreSwappedAndComeBack: what was stored is away meanwhile, and what came in its place is kept beside.
func TestDirectoriesAreSwappedAndComeBack(t *testing.T) {
	for kind, want := range map[Kind]string{Emptied: "", Gone: "", Other: "foreign"} {
		dir := t.TempDir()
		place, foreign := filepath.Join(dir, "rep"), filepath.Join(dir, "foreign")
		for _, d := range []string{place, foreign} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(d, "is"), []byte(filepath.Base(d)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := NewStore(kind, place, foreign)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Spoil(); err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(filepath.Join(place, "is")); string(b) != want { // no file is no text
			t.Errorf("%s: the place has %q", kind, b)
		}
		if _, err := os.Stat(place); (err == nil) == (kind == Gone) {
			t.Errorf("%s: %v", kind, err)
		}
		if err := s.Mend(); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(place, "is")); err != nil || string(b) != "rep" {
			t.Errorf("%s, mended: %q, %v", kind, b, err)
		}
	}
}

// TestRows: a database that is not there has none, and one that is damaged is an error.
func TestRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	if has, err := Rows(path); err != nil || len(has) != 0 {
		t.Errorf("no file: %v, %v", has, err)
	}
	if err := Make(path, "DELETE"); err != nil {
		t.Fatal(err)
	}
	if err := Do(path, "INSERT INTO entries VALUES(3, 'x'), (5, 'y')"); err != nil {
		t.Fatal(err)
	}
	if has, err := Rows(path); err != nil || len(has) != 2 || !has[3] || !has[5] {
		t.Errorf("%v, %v", has, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(b) - 4000; i < len(b); i++ {
		b[i] ^= 0xff
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if has, err := Rows(path); err == nil {
		t.Errorf("a damaged file has %v", has)
	}
}
