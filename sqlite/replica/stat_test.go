package replica_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/superfly/ltx"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// TestAFileIsJudgedByItsHeaderAndItsTrailer: what is damaged there is a fault with the file's name, and its checksums are taken from no such file.
func TestAFileIsJudgedByItsHeaderAndItsTrailer(t *testing.T) {
	ctx := context.Background()
	w := groups(t, objstore.NewMemory(), 3)
	f, whole := w.Past[2].File, w.Past[2].Data
	patched := func(at int, b ...byte) []byte {
		data := slices.Clone(whole)
		copy(data[at:], b)
		return data
	}
	for _, c := range []struct {
		name, reason string // "": it is whole
		data         []byte
		size         int64 // as the list has it; 0: that of data
	}{
		{"whole", "", whole, 0},
		{"not LTX", "invalid", patched(0, 0), 0},
		{"no page size", "page size", patched(8, 0, 0, 2, 3), 0},
		{"no checksum before", "pre-apply", patched(40, 0, 0, 0, 0, 0, 0, 0, 0), 0},
		{"no checksum behind", "post-apply", patched(len(whole)-ltx.TrailerSize, 0, 0, 0, 0, 0, 0, 0, 0), 0},
		{"no checksum of the file", "file checksum", patched(len(whole)-8, 0, 0, 0, 0, 0, 0, 0, 0), 0},
		{"zeros", "invalid", make([]byte, len(whole)), 0},
		{"a file of another name", "another name", w.Past[1].Data, 0},
		{"it begins elsewhere", "another name", patched(16, 0, 0, 0, 0, 0, 0, 0, 2), 0},
		{"it ends elsewhere", "another name", patched(24, 0, 0, 0, 0, 0, 0, 0, 4), 0},
		{"too short for LTX", "no LTX file", whole[:replica.FenceSize-1], 0},
		{"cut in its trailer", "shorter than listed", whole[:len(whole)-1], int64(len(whole))},
		{"cut in its pages", "shorter than listed", whole[:replica.FenceSize+1], int64(len(whole))},
		{"cut in its header", "shorter than listed", whole[:ltx.HeaderSize-1], int64(len(whole))},
	} {
		store := objstore.NewMemory()
		r := replica.New(store, replica.Bucket)
		must(t, store.Put(ctx, objstore.Object{Name: r.Name(f), Data: c.data}))
		g := f
		if g.Size = c.size; g.Size == 0 {
			g.Size = int64(len(c.data))
		}
		h, trailer, err := r.Stat(ctx, g)
		var fault *replica.Fault
		if c.reason == "" {
			if err != nil || h.PreApplyChecksum != f.Pre || trailer.PostApplyChecksum != f.Post {
				t.Errorf("%s: %v, %+v", c.name, err, h)
			}
		} else if !errors.As(err, &fault) || fault.Name != r.Name(f) || fault.Absent || !strings.Contains(fault.Reason, c.reason) {
			t.Errorf("%s: %v, want a fault of %q", c.name, err, c.reason)
		}
	}
}

// listed are files as a list has them, without checksums and times.
func listed(files []replica.File) []replica.File {
	files = slices.Clone(files)
	for i, f := range files {
		files[i] = replica.File{Level: f.Level, Min: f.Min, Max: f.Max, Size: f.Size, Fence: f.Fence}
	}
	return files
}

// TestFillSaysWhichFileCannotBeRead: it is not passed over, and the caller does not take it for one that was read.
func TestFillSaysWhichFileCannotBeRead(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	w := groups(t, store, 20)
	files := listed(w.Files)
	must(t, w.R.Fill(ctx, files))
	if !slices.Equal(files, w.Files) {
		t.Errorf("filled are %v, want %v", files, w.Files)
	}
	must(t, store.Delete(ctx, w.R.Name(w.Files[7])))
	if err := w.R.Fill(ctx, listed(w.Files)); !errors.Is(err, objstore.ErrAbsent) || !strings.Contains(err.Error(), w.R.Name(w.Files[7])) {
		t.Errorf("with a file that is not there: %v", err)
	}
	if err := w.R.Fill(ctx, slices.Clone(w.Files)); err != nil {
		t.Errorf("files that are filled are read again: %v", err)
	}
}

// TestWholeFilesAreFilledBesideDamagedOnes, and a store that is down is no damage.
func TestWholeFilesAreFilledBesideDamagedOnes(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	w := groups(t, store, 20)
	absent, damaged := w.Files[3], w.Files[11]
	must(t, store.Delete(ctx, w.R.Name(absent)))
	must(t, store.Put(ctx, objstore.Object{Name: w.R.Name(damaged), Data: bytes.Repeat([]byte("x"), int(damaged.Size))}))
	whole, faults, err := w.R.Whole(ctx, listed(w.Files))
	must(t, err)
	if want := slices.Concat(w.Files[:3], w.Files[4:11], w.Files[12:]); !slices.Equal(whole, want) {
		t.Errorf("whole are %v, want %v", whole, want)
	}
	if len(faults) != 2 || faults[0].Name != w.R.Name(absent) || !faults[0].Absent || faults[1].Name != w.R.Name(damaged) || faults[1].Absent {
		t.Errorf("the faults are %v", faults)
	}
	store.Fail(errors.New("the store is down"))
	if whole, faults, err := w.R.Whole(ctx, listed(w.Files)); err == nil {
		t.Errorf("of a store that is down %v are whole, with the faults %v", whole, faults)
	}
}

// TestFilesArePresentInTheirSize: a missing file and one of another size are faults, and an object without a file's name is none.
func TestFilesArePresentInTheirSize(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	w := groups(t, store, 5)
	must(t, store.Delete(ctx, w.R.Name(w.Files[1])))
	must(t, store.Put(ctx, objstore.Object{Name: w.R.Name(w.Files[3]), Data: make([]byte, w.Files[3].Size-1)}, objstore.Object{Name: "of-somebody-else"}))
	short := w.Files[4]
	short.Size = replica.FenceSize - 1
	must(t, store.Put(ctx, objstore.Object{Name: w.R.Name(short), Data: make([]byte, short.Size)}))
	fence := replica.File{Min: 6, Max: 6, Size: replica.FenceSize, Fence: true}
	must(t, store.Put(ctx, objstore.Object{Name: w.R.Name(fence), Data: make([]byte, fence.Size)}))
	here, faults, err := w.R.Present(ctx, slices.Concat(w.Files[:4], []replica.File{short, fence}))
	must(t, err)
	if !slices.Equal(here, []replica.File{w.Files[0], w.Files[2], fence}) {
		t.Errorf("present are %v", here)
	}
	if len(faults) != 3 || !faults[0].Absent || faults[0].Name != w.R.Name(w.Files[1]) || faults[1].Absent || faults[1].Name != w.R.Name(w.Files[3]) ||
		faults[2].Absent || faults[2].Name != w.R.Name(short) {
		t.Errorf("the faults are %v", faults)
	}
	store.Fail(errors.New("the store is down"))
	if here, faults, err := w.R.Present(ctx, w.Files); err == nil {
		t.Errorf("of a store that is down %v are present, with the faults %v", here, faults)
	}
}

// TestALevelThatNoManifestNamesIsFound, if it ends within the chain: an owner that died has stored it before its manifest.
func TestALevelThatNoManifestNamesIsFound(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	w := groups(t, store, 3)
	_, err := w.Compact(2, 1)
	must(t, err)
	must(t, w.PutManifest())
	named := w.Files[len(w.Files)-1]
	commits(t, w, 1)
	unnamed, err := w.Compact(1, 2)
	must(t, err)
	snapshot, err := w.Compact(replica.SnapshotLevel, 1)
	must(t, err)
	c, err := replica.New(store, replica.Bucket).Read(ctx)
	must(t, err)
	commits(t, w, 1)
	beyond, err := w.Compact(1, 3)
	must(t, err)
	found, err := w.R.Unnamed(ctx, c)
	must(t, err)
	slices.SortFunc(found, replica.ByPlace)
	if want := listed([]replica.File{unnamed, snapshot}); !slices.Equal(found, want) {
		t.Errorf("found are %v, want %v: neither %v, which is named, nor %v, which ends behind the head", found, want, named, beyond)
	}
	store.Fail(errors.New("the store is down"))
	if found, err := w.R.Unnamed(ctx, c); err == nil {
		t.Errorf("of a store that is down %v are found", found)
	}
}
