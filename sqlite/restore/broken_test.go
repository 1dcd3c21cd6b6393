package restore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/replica/replicatest"
)

var errDisk = errors.New("the disk is broken")

// TestADiskThatFailsGivesNoDatabase: a write or an fsync of the working file fails in the middle of a restore. The database has no name then, and when
// the disk is mended the next restore makes it.
func TestADiskThatFailsGivesNoDatabase(t *testing.T) {
	w, store := large(t)
	work := func(name string) bool { return strings.HasSuffix(name, workSuffix) }
	for name, fail := range map[string]func(d *disk.Faulty, err error){
		"a write":  func(d *disk.Faulty, err error) { d.FailWrite(work, err) },
		"an fsync": func(d *disk.Faulty, err error) { d.FailSync(work, err) },
	} {
		fsys := disk.NewFaulty(newDisk(t))
		began := false
		how := Options{To: target, FS: fsys, Progress: func(int64, int64) {
			if !began {
				began = true
				fail(fsys, errDisk)
			}
		}}
		if _, err := Restore(context.Background(), replica.New(store, replica.Bucket), how); !errors.Is(err, errDisk) || !began {
			t.Errorf("%s fails: %v", name, err)
		}
		if _, err := fsys.ReadFile(target); err == nil {
			t.Errorf("%s fails, and the database has its name", name)
		}
		fail(fsys, nil)
		how.Progress = nil
		if _, err := Restore(context.Background(), replica.New(store, replica.Bucket), how); err != nil {
			t.Errorf("%s, mended: %v", name, err)
		}
		if b, err := fsys.ReadFile(target); err != nil || !bytes.Equal(b, w.DB.Bytes()) {
			t.Errorf("%s, mended: another database, %v", name, err)
		}
	}
}

// TestAJournalThatDoesNotFitIsNotGoneOnFrom: it is another restore's, another version's, or was edited. The restore begins anew.
func TestAJournalThatDoesNotFitIsNotGoneOnFrom(t *testing.T) {
	w, store := large(t)
	fsys := newDisk(t)
	how := Options{From: "memory", To: target, FS: fsys, every: 40 << 10}
	ctx, cancel := context.WithCancel(context.Background())
	how.Progress = func(done, _ int64) {
		if done > 100<<10 {
			cancel()
		}
	}
	if _, err := Restore(ctx, replica.New(store, replica.Bucket), how); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	how.Progress = nil
	whole, err := fsys.ReadFile(target + journalSuffix)
	must(t, err)
	half, err := fsys.ReadFile(target + workSuffix)
	must(t, err)
	for _, c := range []struct {
		name  string
		spoil func(j *journal) any // what is written
		fits  bool
	}{
		{"as it is", func(j *journal) any { return j }, true},
		{"another version", func(j *journal) any { j.Form += "1"; return j }, false},
		{"another replica", func(j *journal) any { j.From = "elsewhere"; return j }, false},
		{"another state", func(j *journal) any { j.TXID++; return j }, false},
		{"another moment", func(j *journal) any { j.Time = j.Plan.Time; return j }, false},
		{"a file behind the last", func(j *journal) any { j.Next = len(j.Plan.Files); return j }, false},
		{"a file before the first", func(j *journal) any { j.Next = -1; return j }, false},
		{"no page size", func(j *journal) any { j.Plan.PageSize = 0; return j }, false},
		{"pages of another size", func(j *journal) any { j.Plan.PageSize *= 2; return j }, false},
		{"bits of more pages", func(j *journal) any { j.Seen = append(j.Seen, 0); return j }, false},
		{"bits of fewer pages", func(j *journal) any { j.Seen = j.Seen[1:]; return j }, false},
		{"no header", func(j *journal) any { j.Head = ""; return j }, false},
		{"a header that is none", func(j *journal) any { j.Head = "no hex"; return j }, false},
		{"within the header", func(j *journal) any { j.At.Offset = 99; return j }, false},
		{"behind the file's end", func(j *journal) any { j.At.Offset = j.Plan.Files[j.Next].Size + 1; return j }, false},
		{"no checksums", func(j *journal) any { j.Begins = nil; return j }, false},
		{"something unknown", func(*journal) any { return map[string]string{"form": journalForm, "more": ""} }, false},
		{"nothing", func(*journal) any { return "" }, false},
	} {
		j := &journal{}
		must(t, json.Unmarshal(whole, j))
		if j.At == nil {
			t.Fatal("no file was begun: the test shows nothing")
		}
		b, err := json.Marshal(c.spoil(j))
		must(t, err)
		fsys := newDisk(t)
		how.FS = fsys
		must(t, fsys.WriteFileAtomic(target+journalSuffix, b))
		must(t, fsys.WriteFileAtomic(target+workSuffix, half))
		out, err := Restore(context.Background(), replica.New(store, replica.Bucket), how)
		if err != nil || out.Resumed != c.fits {
			t.Errorf("%s: %v, %+v", c.name, err, out)
			continue
		}
		if b, err := fsys.ReadFile(target); err != nil || !bytes.Equal(b, w.DB.Bytes()) {
			t.Errorf("%s: another database, %v", c.name, err)
		}
	}
}

// TestSQLiteIsAskedWhatItThinks: a database that was captured damaged is not given its name. Without a checksum of the database SQLite is asked unbidden.
func TestSQLiteIsAskedWhatItThinks(t *testing.T) {
	from, err := os.ReadFile(filepath.Join("testdata", "litestream-0.5.18", "app.db"))
	must(t, err)
	damaged := bytes.Clone(from)
	for i := range damaged[4096:] { // a table's page, and the schema stays
		if i < 4096 {
			damaged[4096+i] = 0xff
		}
	}
	for name, c := range map[string]struct {
		db []byte
		ok map[Check]bool
	}{
		"whole":   {from, map[Check]bool{"": true, None: true, Quick: true, Full: true}},
		"damaged": {damaged, map[Check]bool{"": true, None: true}}, // its checksum is proved: it was captured so
		"none":    {bytes.Repeat([]byte("no database"), 4096), map[Check]bool{"": true, None: true}},
	} {
		w := replicatest.New(replica.New(objstore.NewMemory(), replica.Bucket), 1)
		w.PageSize = 4096
		pages := map[uint32][]byte{}
		for i := 0; (i+1)*4096 <= len(c.db); i++ {
			pages[uint32(i+1)] = c.db[i*4096 : (i+1)*4096]
		}
		must(t, w.Commit(uint32(len(pages)), pages))
		for _, how := range []Check{"", None, Quick, Full} {
			to := filepath.Join(t.TempDir(), "app.db")
			out, err := Restore(context.Background(), w.R, Options{To: to, Check: how})
			if c.ok[how] {
				if err != nil || out.Checked != how {
					t.Errorf("%s, check %q: %v, %+v", name, how, err, out)
				}
			} else if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, check %q: %v", name, how, err)
			}
			if _, err := os.Stat(to); (err == nil) != c.ok[how] {
				t.Errorf("%s, check %q: the database is there: %v", name, how, err)
			}
		}
	}
	w := replicatest.New(replica.New(objstore.NewMemory(), replica.Bucket), 1)
	must(t, w.Commit(2, nil))
	if _, err := Restore(context.Background(), w.R, Options{To: filepath.Join(t.TempDir(), "app.db"), Check: "well"}); err == nil || errors.Is(err, ErrCorrupt) {
		t.Errorf("a check that there is not: %v", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := check(ended, filepath.Join("testdata", "litestream-0.5.18", "app.db"), Full); !errors.Is(err, context.Canceled) || errors.Is(err, ErrCorrupt) {
		t.Errorf("a check that was ended: %v", err)
	}
}

// TestProgressThatCannotBeKeptIsSaid: a restore is stopped, and what it has made cannot be made durable. Both are told.
func TestProgressThatCannotBeKeptIsSaid(t *testing.T) {
	_, store := large(t)
	fsys := disk.NewFaulty(newDisk(t))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := Restore(ctx, replica.New(store, replica.Bucket), Options{To: target, FS: fsys, Progress: func(int64, int64) {
		fsys.FailSync(nil, errDisk)
		cancel()
	}})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, errDisk) {
		t.Error(err)
	}
}
