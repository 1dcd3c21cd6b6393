package node

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// leftBehind is a stopped member's directory with its log in one of its own; everything that was applied lies in tables.
func leftBehind(t *testing.T) Config {
	t.Helper()
	at := t.TempDir()
	cfg := house(Config{Dir: filepath.Join(at, "data"), WALDir: filepath.Join(at, "log"), MemoryBytes: 64 << 20})
	n := startAlone(t, cfg.Dir, func(c *Config) { c.WALDir = cfg.WALDir })
	mustPropose(t, n, "k", "1")
	if err := n.store.Flush(); err != nil {
		t.Fatal(err)
	}
	n.Stop()
	return cfg
}

// refused starts a member that cannot be, and returns the line it says.
func refused(t *testing.T, cfg Config) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
	defer cancel()
	n, err := Start(ctx, cfg, StartOptions{Name: "n1"})
	if err == nil {
		n.Stop()
		t.Fatal("it starts")
	}
	if strings.Contains(err.Error(), "\n") || ctx.Err() != nil {
		t.Fatal(err)
	}
	return err.Error()
}

// If any part of a member's files is gone, it says so at once and leaves the others alone. With nothing left it is another member.
func TestMissingPartsAreRefused(t *testing.T) {
	t.Parallel()
	for gone, words := range map[string][]string{
		"identity":           {"has no identity file"},
		"log":                {"/log is gone", "holdfast member remove", "--join"},
		"store":              {"/data/store is gone", "holdfast member remove", "--join", "holdfast snapshot restore"},
		"identity log":       {"has no identity file"},
		"identity store":     {"has no identity file", "--wal-dir"},
		"log store":          {"/log is gone", "holdfast member remove"},
		"identity log store": nil,
		"emptied":            {"/data/store is gone"},
		"tables":             {"holds the log up to 0, but the log begins at 2", "holdfast member remove"},
		"pointer":            {"CURRENT", "missing"},
	} {
		t.Run(gone, func(t *testing.T) {
			t.Parallel()
			cfg := leftBehind(t)
			for _, part := range strings.Fields(gone) {
				at := map[string]string{"identity": cfg.Dir + "/identity.json", "log": cfg.WALDir, "store": cfg.Dir + "/store", "emptied": cfg.Dir + "/store",
					"tables": cfg.Dir + "/store/store-000001", "pointer": cfg.Dir + "/store/CURRENT"}[part]
				if err := os.RemoveAll(at); err != nil {
					t.Fatal(err)
				}
				if part == "emptied" {
					if err := os.Mkdir(at, 0o700); err != nil {
						t.Fatal(err)
					}
				}
			}
			if words == nil {
				n := startAlone(t, cfg.Dir, func(c *Config) { c.WALDir = cfg.WALDir })
				if _, version := read(t, n, "k"); version != 0 {
					t.Fatal("an empty directory holds a key")
				}
				return
			}
			before := filesIn(t, filepath.Dir(cfg.Dir))
			line := refused(t, cfg)
			for _, w := range words {
				if !strings.Contains(line, w) {
					t.Errorf("nothing of %q: %s", w, line)
				}
			}
			if after := filesIn(t, filepath.Dir(cfg.Dir)); gone != "tables" && !slices.Equal(after, before) { // the store makes its directory before it can be asked
				t.Errorf("there were %q, and after the refusal %q", before, after)
			}
		})
	}
}

// A damaged store is named, by file, and brings no process down.
func TestDamagedStoreIsRefused(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"manifest": "MANIFEST-*", "tables": "*.sst", "short tables": "*.sst", "options": "OPTIONS-*"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := leftBehind(t)
			files, err := filepath.Glob(filepath.Join(cfg.Dir, "store", "store-000001", kind))
			if err != nil || len(files) == 0 {
				t.Fatalf("%v, %v", files, err)
			}
			for _, name := range files {
				info, err := os.Stat(name)
				if err == nil {
					size := info.Size()
					if strings.Contains(t.Name(), "short") {
						size /= 2
					}
					err = os.WriteFile(name, bytes.Repeat([]byte{0xdb}, int(size)), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if line := refused(t, cfg); !strings.Contains(line, "open store "+cfg.Dir) || !strings.Contains(line, "holdfast member remove") {
				t.Errorf("nothing of the store, or of what to do: %s", line)
			}
		})
	}
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
