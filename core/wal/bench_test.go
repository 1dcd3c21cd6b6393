package wal

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
)

// BenchmarkAppendSync alternates an append with the bare loop it is made of: one write and one fdatasync of the same bytes
// to a preallocated file. The ratio of the medians is what the log itself costs.
func BenchmarkAppendSync(b *testing.B) {
	for _, size := range []int{100, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			dir := b.TempDir()
			l, err := Open(disk.OS(), filepath.Join(dir, "wal"), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			bare, err := disk.OS().Create(filepath.Join(dir, "bare"))
			if err != nil {
				b.Fatal(err)
			}
			defer bare.Close()
			const bareSize = 16 << 20
			if err := bare.Preallocate(bareSize); err != nil {
				b.Fatal(err)
			}
			if err := bare.Sync(); err != nil {
				b.Fatal(err)
			}
			data := make([]byte, size)
			step := align(int64(size + 60))
			buf := make([]byte, step)
			var logged, plain []time.Duration
			off := int64(0)
			for i := uint64(1); b.Loop(); i++ {
				begun := time.Now()
				if err := l.Append(Batch{Entries: []Entry{{Index: i, Term: 1, Data: data}}}); err != nil {
					b.Fatal(err)
				}
				if err := l.Sync(); err != nil {
					b.Fatal(err)
				}
				logged = append(logged, time.Since(begun))
				if off+step > bareSize {
					off = 0
				}
				begun = time.Now()
				if _, err := bare.WriteAt(buf, off); err != nil {
					b.Fatal(err)
				}
				if err := bare.Sync(); err != nil {
					b.Fatal(err)
				}
				plain = append(plain, time.Since(begun))
				off += step
			}
			slices.Sort(logged)
			slices.Sort(plain)
			n := len(logged)
			b.ReportMetric(float64(logged[n/2].Microseconds()), "log-p50-µs")
			b.ReportMetric(float64(plain[n/2].Microseconds()), "bare-p50-µs")
			b.ReportMetric(float64(logged[n*99/100].Microseconds()), "log-p99-µs")
			b.ReportMetric(float64(plain[n*99/100].Microseconds()), "bare-p99-µs")
			b.ReportMetric(float64(logged[n/2])/float64(plain[n/2]), "ratio-p50")
		})
	}
}

// BenchmarkAppend is the log's own work: no disk, no sync.
func BenchmarkAppend(b *testing.B) {
	l, err := Open(nullFS{disk.NewMem()}, "wal", Options{SegmentBytes: 1 << 30, Manual: true})
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 1000)
	entries := make([]Entry, 1)
	b.ReportAllocs()
	for i := uint64(1); b.Loop(); i++ {
		entries[0] = Entry{Index: i, Term: 1, Data: data}
		if err := l.Append(Batch{Entries: entries}); err != nil {
			b.Fatal(err)
		}
	}
}

// nullFS forgets what is written beyond the first segment record.
type nullFS struct{ disk.FS }

func (n nullFS) Open(name string) (disk.File, error) {
	f, err := n.FS.Open(name)
	return nullFile{f}, err
}

func (n nullFS) Create(name string) (disk.File, error) {
	f, err := n.FS.Create(name)
	return nullFile{f}, err
}

type nullFile struct{ disk.File }

func (f nullFile) WriteAt(p []byte, off int64) (int, error) {
	if off > 0 {
		return len(p), nil
	}
	return f.File.WriteAt(p, off)
}

func (f nullFile) Preallocate(size int64) error { return f.File.Preallocate(min(size, 4096)) }
