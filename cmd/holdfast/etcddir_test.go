package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/holdfastdb/holdfast/doors/kv/etcdfile"
)

func TestADirectoryOfEtcdsIsLeftAlone(t *testing.T) {
	t.Parallel()
	args, _ := etcdAlone(t, "http")
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := etcdStart(t, append(args, "--data-dir="+dir)...); err == nil || !strings.Contains(err.Error(), "holdfast import") {
		t.Error(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("the directory has %v now", names)
	}
}

func TestTheLogLiesWhereItIsTold(t *testing.T) {
	t.Parallel()
	wal := filepath.Join(t.TempDir(), "wal")
	args, _ := etcdAlone(t, "http", "--wal-dir="+wal)
	for range 2 { // the first start and a restart
		r := mustStart(t, args...)
		if _, err := r.client(t, nil).Put(timely(t), "a", "1"); err != nil {
			t.Error(err)
		}
		if names, err := os.ReadDir(wal); err != nil || len(names) == 0 {
			t.Errorf("%v in it, %v", names, err)
		}
		if _, err := os.Stat(filepath.Join(r.data, "wal")); err == nil {
			t.Error("the data directory has a log too")
		}
		r.stop()
	}
}

// TestTheDataOfAnEtcdIsTakenOver: an etcd's database and log are brought over at the first start and never again. Its files stay as they
// are, and a start refuses anything it cannot take over.
func TestTheDataOfAnEtcdIsTakenOver(t *testing.T) {
	t.Parallel()
	args, _ := etcdAlone(t, "http")
	dir := t.TempDir()
	db := etcdDirectory(t, dir)
	before, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcdStart(t, append(args, "--data-dir="+dir, "--wal-dir="+filepath.Join(dir, "elsewhere"))...); err == nil || !strings.Contains(err.Error(), "--wal-dir") {
		t.Errorf("with a log elsewhere: %v", err)
	}
	out := filepath.Join(t.TempDir(), "imported")
	status, stdout, errs := execute(nil, "import", "--from-data-dir", dir, "--data", out)
	if status != 0 || !strings.Contains(stdout, "revision 3 with all its history: 2 keys in 1 changes") {
		t.Errorf("status %d: %s%s", status, stdout, errs)
	}
	for range 2 {
		r, err := etcdStart(t, append(args, "--data-dir="+dir)...)
		if err != nil {
			t.Fatal(err)
		}
		c := r.client(t, nil)
		got, err := c.Get(timely(t), "", clientv3.WithFromKey())
		if err != nil || len(got.Kvs) != 2 && len(got.Kvs) != 3 || string(got.Kvs[0].Value) != "in the database" || string(got.Kvs[1].Value) != "in the log" {
			t.Errorf("%v, %v", got, err)
		}
		if _, err := c.Put(timely(t), "ours", "1"); err != nil {
			t.Fatal(err)
		}
		if got, err = c.Get(timely(t), "ours"); err != nil || got.Header.Revision < 4 {
			t.Errorf("%v, %v", got, err)
		}
		r.stop()
	}
	if after, err := os.ReadFile(db); err != nil || !bytes.Equal(before, after) {
		t.Errorf("etcd's database is another one: %v", err)
	}
}

// etcdDirectory makes the data directory of an etcd of one member, with one key in the database and one in the log only.
func etcdDirectory(t *testing.T, dir string) (db string) {
	t.Helper()
	w, err := etcdfile.Create(filepath.Join(t.TempDir(), "making"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	snap, logs := filepath.Join(dir, "member", "snap"), filepath.Join(dir, "member", "wal")
	if err := errors.Join(w.Change(&etcdfile.Change{Rev: 2, Key: []byte("a"), CreateRev: 2, Version: 1, Value: []byte("in the database")}),
		w.Member(&etcdfile.Member{ID: 7, Name: "n1"}), w.Finish(&etcdfile.Head{Index: 4, Term: 2}), os.MkdirAll(snap, 0o700)); err != nil {
		t.Fatal(err)
	}
	db = filepath.Join(snap, "db")
	f, err := os.Create(db)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.WriteTo(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	l, err := wal.Create(nil, logs, nil)
	if err != nil {
		t.Fatal(err)
	}
	term, index := uint64(2), uint64(5)
	data, err := proto.Marshal(&pb.InternalRaftRequest{ID: 1, Put: &pb.PutRequest{Key: []byte("b"), Value: []byte("in the log")}})
	if err != nil {
		t.Fatal(err)
	}
	var entries []*raftpb.Entry
	for i := range index {
		at := i + 1
		e := &raftpb.Entry{Term: &term, Index: &at}
		if at == index {
			e.Data = data
		}
		entries = append(entries, e)
	}
	if err := errors.Join(l.Save(&raftpb.HardState{Term: &term, Commit: &term}, entries), l.Close()); err != nil {
		t.Fatal(err)
	}
	return db
}

// TestV2KeysAreRefusedWithWhatToDo: they lie in raft's snapshots and in the log, and neither is taken for an empty tree.
func TestV2KeysAreRefusedWithWhatToDo(t *testing.T) {
	field := func(n byte, s string) string {
		return string([]byte{n<<3 | 2}) + string(binary.AppendUvarint(nil, uint64(len(s)))) + s
	}
	tree := `{"Root":{"Path":"/","Children":{"0":{"Path":"/0","Children":{"members":{}}},"1":{"Path":"/1","Children":{%s}}}}}`
	for name, c := range map[string]struct {
		tree    string
		request string
		refused bool
	}{
		"members only":  {fmt.Sprintf(tree, ""), field(2, "PUT") + field(3, "/0/members/1/attributes"), false},
		"in a snapshot": {fmt.Sprintf(tree, `"queue":{}`), "", true},
		"in the log":    {"", field(2, field(2, "PUT")+field(3, "/1/queue")), true},
		"in an old log": {"", field(2, "DELETE") + field(3, "/1/queue"), true},
	} {
		dir := t.TempDir()
		db := etcdDirectory(t, dir)
		if c.tree != "" {
			if err := os.WriteFile(filepath.Join(filepath.Dir(db), "0000000000000002-0000000000000004.snap"), []byte(field(2, field(1, c.tree))), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if c.request != "" {
			l, err := wal.Open(nil, filepath.Join(dir, "member", "wal"), &walpb.Snapshot{})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, _, err := l.ReadAll(); err != nil {
				t.Fatal(err)
			}
			term, index := uint64(2), uint64(6)
			err = l.Save(&raftpb.HardState{Term: &term, Commit: &index}, []*raftpb.Entry{{Term: &term, Index: &index, Data: []byte(c.request)}})
			if err := errors.Join(err, l.Close()); err != nil {
				t.Fatal(err)
			}
		}
		target := filepath.Join(t.TempDir(), "data")
		status, _, errs := execute(nil, "import", "--from-data-dir", dir, "--data", target)
		_, made := os.Stat(target)
		if c.refused && (status != 1 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "holdfast import --from HOST:PORT") || made == nil) {
			t.Errorf("%s: status %d: %s, %v", name, status, errs, made)
		}
		if !c.refused && status != 0 {
			t.Errorf("%s: status %d: %s", name, status, errs)
		}
	}
}
