package capture

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestAShorterWALDoesNotHoldAGroup: of a group of two commits a power cut has left the first, with the pages that the group has.
func TestAShorterWALDoesNotHoldAGroup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db := connect(t, path)
	defer db.Close()
	exec := func(text string) {
		t.Helper()
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	exec("create table t (v)")
	exec("create table u (v)")
	exec("insert into t values (1)")
	exec("insert into u values (1)")
	exec("pragma wal_checkpoint(truncate)")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	exec("update t set v = 2")
	exec("update u set v = 2")
	g, err := d.Capture()
	if err != nil || g == nil || len(g.Commits) != 2 {
		t.Fatal(g, err)
	}
	defer g.Release()
	pages := map[uint32][]byte{}
	if err := g.Each(func(number uint32, page []byte) error {
		pages[number] = bytes.Clone(page)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wal, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	for frames, want := range map[uint32]bool{g.Commits[0]: false, g.Commits[1]: true} {
		other := filepath.Join(t.TempDir(), "app.db")
		if err := os.WriteFile(other, file, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(other+"-wal", wal[:d.files.FrameOffset(frames+1)], 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := Open(other)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := o.Holds(g.Offset, g.Size, pages, g.State.Pages); err != nil || got != want {
			t.Errorf("with %d frames: %v, %v", frames, got, err)
		}
		if !want { // a program does the lost transaction again, behind what was captured
			again := connect(t, other)
			if _, err := again.Exec("update u set v = 2"); err != nil {
				t.Fatal(err)
			}
			if got, err := o.Holds(g.Offset, g.Size, pages, g.State.Pages); err != nil || got {
				t.Errorf("done again: %v, %v", got, err)
			}
			again.Close()
		}
		o.Close()
	}
}
