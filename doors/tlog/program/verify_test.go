package program

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// TestVerifyFindsWhatIsWrong: a log as a tree of files, altered in each place in turn.
func TestVerifyFindsWhatIsWrong(t *testing.T) {
	signer, err := tiles.NewSigner("log.example/files", bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	const size = 600
	files := map[string][]byte{}
	var f tiles.Frontier
	var rows [3][]byte
	var bundle []byte
	put := func(level int, n uint64, b []byte, width int) {
		files[tiles.Ref{Level: level, N: n, Width: width}.Path()] = bytes.Clone(b)
	}
	for i := range uint64(size) {
		e := fmt.Appendf(nil, "entry %d", i)
		leaf := tiles.LeafHash(e)
		bundle, rows[0] = tiles.AppendEntry(bundle, e), append(rows[0], leaf[:]...)
		var done tiles.Completed
		for level := range f.Append(leaf, &done) {
			rows[level+1] = append(rows[level+1], done[level][:]...)
		}
		if width := int(i%256) + 1; width == 256 || i == size-1 {
			put(tiles.EntryLevel, i/256, bundle, width)
			put(0, i/256, rows[0], width)
			bundle, rows[0] = nil, nil
		}
	}
	put(1, 0, rows[1], 2)
	note := &tiles.Note{Text: (&tiles.Checkpoint{Origin: "log.example/files", Size: size, Root: f.Root()}).Text()}
	signer.Sign(note)
	files["checkpoint"] = note.Append(nil)
	verify := func() error {
		_, err := verifyLog(func(path string) ([]byte, error) {
			b, ok := files[path]
			if !ok {
				return nil, fmt.Errorf("%s: %w", path, errMissing)
			}
			return b, nil
		}, signer.Verifier(), func(uint64, uint64) {})
		return err
	}
	if err := verify(); err != nil {
		t.Fatal("untouched:", err)
	}
	for path, b := range files { // any order: each is put back
		for _, at := range []int{3, len(b) / 2, len(b) - 2} {
			b[at] ^= 1
			if err := verify(); err == nil {
				t.Errorf("%s altered at %d verifies", path, at)
			}
			b[at] ^= 1
		}
		delete(files, path)
		if err := verify(); err == nil {
			t.Errorf("without %s it verifies", path)
		}
		files[path] = b
	}
}
