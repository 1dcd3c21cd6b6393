package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfastdb/holdfast/conformance/sqlite/rig"
)

// TestTellingSetUps plays the cells that tell most, all at a time: they wait more than they work.
func TestTellingSetUps(t *testing.T) {
	tools, err := rig.Find()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tools.Close(); err != nil {
			t.Error(err)
		}
	})
	m := &matrix{tools: tools}
	dir, err := os.MkdirTemp("", "hfm") // short: the path of a socket is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	foreign, err := m.foreign(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range telling() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			if err := m.one(t.Context(), c, filepath.Join(dir, string(rune('a'+i))), foreign); err != nil {
				t.Error(err)
			}
		})
	}
}
