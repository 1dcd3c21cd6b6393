package restore

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/internal/golden"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/replica/replicatest"
)

func newDisk(t testing.TB) *disk.Mem {
	t.Helper()
	fsys := disk.NewMem()
	if err := fsys.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	return fsys
}

// TestAPreparedDatabaseIsBroughtUpToDate: what is stored between Prepare and Finish is in the database, whether it grows, shrinks, or was compacted.
func TestAPreparedDatabaseIsBroughtUpToDate(t *testing.T) {
	for seed := range uint64(30) {
		store := objstore.NewMemory()
		w := lived(t, store, replica.Bucket, seed)
		rng := rand.New(rand.NewPCG(seed, 2))
		fsys := newDisk(t)
		p, err := Prepare(context.Background(), w.R, Options{To: target, FS: fsys})
		if err != nil {
			t.Fatal(err)
		}
		first := w.Head.TXID + 1
		for range rng.IntN(6) {
			if err := w.Commit(change(rng, w)); err != nil {
				t.Fatal(err)
			}
		}
		if w.Head.TXID > first && rng.IntN(2) == 0 {
			if _, err := w.Compact(1, first); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Advance(context.Background()); err != nil {
			t.Fatal(err)
		}
		out, err := p.Finish(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := fsys.ReadFile(target)
		if err != nil || !bytes.Equal(b, w.DB.Bytes()) || out.TXID != w.Head.TXID || out.Checksum != w.Head.Post {
			t.Fatalf("seed %d: another database, %v, %+v", seed, err, out)
		}
		if names, err := fsys.List("/data"); err != nil || len(names) != 1 {
			t.Errorf("left behind: %v %v", names, err)
		}
	}
}

// TestAPowerCutDuringAdvance: the next restore does not take a working file that is half of one state and half of the next for its own.
func TestAPowerCutDuringAdvance(t *testing.T) {
	for cut := 0; ; cut++ {
		store := objstore.NewMemory()
		w := lived(t, store, replica.Bucket, 1)
		rng := rand.New(rand.NewPCG(uint64(cut), 2))
		fsys := newDisk(t)
		how := Options{To: target, FS: fsys, every: 1}
		p, err := Prepare(context.Background(), w.R, how)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := w.Commit(change(rng, w)); err != nil {
				t.Fatal(err)
			}
		}
		fsys.PowerOffAfter(cut)
		err = p.Advance(context.Background())
		fsys.Crash(rng)
		if _, rerr := Restore(context.Background(), w.R, how); rerr != nil {
			t.Fatal(rerr)
		}
		b, rerr := fsys.ReadFile(target)
		if rerr != nil || !bytes.Equal(b, w.DB.Bytes()) {
			at := "no state"
			for _, s := range w.Past {
				if bytes.Equal(b, s.DB.Bytes()) {
					at = s.File.Max.String()
				}
			}
			if at == "no state" {
				t.Fatalf("cut %d: %v, the database is at %s", cut, rerr, at)
			}
		}
		if err == nil {
			break
		}
	}
}

// rounds is how often the power is cut at each step of a restore; what survives is another part each time.
var rounds = flag.Int("rounds", 1, "power cuts at each step of a restore")

// TestAPowerCutDuringARestore: at every step of a restore, with any part of it surviving, the target is absent or whole, and the next
// restore makes it.
func TestAPowerCutDuringARestore(t *testing.T) {
	store := objstore.NewMemory()
	w := lived(t, store, replica.Bucket, 1)
	cuts := 0
	for round := range *rounds {
		cuts += cutARestore(t, w, uint64(round))
	}
	t.Logf("%d power cuts", cuts)
}

// cutARestore cuts the power at every step, and returns how many there are.
func cutARestore(t *testing.T, w *replicatest.Writer, round uint64) int {
	for cut := 0; ; cut++ {
		rng := rand.New(rand.NewPCG(uint64(cut), 3+round))
		fsys := newDisk(t)
		how := Options{From: "memory", To: target, FS: fsys, every: 1 << 10, Record: true}
		fsys.PowerOffAfter(cut)
		_, err := Restore(context.Background(), w.R, how)
		ended := err == nil
		fsys.Crash(rng)
		b, err := fsys.ReadFile(target)
		switch {
		case err == nil && !bytes.Equal(b, w.DB.Bytes()):
			t.Fatalf("round %d, cut %d: the database has its name and is another one", round, cut)
		case err != nil && ended:
			t.Fatalf("round %d, cut %d: the restore had ended, and its database is gone: %v", round, cut, err)
		}
		if err == nil {
			rec, rerr := ReadRecord(fsys, target)
			if rerr != nil || rec == nil || rec.Checksum != w.Head.Post || rec.Head != w.Head.TXID || rec.TXID != w.Head.TXID {
				t.Fatalf("round %d, cut %d: the database has its name, and the record is %+v, %v", round, cut, rec, rerr)
			}
		} else {
			if rec, rerr := ReadRecord(fsys, target); rec != nil || rerr != nil {
				t.Fatalf("round %d, cut %d: there is no database, and a record that counts: %+v, %v", round, cut, rec, rerr)
			}
			if _, err := Restore(context.Background(), w.R, how); err != nil {
				t.Fatalf("round %d, cut %d: %v", round, cut, err)
			}
			if b, err := fsys.ReadFile(target); err != nil || !bytes.Equal(b, w.DB.Bytes()) {
				t.Fatalf("round %d, cut %d: the second restore made another database: %v", round, cut, err)
			}
		}
		if ended {
			return cut
		}
	}
}

// TestAFileMadeDuringARestoreStays: an application makes the database while it is being restored. Its file is not replaced.
func TestAFileMadeDuringARestoreStays(t *testing.T) {
	for _, suffix := range []string{"", "-wal"} {
		w := lived(t, objstore.NewMemory(), replica.Bucket, 1)
		fsys := newDisk(t)
		p, err := Prepare(context.Background(), w.R, Options{To: target, FS: fsys})
		if err != nil {
			t.Fatal(err)
		}
		if err := fsys.WriteFileAtomic(target+suffix, []byte("mine")); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Finish(context.Background()); !errors.Is(err, ErrExists) {
			t.Errorf("%q: %v", suffix, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if b, err := fsys.ReadFile(target + suffix); err != nil || string(b) != "mine" {
			t.Errorf("%q: it is %q, %v", suffix, b, err)
		}
	}
}

// TestADiskThatIsTooSmall: it is said before anything is written.
func TestADiskThatIsTooSmall(t *testing.T) {
	w := lived(t, objstore.NewMemory(), replica.Bucket, 1)
	fsys := disk.NewFaulty(newDisk(t))
	fsys.FillAfter(nil, Spare+int64(len(w.DB.Bytes()))-1)
	if _, err := Restore(context.Background(), w.R, Options{To: target, FS: fsys}); !errors.Is(err, ErrSpace) {
		t.Errorf("one byte less than it takes: %v", err)
	}
	if names, err := fsys.List("/data"); err != nil || len(names) != 0 {
		t.Errorf("left behind: %v %v", names, err)
	}
	fsys.FillAfter(nil, Spare+int64(len(w.DB.Bytes())))
	if _, err := Restore(context.Background(), w.R, Options{To: target, FS: fsys}); err != nil {
		t.Error(err)
	}
}

func sampleRecord() *Record {
	return &Record{Replica: "s3://backups/app?endpoint=http%3A%2F%2F127.0.0.1%3A9000", Identity: "00112233445566778899aabbccddeeff", TXID: 7, Checksum: 0x8000000000000007,
		Head: 0x100005, HeadSum: 0x8000000000000009, Time: time.UnixMilli(1_700_000_000_123).UTC()}
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	b := sampleRecord().Encode()
	golden.Check(t, "testdata/restored", string(b))
	if r, ok := DecodeRecord(b); !ok || *r != *sampleRecord() {
		t.Errorf("%+v %v", r, ok)
	}
	for i := range b {
		broken := bytes.Clone(b)
		broken[i] ^= 1
		if _, ok := DecodeRecord(broken); ok {
			t.Errorf("byte %d flipped, and it is taken for whole", i)
		}
	}
	for _, of := range []string{"/var/backups/app", "a\nb \"c\"", "ü", ""} {
		r := *sampleRecord()
		r.Replica, r.Identity = of, ""
		if got, ok := DecodeRecord(r.Encode()); !ok || *got != r {
			t.Errorf("%q: %+v %v", of, got, ok)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(sampleRecord().Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, ok := DecodeRecord(b); ok && !bytes.Equal(r.Encode(), b) {
			t.Errorf("%q is taken for %+v", b, r)
		}
	})
}

func TestPlaces(t *testing.T) {
	for of, want := range map[string]string{ // any order: they are independent
		"s3://key:secret@bucket/app/?endpoint=http://h:1&forcePathStyle=true": "s3://bucket/app?endpoint=http%3A%2F%2Fh%3A1",
		"file:///mnt/backups/app/?mode=0644":                                  "file:///mnt/backups/app",
		"/mnt/backups/app/":                                                   "/mnt/backups/app",
	} {
		if got := Place(of); got != want {
			t.Errorf("%s: %s, not %s", of, got, want)
		}
	}
}

// without is a store that lacks objects or has others in their place.
func without(t testing.TB, objects map[string][]byte, damage map[string][]byte) *objstore.Memory {
	t.Helper()
	store := copyOf(t, objects)
	for name, b := range damage {
		var err error
		if b == nil {
			err = store.Delete(context.Background(), name)
		} else {
			err = store.Put(context.Background(), objstore.Object{Name: name, Data: b})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// TestAnyCompleteSetOfFilesRestores: one file after the other is lost, emptied, cut short or damaged inside, with a manifest that names it and
// without. Every state that the other files lead to is restored, the newest, by its TXID, and by its time.
func TestAnyCompleteSetOfFilesRestores(t *testing.T) {
	whole := objstore.NewMemory()
	w := lived(t, whole, replica.Bucket, 7)
	if err := w.PutManifest(); err != nil {
		t.Fatal(err)
	}
	restored, refused := 0, 0
	for _, manifest := range []bool{true, false} {
		objects := whole.Objects()
		if !manifest {
			delete(objects, replica.ManifestName)
		}
		for i, f := range w.Files {
			name := w.R.Name(f)
			for kind, b := range map[string][]byte{"lost": nil, "empty": {}, "short": objects[name][:len(objects[name])/2], "wrong": wrong(objects[name])} { // any order: each alone
				if kind == "wrong" && f.Fence {
					continue // it has no page
				}
				store := without(t, objects, map[string][]byte{name: b})
				left := append(append([]replica.File(nil), w.Files[:i]...), w.Files[i+1:]...)
				for k, s := range w.Past {
					if k%12 != i%12 && k != len(w.Past)-1 { // some of them with each file
						continue
					}
					for _, to := range []Target{{TXID: s.File.Max}, {Time: s.File.Time}, {}} {
						if to == (Target{}) && k != len(w.Past)-1 || !to.Time.IsZero() && s.File.Fence {
							continue
						}
						set := extend(nil, left, s.File.Max)
						can := reached(set) == s.File.Max
						if !manifest && kind == "lost" && f.Level == 0 && to.TXID == 0 {
							continue // its existence is unknown
						}
						out, b, err := restoreTo(t, replica.New(store, replica.Bucket), disk.NewMem(), Options{Target: to})
						switch {
						case can && err != nil:
							t.Fatalf("manifest %v, %s %s, %s: %v", manifest, name, kind, to, err)
						case err != nil:
							refused++
						case !bytes.Equal(b, s.DB.Bytes()):
							t.Fatalf("manifest %v, %s %s, %s: another database, at %s", manifest, name, kind, to, out.TXID)
						default:
							restored++
						}
					}
				}
			}
		}
	}
	t.Logf("%d restored, %d refused", restored, refused)
	if restored == 0 || refused == 0 {
		t.Error("one of both never happened")
	}
}

// TestASnapshotThatNoManifestNamesIsAWayAround: the owner has found a named file damaged, has stored the whole database behind it, and is killed before
// its manifest says so. Its acknowledged commits are restored. A file of a fenced owner is no such way.
func TestASnapshotThatNoManifestNamesIsAWayAround(t *testing.T) {
	whole := objstore.NewMemory()
	w := lived(t, whole, replica.Bucket, 7)
	if err := w.PutManifest(); err != nil {
		t.Fatal(err)
	}
	last := w.Past[len(w.Past)-1].File
	if err := w.Commit(uint32(len(w.DB)), map[uint32][]byte{1: replicatest.Fill(w.PageSize, 9)}); err != nil {
		t.Fatal(err)
	}
	snapshot, err := w.Compact(replica.SnapshotLevel, 1)
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string][]byte{}
	for _, f := range w.Files {
		if f.Max >= last.Max && f.Min <= last.Max && f != snapshot && f.Max < w.Head.TXID {
			damage[w.R.Name(f)] = []byte("LTX1")
		}
	}
	if len(damage) == 0 {
		t.Fatal("nothing is damaged: the test shows nothing")
	}
	store := without(t, whole.Objects(), damage)
	if _, b, err := restoreTo(t, replica.New(store, replica.Bucket), disk.NewMem(), Options{}); err != nil || !bytes.Equal(b, w.DB.Bytes()) {
		t.Errorf("what was acknowledged behind the damage is not restored: %v", err)
	}
	// The same name with the state of another line.
	data := whole.Objects()[w.R.Name(snapshot)]
	old := *w
	old.DB = append(replicatest.DB(nil), w.DB...)
	old.DB[0] = replicatest.Fill(w.PageSize, 8)
	if err := whole.Delete(context.Background(), w.R.Name(snapshot)); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Compact(replica.SnapshotLevel, 1); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(whole.Objects()[w.R.Name(snapshot)], data) {
		t.Fatal("the other line has the same state: the test shows nothing")
	}
	store = without(t, whole.Objects(), damage)
	if _, _, err := restoreTo(t, replica.New(store, replica.Bucket), disk.NewMem(), Options{}); err == nil {
		t.Error("a state of another line is restored")
	}
}

// wrong has a bit flipped in the middle.
func wrong(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) > 0 {
		b[len(b)/2] ^= 4
	}
	return b
}
