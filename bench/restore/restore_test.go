package restore

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
)

// size is how large the archives of the benchmarks are: RESTORE_MB, or 16 MB.
func size(b *testing.B) int64 {
	if text := os.Getenv("RESTORE_MB"); text != "" {
		mb, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		return int64(mb) << 20
	}
	return 16 << 20
}

func BenchmarkRestoreOfALog(b *testing.B) {
	measure(b, Archive{Bytes: size(b), Keys: 100_000, Value: 1024})
}

func BenchmarkRestoreOfASnapshot(b *testing.B) {
	measure(b, Archive{Bytes: size(b), Keys: 100_000, Value: 1024, Snapshot: true})
}

func measure(b *testing.B, a Archive) {
	dir := os.Getenv("RESTORE_FROM") // made once for several runs, so that a profile has the restore alone
	if dir == "" {
		dir = b.TempDir()
	}
	s := objstore.NewFile(dir)
	if names, err := os.ReadDir(dir); err != nil || len(names) == 0 {
		if err := a.Make(b.Context(), b.TempDir(), s); err != nil {
			b.Fatal(err)
		}
	}
	var all Figures
	for b.Loop() {
		f, err := Restore(b.Context(), s, b.TempDir(), nil)
		if err != nil {
			b.Fatal(err)
		}
		all.Bytes, all.Took, all.CPU = all.Bytes+f.Bytes, all.Took+f.Took, all.CPU+f.CPU
	}
	gb := float64(all.Bytes) / (1 << 30)
	b.ReportMetric(all.Took.Seconds()/gb, "s/GiB")
	b.ReportMetric(all.CPU.Seconds()/gb, "cpu-s/GiB")
	b.ReportMetric(float64(all.Bytes)/float64(b.N)/(1<<20), "MiB")
	b.ReportMetric(float64(all.Took/time.Millisecond)/float64(b.N), "ms")
}

// TestWhatIsMeasuredIsRestored, on a small scale.
func TestWhatIsMeasuredIsRestored(t *testing.T) {
	s := objstore.NewFile(t.TempDir())
	if err := (Archive{Bytes: 1 << 20, Keys: 100, Value: 1024}).Make(t.Context(), t.TempDir(), s); err != nil {
		t.Fatal(err)
	}
	f, err := Restore(t.Context(), s, t.TempDir(), nil)
	if err != nil || f.Bytes < 1<<20 || f.State.Index == 0 {
		t.Errorf("%+v %v", f, err)
	}
}
