package machine

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/store"
)

// TestSpaceOnDisk adds entries of 100 random bytes in batches as a busy server does. Once flushed and compacted, the store has
// little more than entries and hashes: nothing is kept twice, and no partial tile at all. CRASH=long adds a million.
func TestSpaceOnDisk(t *testing.T) {
	const size = 100
	entries := 100_000
	if os.Getenv("CRASH") == "long" {
		entries = 1_000_000
	}
	dir := t.TempDir()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	r := openRig(t, st)
	l, _ := r.create("default", false, false)
	rng := rand.NewChaCha8([32]byte{1})
	order := rand.New(rng)
	for n := 0; n < entries; {
		var es [][]byte
		for range min(1+order.IntN(1000), entries-n) {
			e := make([]byte, size)
			_, _ = rng.Read(e) // never fails
			es = append(es, e)
		}
		r.add(l, es...)
		n += len(es)
	}
	if err := st.Flush(); err != nil {
		t.Fatal(err)
	}
	// 32.13 bytes of hashes an entry: 32 of its leaf, 1/256 of that for each level above.
	least := float64(entries) * (size + 32.13)
	used := bytesIn(t, dir)
	for began, same := time.Now(), 0; same < 10 && time.Since(began) < time.Minute; same++ { // compactions go on by themselves
		time.Sleep(50 * time.Millisecond)
		if now := bytesIn(t, dir); now != used {
			used, same = now, 0
		}
	}
	t.Logf("%d entries of %d bytes: %d bytes on disk, %.3f of entries and hashes", entries, size, used, float64(used)/least)
	if float64(used) > 1.3*least {
		t.Errorf("%d bytes on disk, want at most %.0f", used, 1.3*least)
	}
}

func bytesIn(t *testing.T, dir string) (sum int64) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // a file may go while we look
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}
