package restore

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/objstore"
)

// taken is what the snapshots of these tests are of.
var taken = format.Manifest{Cluster: 7, Timeline: 7, Index: 40, Term: 3, State: 99, WallNs: 1700}

// stream is a snapshot's bytes as far as PutSnapshot is concerned.
func stream(n int, seed byte) []byte {
	b := make([]byte, n)
	src := rand.NewChaCha8([32]byte{seed})
	_, _ = src.Read(b) // which never fails
	return b
}

// whole reads a snapshot back, as its manifest has it.
func whole(t *testing.T, s *objstore.Memory) []byte {
	t.Helper()
	name, all := format.ManifestName(taken.Timeline, taken.Index), s.Objects()
	m, err := format.DecodeManifest(name, all[name])
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for i := range m.Pieces {
		piece := all[m.PieceName(i)]
		if err := m.CheckPiece(i, piece); err != nil {
			t.Fatal(err)
		}
		b = append(b, piece...)
	}
	return b
}

// TestASnapshotIsCutIntoPieces of at most 8 MiB, which together are what was read, however it came.
func TestASnapshotIsCutIntoPieces(t *testing.T) {
	for _, size := range []int{1, format.MaxPieceBytes - 1, format.MaxPieceBytes, format.MaxPieceBytes + 1, 2*format.MaxPieceBytes + 5} {
		s, b, heard := objstore.NewMemory(), stream(size, 1), int64(0)
		m, err := PutSnapshot(context.Background(), s, taken, iotest.HalfReader(bytes.NewReader(b)), func(n int64) { heard = n })
		if err != nil {
			t.Fatal(err)
		}
		if m.Bytes() != int64(size) || heard != int64(size) || len(m.Pieces) != (size+format.MaxPieceBytes-1)/format.MaxPieceBytes {
			t.Errorf("%d bytes: a manifest of %d in %d pieces, progress says %d", size, m.Bytes(), len(m.Pieces), heard)
		}
		if !bytes.Equal(whole(t, s), b) {
			t.Errorf("%d bytes: what is read is not what was put", size)
		}
	}
}

// TestWithoutItsManifestThereIsNoSnapshot: if the stream or the store fails on the way, none appears.
func TestWithoutItsManifestThereIsNoSnapshot(t *testing.T) {
	s, failed := objstore.NewMemory(), errors.New("the disk is gone")
	b := stream(format.MaxPieceBytes+10, 1)
	broken := iotest.DataErrReader(iotest.TimeoutReader(bytes.NewReader(b)))
	if _, err := PutSnapshot(context.Background(), s, taken, broken, nil); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("the stream breaks off: %v", err)
	}
	s.Fail(failed)
	if _, err := PutSnapshot(context.Background(), s, taken, bytes.NewReader(b), nil); !errors.Is(err, failed) {
		t.Errorf("the store fails: %v", err)
	}
	s.Fail(nil)
	if _, err := PutSnapshot(context.Background(), s, taken, bytes.NewReader(nil), nil); err == nil {
		t.Error("a snapshot of nothing was put")
	}
	if _, ok := s.Objects()[format.ManifestName(taken.Timeline, taken.Index)]; ok {
		t.Error("a manifest was put")
	}
}

// TestASnapshotIsPutAgain and again over a store that fails, until it is there: once, and whole.
func TestASnapshotIsPutAgain(t *testing.T) {
	again := 0
	for seed := range uint64(6) {
		memory := objstore.NewMemory()
		s := objstore.NewFaulty(memory, seed, task.Goroutines{}, objstore.Faults{Refused: 0.1, Before: 0.1, After: 0.2, Repeated: 0.2})
		b := stream(format.MaxPieceBytes+1000, byte(seed))
		for {
			m, err := PutSnapshot(context.Background(), s, taken, bytes.NewReader(b), nil)
			if err == nil {
				if m.Bytes() != int64(len(b)) {
					t.Errorf("seed %d: %d bytes", seed, m.Bytes())
				}
				break
			}
			if again++; again > 1000 {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(whole(t, memory), b) || len(memory.Objects()) != 3 {
			t.Errorf("seed %d: %d objects", seed, len(memory.Objects()))
		}
	}
	if again == 0 {
		t.Error("nothing failed: this test shows nothing")
	}
}

// TestTwoMembersPutOneSnapshot: their bytes differ and their state does not, so the first one's stands for both. Of another state, another
// term or another cluster it is refused, and the first one's stays.
func TestTwoMembersPutOneSnapshot(t *testing.T) {
	s := objstore.NewMemory()
	first, second := stream(3000, 1), stream(2000, 2)
	if _, err := PutSnapshot(context.Background(), s, taken, bytes.NewReader(first), nil); err != nil {
		t.Fatal(err)
	}
	m, err := PutSnapshot(context.Background(), s, taken, bytes.NewReader(second), nil)
	if err != nil || m.Bytes() != 3000 {
		t.Errorf("%v, %v", m, err)
	}
	for _, other := range []func(m *format.Manifest){
		func(m *format.Manifest) { m.State++ },
		func(m *format.Manifest) { m.Term++ },
		func(m *format.Manifest) { m.Cluster++ },
	} {
		m := taken
		other(&m)
		if _, err := PutSnapshot(context.Background(), s, m, bytes.NewReader(second), nil); !errors.Is(err, ErrOtherHistory) {
			t.Errorf("%+v beside %+v: %v", m, taken, err)
		}
	}
	if !bytes.Equal(whole(t, s), first) {
		t.Error("the first one's has changed")
	}
}

// TestADamagedPieceIsNotTakenForAPutOne: where half an object lies under a piece's name, the snapshot is refused and the piece named.
func TestADamagedPieceIsNotTakenForAPutOne(t *testing.T) {
	s, b := objstore.NewMemory(), stream(5000, 1)
	if _, err := PutSnapshot(context.Background(), s, taken, bytes.NewReader(b), nil); err != nil {
		t.Fatal(err)
	}
	manifest := format.ManifestName(taken.Timeline, taken.Index)
	for name, data := range s.Objects() {
		if name == manifest {
			_ = s.Delete(context.Background(), name) // of a store in memory
			continue
		}
		if err := s.Put(context.Background(), objstore.Object{Name: name, Data: data[:len(data)/2]}); err != nil {
			t.Fatal(err)
		}
	}
	var at *format.Fault
	_, err := PutSnapshot(context.Background(), s, taken, bytes.NewReader(b), nil)
	if !errors.As(err, &at) || !strings.HasPrefix(at.Name, format.PiecesName(taken.Timeline, taken.Index)) {
		t.Errorf("half a piece is there: %v", err)
	}
	if _, ok := s.Objects()[manifest]; ok {
		t.Error("there is a manifest")
	}
}
