package etcdfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
)

// logged writes a log with etcd's own code: 300 entries over several files, of which a later leader replaces the last ten by five.
func logged(t *testing.T) string {
	t.Helper()
	was := wal.SegmentSizeBytes
	wal.SegmentSizeBytes = 64 << 10
	defer func() { wal.SegmentSizeBytes = was }()
	dir := filepath.Join(t.TempDir(), "wal")
	w, err := wal.Create(nil, dir, []byte("metadata"))
	if err != nil {
		t.Fatal(err)
	}
	save := func(term, index uint64) {
		t.Helper()
		e := &raftpb.Entry{Term: &term, Index: &index, Data: []byte(strings.Repeat("x", int(index)*3))}
		commit := index - 1
		if err := w.Save(&raftpb.HardState{Term: &term, Commit: &commit}, []*raftpb.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(300) {
		save(2, i+1)
	}
	for i := range uint64(5) {
		save(3, 291+i)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func lastFile(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(names) < 3 {
		t.Fatalf("%v, %v", names, err)
	}
	return names[len(names)-1]
}

func TestReadLog(t *testing.T) {
	dir := logged(t)
	lastFile(t, dir)
	l, err := ReadLog(dir)
	if err != nil || l.First() != 1 || l.Last() != 295 || l.Committed != 299 {
		t.Fatalf("%+v, %v", l, err)
	}
	at := uint64(249)
	err = l.Entries(250, func(e *LogEntry) error {
		at++
		term := uint64(2)
		if at > 290 {
			term = 3
		}
		if e.Index != at || e.Term != term || len(e.Data) != int(at)*3 || e.Change {
			return fmt.Errorf("entry %d is %d of term %d with %d bytes", at, e.Index, e.Term, len(e.Data))
		}
		return nil
	})
	if err != nil || at != 295 {
		t.Errorf("ends at %d, %v", at, err)
	}
}

// A record that was cut short ends the log; a changed one before it is damage, as is a file that is missing.
func TestDamagedLog(t *testing.T) {
	dir := logged(t)
	name := lastFile(t, dir)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	end := len(strings.TrimRight(string(whole), "\x00"))
	try := func(b []byte) (uint64, error) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := ReadLog(dir)
		if err != nil {
			return 0, err
		}
		return l.Last(), nil
	}
	cut := append([]byte(nil), whole...)
	clear(cut[end-600:])
	if last, err := try(cut); err != nil || last != 294 {
		t.Errorf("torn: ends at %d, %v", last, err)
	}
	if last, err := try(whole[:end-100]); err != nil || last != 294 {
		t.Errorf("short: ends at %d, %v", last, err)
	}
	flipped := append([]byte(nil), whole...)
	flipped[end-2000] ^= 1
	if _, err := try(flipped); !errors.Is(err, ErrDamaged) {
		t.Errorf("flipped: %v", err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err := os.Remove(names[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := try(whole); !errors.Is(err, ErrDamaged) {
		t.Errorf("a file is missing: %v", err)
	}
}

func TestV2Requests(t *testing.T) {
	field := func(n byte, s string) string { return string([]byte{n<<3 | 2, byte(len(s))}) + s }
	put := "\x08\x05" + field(2, "PUT") + field(3, "/1/queue/a") + field(4, "v")
	for text, want := range map[string]string{put: "/queue/a", field(2, put): "/queue/a", "": "",
		field(2, "PUT") + field(3, "/0/members/1/attributes"): "", field(2, "SYNC"): "", field(4, "\x0a\x01k"): ""} {
		if path, ok := V2Write([]byte(text)); path != want || ok != (want != "") {
			t.Errorf("%q writes %q, %v", text, path, ok)
		}
	}
	if !IsV2([]byte(field(2, "SYNC"))) || IsV2([]byte(field(4, "\x0a\x01k"))) {
		t.Error("which requests are of version 2")
	}
}
