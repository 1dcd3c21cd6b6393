package program

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/doors/tlog/checkpoint"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// manyKeys are more logs than have files of their own.
func manyKeys(t *testing.T) (keys []*tiles.Signer) {
	for i := range manyLogs + 4 {
		keys = append(keys, testKey(t, fmt.Sprintf("log.example/%d", i), byte(i)))
	}
	return keys
}

// process is a server that has these logs.
func process(t *testing.T, dir string, keys []*tiles.Signer) *highestFiles {
	t.Helper()
	h := newHighestFiles(dir, slog.New(slog.DiscardHandler))
	t.Cleanup(h.Close)
	for i, key := range keys {
		if _, _, err := h.Last(fmt.Sprint(i), key.Verifier()); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func noteMany(t *testing.T, h *highestFiles, keys []*tiles.Signer, sizes map[int]uint64) {
	t.Helper()
	var all []checkpoint.Noted
	for i, size := range sizes { // any order: they are different logs
		all = append(all, checkpoint.Noted{Log: fmt.Sprint(i), Key: keys[i].Verifier(), Size: size, Note: signedAt(keys[i], size)})
	}
	for _, err := range h.Note(all) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func wantMany(t *testing.T, dir string, keys []*tiles.Signer, here bool, sizes map[int]uint64) {
	t.Helper()
	h := newHighestFiles(dir, slog.New(slog.DiscardHandler))
	defer h.Close()
	for i, want := range sizes { // any order: they are different logs
		c, is, err := h.Last(fmt.Sprint(i), keys[i].Verifier())
		if err != nil || c == nil || c.Size != want || is != here {
			t.Errorf("log %d: %+v, written here: %t, %v; want %d", i, c, is, err, want)
		}
	}
}

// TestManyLogsShareOneFile over restarts, copies, two processes and what each log's own file says.
func TestManyLogsShareOneFile(t *testing.T) {
	dir, keys := t.TempDir(), manyKeys(t)
	few := process(t, dir, keys[:3])
	noteMany(t, few, keys, map[int]uint64{0: 40, 1: 50, 2: 60})
	if exists(filepath.Join(dir, manyName)) {
		t.Error("three logs share a file")
	}
	a := process(t, dir, keys)
	noteMany(t, a, keys, map[int]uint64{0: 41, 3: 5, 7: 9})
	noteMany(t, a, keys, map[int]uint64{0: 42, 7: 10, 19: 1})
	noteMany(t, a, keys, map[int]uint64{0: 7, 7: 3}) // changes nothing
	wantMany(t, dir, keys, true, map[int]uint64{0: 42, 1: 50, 2: 60, 3: 5, 7: 10, 19: 1})
	if st, err := os.Stat(filepath.Join(dir, manyName)); err != nil || st.Mode().Perm() != 0o600 || exists(filepath.Join(dir, "3.highest")) {
		t.Errorf("%v, %v", st, err)
	}

	b := process(t, dir, keys)
	noteMany(t, b, keys, map[int]uint64{4: 100, 7: 20})
	noteMany(t, a, keys, map[int]uint64{5: 200, 7: 15, 4: 101}) // it knew nothing of log 4, and is behind with log 7
	noteMany(t, b, keys, map[int]uint64{5: 201})
	wantMany(t, dir, keys, true, map[int]uint64{0: 42, 4: 101, 5: 201, 7: 20})

	copied := copyDir(t, dir)
	wantMany(t, copied, keys, false, map[int]uint64{1: 50, 5: 201, 7: 20})
	c := process(t, copied, keys)
	noteMany(t, c, keys, map[int]uint64{7: 21})
	wantMany(t, copied, keys, true, map[int]uint64{7: 21})
	wantMany(t, copied, keys, false, map[int]uint64{5: 201})

	if err := os.Remove(filepath.Join(dir, manyName)); err != nil {
		t.Fatal(err)
	}
	noteMany(t, a, keys, map[int]uint64{7: 22})
	wantMany(t, dir, keys, true, map[int]uint64{1: 50, 7: 22})
}

// TestATornNoteOfMany: a power cut tears a place that was being written. The other place of that log holds, and so do all other logs.
func TestATornNoteOfMany(t *testing.T) {
	dir, keys := t.TempDir(), manyKeys(t)
	h := process(t, dir, keys)
	for size := uint64(1); size < 4; size++ {
		noteMany(t, h, keys, map[int]uint64{0: size, 1: 10 * size, 2: 100 * size})
	}
	path := filepath.Join(dir, manyName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for place := 1; place*disk.BlockBytes < len(whole); place++ {
		torn := bytes.Clone(whole)
		clear(torn[place*disk.BlockBytes+100 : place*disk.BlockBytes+200])
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		for i, top := range []uint64{3, 30, 300} {
			c, _, err := process(t, dir, keys).Last(fmt.Sprint(i), keys[i].Verifier())
			if err != nil || c == nil || c.Size != top && c.Size != top/3*2 {
				t.Errorf("place %d torn: log %d has %+v, %v", place, i, c, err)
			}
		}
	}
	for _, from := range []int{100, 0} { // in the notes, or so that their log cannot be told
		both := bytes.Clone(whole)
		// Of a place that is short, as with a small inode number, something has to be left: an empty one was never written.
		clear(both[disk.BlockBytes+from : disk.BlockBytes+from+100])
		clear(both[2*disk.BlockBytes+from : 2*disk.BlockBytes+from+100])
		if err := os.WriteFile(path, both, 0o600); err != nil {
			t.Fatal(err)
		}
		bad := 0
		for i := range 3 {
			h := newHighestFiles(dir, slog.New(slog.DiscardHandler))
			if _, _, err := h.Last(fmt.Sprint(i), keys[i].Verifier()); err != nil {
				bad++
				if !strings.Contains(err.Error(), "remove the file") {
					t.Error(err)
				}
			}
			h.Close()
		}
		if bad != 1 {
			t.Errorf("with both places of one log torn %d logs say so", bad)
		}
	}
	hole := bytes.Clone(whole)
	clear(hole[disk.BlockBytes : 3*disk.BlockBytes])
	if err := os.WriteFile(path, hole, 0o600); err != nil {
		t.Fatal(err)
	}
	again := process(t, dir, keys) // none of them says that it is damaged
	noteMany(t, again, keys, map[int]uint64{0: 5, 1: 50, 2: 500})
	wantMany(t, dir, keys, true, map[int]uint64{0: 5, 1: 50, 2: 500})
	if err := os.WriteFile(path, []byte("something else of 64 bytes and more, put there by somebody who did not know"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := newHighestFiles(dir, slog.New(slog.DiscardHandler))
	defer other.Close()
	if _, _, err := other.Last("0", keys[0].Verifier()); err == nil {
		t.Error("a file of another kind is taken for one of ours")
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
