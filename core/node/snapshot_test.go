package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
	"github.com/holdfastdb/holdfast/internal/golden"
)

// snapshotOf is a snapshot of a store that holds the pairs.
func snapshotOf(t testing.TB, pairs ...string) ([]byte, *SnapshotInfo) {
	t.Helper()
	st := store.NewMem()
	b := st.NewBatch()
	for i := 0; i < len(pairs); i += 2 {
		b.Set([]byte(pairs[i]), []byte(pairs[i+1]))
	}
	if err := st.Commit(b, 1000); err != nil {
		t.Fatal(err)
	}
	info := &SnapshotInfo{Cluster: 0x0102030405060708, Index: 1000, Term: 7, Conf: raft.Conf{Voters: []uint64{1, 2}, Learners: []uint64{3}}}
	var out bytes.Buffer
	v := st.NewView()
	defer v.Close()
	if err := writeSnapshot(&out, v, info); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), info
}

// The golden file pins the bytes: a snapshot saved by one build is restored by a later one.
func TestSnapshotGolden(t *testing.T) {
	b, _ := snapshotOf(t, "ka", "1", "kb", "")
	golden.Check(t, "testdata/snapshot.hex", hex.Dump(b))
}

func TestSnapshotRoundTrip(t *testing.T) {
	large := string(make([]byte, snapshotChunk+1))
	for _, c := range [][]string{nil, {"k", "v"}, {"k", ""}, {"a", large, "b", large, "c", "x"}} {
		b, wrote := snapshotOf(t, c...)
		var got []string
		headSeen := false
		info, err := ReadSnapshot(bytes.NewReader(b), func(h *SnapshotInfo) error {
			headSeen = true
			if h.Index != 1000 || h.Term != 7 || h.Cluster != wrote.Cluster || fmt.Sprint(h.Conf) != fmt.Sprint(wrote.Conf) || len(got) != 0 {
				t.Errorf("head %+v, want %+v, after %d keys", h, wrote, len(got))
			}
			return nil
		}, func(k, v []byte) error {
			if string(k) != string(store.AppliedKey) {
				got = append(got, string(k), string(v))
			}
			return nil
		})
		if err != nil || !headSeen || info.Keys != wrote.Keys || info.Bytes != wrote.Bytes || fmt.Sprint(got) != fmt.Sprint(c) {
			t.Errorf("%d keys came back as %d, %+v, %v", len(c)/2, len(got)/2, info, err)
		}
		if info, err := ReadSnapshot(bytes.NewReader(b), nil, nil); err != nil || info.Keys != wrote.Keys {
			t.Errorf("only checked: %+v, %v", info, err)
		}
	}
}

// A snapshot that is cut anywhere, or has any bit changed, is damaged; the bytes behind it are not read.
func TestSnapshotDamage(t *testing.T) {
	whole, _ := snapshotOf(t, "ka", "1", "kb", "2")
	for n := range len(whole) {
		if _, err := ReadSnapshot(bytes.NewReader(whole[:n]), nil, nil); !errors.Is(err, ErrBadSnapshot) {
			t.Fatalf("cut at %d of %d: %v", n, len(whole), err)
		}
		b := bytes.Clone(whole)
		b[n] ^= 1 << (n % 8)
		if _, err := ReadSnapshot(bytes.NewReader(b), nil, nil); !errors.Is(err, ErrBadSnapshot) {
			t.Fatalf("byte %d of %d changed: %v", n, len(whole), err)
		}
	}
	r := bytes.NewReader(append(bytes.Clone(whole), "next"...))
	if _, err := ReadSnapshot(r, nil, nil); err != nil || r.Len() != len("next") {
		t.Fatalf("%v, %d bytes left", err, r.Len())
	}
	refused := errors.New("not this one")
	if _, err := ReadSnapshot(bytes.NewReader(whole), func(*SnapshotInfo) error { return refused }, nil); !errors.Is(err, refused) {
		t.Errorf("refused by its head: %v", err)
	}
	if _, err := ReadSnapshot(bytes.NewReader(whole), nil, func(k, v []byte) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("refused by a key: %v", err)
	}
}

// A chunk that is missing, doubled or moved leaves every checksum of a chunk intact; the totals and the order notice.
func TestSnapshotChunksInOrder(t *testing.T) {
	big := string(make([]byte, snapshotChunk))
	whole, _ := snapshotOf(t, "a", big, "b", big, "c", big)
	at := []int{len(snapshotMagic)} // offsets of the chunks: head, three of keys, end, totals
	for off := at[0]; off < len(whole); at = append(at, off) {
		off += 8 + int(binary.LittleEndian.Uint32(whole[off:]))
	}
	if len(at) != 7 {
		t.Fatalf("%d chunks", len(at)-1)
	}
	chunk := func(i int) []byte { return whole[at[i]:at[i+1]] }
	for name, order := range map[string][]int{"left out": {0, 1, 3, 4, 5, 6}, "last left out": {0, 1, 2, 4, 5}, "doubled": {0, 1, 2, 2, 3, 4, 5},
		"moved": {0, 2, 1, 3, 4, 5}, "no end": {0, 1, 2, 3, 5}} {
		b := []byte(snapshotMagic)
		for _, i := range order {
			if i < 6 {
				b = append(b, chunk(i)...)
			}
		}
		if _, err := ReadSnapshot(bytes.NewReader(b), nil, nil); !errors.Is(err, ErrBadSnapshot) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzReadSnapshot(f *testing.F) {
	b, _ := snapshotOf(f, "ka", "1", "kb", "")
	f.Add(b)
	f.Add(b[:len(snapshotMagic)+8])
	f.Fuzz(func(t *testing.T, b []byte) {
		last, keys := "", uint64(0)
		info, err := ReadSnapshot(bytes.NewReader(b), nil, func(k, v []byte) error {
			if keys > 0 && string(k) <= last {
				t.Fatalf("%x after %x", k, last)
			}
			last = string(k)
			keys++
			return nil
		})
		if err == nil && info.Keys != keys || err != nil && !errors.Is(err, ErrBadSnapshot) {
			t.Fatalf("%+v after %d keys, %v", info, keys, err)
		}
		head, _, rest, herr := ReadSnapshotHead(bytes.NewReader(b))
		switch {
		case err == nil && (herr != nil || head.Index != info.Index) && !errors.Is(herr, ErrBadSnapshot):
			t.Fatalf("whole, and its head is %+v, %v", head, herr)
		case herr == nil:
			if again, err := io.ReadAll(rest); err != nil || !bytes.Equal(again, b) {
				t.Fatalf("%x is %x after its head was read, %v", b, again, err)
			}
		}
	})
}

func TestSaveSnapshot(t *testing.T) {
	var complaints bytes.Buffer
	n := startAlone(t, t.TempDir(), func(cfg *Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(&complaints, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	for i := range 100 {
		mustPropose(t, n, fmt.Sprintf("k%02d", i), "v")
	}
	var out bytes.Buffer
	if err := n.SaveSnapshot(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	info, err := ReadSnapshot(bytes.NewReader(out.Bytes()), nil, nil)
	cluster, id := n.IDs()
	if err != nil || info.Cluster != cluster || info.Index < 101 || info.Keys < 100 || !info.Conf.Voter(id) {
		t.Fatalf("%+v, %v", info, err)
	}

	// The snapshot's client has gone: nothing may be left open, or the store could not close.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if err := n.SaveSnapshot(ended, &out); !errors.Is(err, context.Canceled) {
			t.Fatalf("ended before it began: %v", err)
		}
	}
	full := errors.New("disk full")
	if err := n.SaveSnapshot(t.Context(), writerFunc(func([]byte) (int, error) { return 0, full })); !errors.Is(err, full) {
		t.Fatalf("a writer that fails: %v", err)
	}
	n.Stop()
	if complaints.Len() > 0 { // of the store, about Views that were left open
		t.Errorf("on the way down: %s", complaints.String())
	}
	if err := n.SaveSnapshot(t.Context(), &out); !errors.Is(err, ErrStopped) {
		t.Fatalf("after the end: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A restored snapshot is a new cluster of one with the same keys. The log before it is gone and the revisions cannot be mistaken for the
// old ones. A restore that was interrupted leaves a directory that belongs to no cluster, as a first start does. An empty cluster must not
// begin there: its operator would believe that the data is back.
func TestWhatAnInterruptedRestoreLeftIsRefused(t *testing.T) {
	n := startAlone(t, t.TempDir(), nil)
	mustPropose(t, n, "k", "v")
	var snapshot bytes.Buffer
	if err := n.SaveSnapshot(t.Context(), &snapshot); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	half := bytes.NewReader(snapshot.Bytes()[:snapshot.Len()/2])
	if _, err := Restore(house(Config{Dir: dir}), "r1", "", half); !errors.Is(err, ErrBadSnapshot) {
		t.Fatalf("half a snapshot: %v", err)
	}
	const want = "that did not end: remove the directory and begin that again"
	if r, err := Start(within(t), house(Config{Dir: dir, MemoryBytes: 64 << 20}), StartOptions{Name: "r1"}); err == nil {
		t.Error("an empty cluster begins in what a restore left")
		r.Stop()
	} else if !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	if _, err := Restore(house(Config{Dir: dir}), "r1", "", bytes.NewReader(snapshot.Bytes())); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("restored over what a restore left: %v", err)
	}
}

func TestRestore(t *testing.T) {
	n := startAlone(t, t.TempDir(), nil)
	for i := range 10 {
		mustPropose(t, n, "k", fmt.Sprint(i))
		set := v2part.Append(nil, &v2part.Part{Kind: v2part.Set, Path: []byte("/k"), Value: fmt.Append(nil, i)})
		if _, err := n.Propose(within(t), LaneKV, entry.Part{Machine: entry.MachineEtcd2, Body: set}); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := n.kv().Revision()
	indexBefore := n.etcd2().Index()
	var snapshot bytes.Buffer
	if err := n.SaveSnapshot(t.Context(), &snapshot); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	damaged := bytes.Clone(snapshot.Bytes())
	damaged[len(damaged)-1] ^= 1
	if _, err := Restore(house(Config{Dir: dir}), "r1", "", bytes.NewReader(damaged)); !errors.Is(err, ErrBadSnapshot) {
		t.Fatalf("a damaged snapshot: %v", err)
	}
	dir = t.TempDir()
	if _, err := Restore(house(Config{Dir: dir}), "r1", "", bytes.NewReader(snapshot.Bytes())); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(house(Config{Dir: dir}), "r1", "", bytes.NewReader(snapshot.Bytes())); err == nil {
		t.Error("restored over data")
	}
	r := startAlone(t, dir, nil)
	if v, version := read(t, r, "k"); v != "9" || version != 10 {
		t.Errorf("k = %q, version %d", v, version)
	}
	if rev, compacted := r.kv().Revision(); rev < before+machine.RevisionBump || compacted < before {
		t.Errorf("revision %d, compacted %d; the old cluster was at %d", rev, compacted, before)
	}
	// A v2 watch of the old cluster is told that its index is cleared, also if the snapshot has not reached it. A new one waits for the
	// next change.
	if index := r.etcd2().Index(); index != indexBefore+machine.RevisionBump {
		t.Errorf("v2 index %d; the old cluster was at %d", index, indexBefore)
	}
	any := func(*v2machine.Event) bool { return true }
	for _, since := range []uint64{indexBefore, indexBefore + 1, indexBefore + 1000} {
		var gone *v2part.Refusal
		if e, _, err := r.etcd2().Scan(since, any); !errors.As(err, &gone) || gone.Code != v2part.IndexCleared {
			t.Errorf("v2 events from %d: %v, %v", since, e, err)
		}
	}
	if e, _, err := r.etcd2().Scan(r.etcd2().Index()+1, any); e != nil || err != nil {
		t.Errorf("v2 events from the next on: %v, %v", e, err)
	}
	var look v2machine.Lookup
	if node, _, ok, err := r.etcd2().Key(&look, []byte("/k"), r.Tick); !ok || err != nil || string(node.Value) != "9" {
		t.Errorf("v2 key: %+v, %v, %v", node, ok, err)
	}
	oldCluster, oldID := n.IDs()
	if cluster, id := r.IDs(); cluster == oldCluster || id == oldID {
		t.Error("it took the identity of the original")
	}
	if ms := r.Members(); len(ms) != 1 || ms[0].Name != "r1" {
		t.Errorf("members %+v", ms)
	}
	mustPropose(t, r, "k", "10")
}
