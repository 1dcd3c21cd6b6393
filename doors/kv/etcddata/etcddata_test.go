package etcddata

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/machine"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/kv/etcdfile"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// lane is where the kv door's commands wait.
const lane node.Lane = 1

// server is a member of its own with what a file for etcd is made from.
type server struct {
	*node.Node
	kv    *kvmachine.Machine
	saver *Saver
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, dir string, fs disk.FS) *server {
	t.Helper()
	s := &server{kv: kvmachine.New(kvmachine.Options{})}
	n, err := node.Start(within(t), node.Config{FS: fs, Dir: dir, MemoryBytes: 64 << 20, Machines: []machine.Machine{s.kv},
		Lanes: []node.LaneSpec{{Number: lane, Name: "kv"}}, Scratch: []string{Scratch}}, node.StartOptions{Name: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	for deadline := time.Now().Add(wait.Limit(t)); !n.Status().Ready; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not get ready")
		}
	}
	s.Node, s.saver = n, NewSaver(n, fs, dir)
	return s
}

func (s *server) put(t *testing.T, key, value string) {
	t.Helper()
	body := kvpart.Append(nil, &kvpart.Part{Put: &kvpart.Put{Key: []byte(key), Value: []byte(value)}})
	if _, err := s.Propose(within(t), lane, entry.Part{Machine: entry.MachineKV, Body: body}); err != nil {
		t.Fatal(err)
	}
}

// scribble makes n random commands of a client: puts of short and long values, deletes of ranges, Txns, and revoked leases. One compaction
// is in the middle.
func scribble(t *testing.T, n *server, seed int64, steps int) {
	rnd := rand.New(rand.NewSource(seed))
	key := func() []byte { return fmt.Appendf(nil, "k%02d\x00%d", rnd.Intn(20), rnd.Intn(2)) }
	value := func() []byte {
		return []byte(strings.Repeat("v", []int{0, 5, 128, 129, 512, 513, 5000}[rnd.Intn(7)]))
	}
	lease := func() int64 {
		if rnd.Intn(3) == 0 {
			return int64(1 + rnd.Intn(3))
		}
		return 0
	}
	propose := func(p *kvpart.Part) {
		t.Helper()
		if _, err := n.Propose(within(t), lane, entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, p)}); err != nil {
			t.Fatal(err)
		}
	}
	for id := range int64(3) {
		propose(&kvpart.Part{Grant: &kvpart.LeaseGrant{ID: id + 1, TTL: 1000 + id}})
	}
	for i := range steps {
		switch k := rnd.Intn(20); {
		case i == steps*2/3:
			rev, _ := n.kv.Revision()
			propose(&kvpart.Part{Compact: &kvpart.Compact{Revision: rev - 5}})
		case k == 0:
			propose(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: key(), End: []byte("k1")}})
		case k < 4:
			propose(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: key()}})
		case k == 4:
			id := lease()
			propose(&kvpart.Part{Revoke: &kvpart.LeaseRevoke{IDs: []int64{id}, Expired: true}})
			propose(&kvpart.Part{Grant: &kvpart.LeaseGrant{ID: id + 10*int64(i+1), TTL: 30}})
		case k < 9:
			a, b := key(), key()
			txn := &kvpart.Txn{Then: []kvpart.Op{{Put: &kvpart.Put{Key: a, Value: value()}}}}
			if !bytes.Equal(a, b) {
				txn.Then = append(txn.Then, kvpart.Op{Delete: &kvpart.DeleteRange{Key: b}})
			}
			propose(&kvpart.Part{Txn: txn})
		default:
			propose(&kvpart.Part{Put: &kvpart.Put{Key: key(), Value: value(), Lease: lease()}})
		}
	}
}

// saveEtcd writes a file as the kv door does, without the checksum.
func saveEtcd(t *testing.T, n *server) string {
	t.Helper()
	f, err := n.saver.Save(within(t), "3.7.0", "3.7.0")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := f.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if int64(b.Len()) != f.Size {
		t.Fatalf("%d bytes, %d were announced", b.Len(), f.Size)
	}
	name := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// told prints everything a file says, but for what belongs to the cluster it is from.
func told(t *testing.T, path string) string {
	t.Helper()
	f, err := etcdfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out strings.Builder
	h := f.Head
	h.Index, h.Term, h.Voters = 0, 0, nil
	fmt.Fprintf(&out, "%+v revision %d\n", h, f.Revision)
	for _, err := range []error{
		f.Changes(func(c *etcdfile.Change) error { fmt.Fprintf(&out, "%+v\n", *c); return nil }),
		f.Leases(func(l etcdfile.Lease) error { fmt.Fprintf(&out, "%+v\n", l); return nil }),
		f.Users(func(u etcdfile.User) error { fmt.Fprintf(&out, "%+v\n", u); return nil }),
		f.Roles(func(r etcdfile.Role) error { fmt.Fprintf(&out, "%+v\n", r); return nil }),
		f.Alarms(func(a etcdfile.Alarm) error { fmt.Fprintf(&out, "%+v\n", a); return nil }),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// allKeys reads every key at one revision.
func allKeys(t *testing.T, n *server, rev int64) string {
	t.Helper()
	r, _, err := n.kv.Range(&kvpart.Range{Key: []byte{0}, End: []byte{0}, Revision: rev}, 0)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, kv := range r.KVs {
		fmt.Fprintf(&out, "%q=%q %d %d %d %d\n", kv.Key, kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease)
	}
	return out.String()
}

// A round trip in etcd's form gives the same: keys at every revision, leases, users. Both then go on the same, compaction and revoking of
// leases included.
func TestEtcdFileAndBack(t *testing.T) {
	for seed := range int64(4) {
		n := start(t, t.TempDir(), nil)
		users := []*eident.Part{
			{RoleAdd: &eident.RoleAdd{Name: "r"}},
			{RoleGrant: &eident.RoleGrant{Name: "r", Permission: eident.Permission{Access: eident.ReadWrite, Key: []byte("a"), End: []byte{0}}}},
			{UserAdd: &eident.UserAdd{Name: "u", Verifiers: []eident.Verifier{{Scheme: eident.Bcrypt, Data: []byte("$2a$hash")}}}},
			{UserAdd: &eident.UserAdd{Name: "w", NoPassword: true}},
			{UserGrant: &eident.UserGrant{Name: "u", Role: "r"}},
		}
		for _, p := range users {
			if _, err := n.Propose(within(t), node.LaneSystem, entry.Part{Machine: entry.MachineIdent, Body: eident.AppendPart(nil, p)}); err != nil {
				t.Fatal(err)
			}
		}
		scribble(t, n, seed, 300)
		file := saveEtcd(t, n)
		dir := t.TempDir()
		f, err := etcdfile.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		cut := t.TempDir()
		full := errors.New("no room")
		if _, err := Import(node.Config{Dir: cut}, "i1", "", f, func(func() *mident.State, func() []kvpart.AlarmState, func([]entry.Part) error) error { return full }, false); !errors.Is(err, full) {
			t.Fatalf("an import that is cut short: %v", err)
		}
		if r, err := node.Start(within(t), node.Config{Dir: cut, MemoryBytes: 64 << 20}, node.StartOptions{Name: "i1"}); err == nil {
			t.Error("an empty cluster begins in what an import left")
			r.Stop()
		}
		st, err := Import(node.Config{Dir: dir}, "i1", "", f, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Import(node.Config{Dir: dir}, "i1", "", f, nil, false); err == nil {
			t.Error("imported over data")
		}
		f.Close()
		again := start(t, dir, nil)
		same := func(when string) {
			t.Helper()
			if a, b := told(t, saveEtcd(t, n)), told(t, saveEtcd(t, again)); a != b {
				t.Fatalf("seed %d, %s: the file of the import is another one:\n%s\n%s", seed, when, a, b)
			}
			rev, compacted := n.kv.Revision()
			if r, c := again.kv.Revision(); r != rev || c != compacted {
				t.Fatalf("seed %d, %s: revision %d, compacted %d; want %d, %d", seed, when, r, c, rev, compacted)
			}
			for at := max(compacted-2, 1); at <= rev; at++ {
				if a, b := allKeys(t, n, at), allKeys(t, again, at); a != b {
					t.Fatalf("seed %d, %s: at revision %d:\n%s\n%s", seed, when, at, a, b)
				}
			}
			if a, b := leasesOf(n), leasesOf(again); a != b {
				t.Fatalf("seed %d, %s: leases %s, %s", seed, when, a, b)
			}
			a, _ := n.kv.Size()
			b, _ := again.kv.Size()
			if when == "compacted again" && a != b {
				t.Fatalf("seed %d, %s: history takes %d bytes, %d", seed, when, a, b)
			}
		}
		if st.Users != 2 || st.Roles != 1 || st.Compacted == 0 {
			t.Errorf("seed %d: %+v", seed, st)
		}
		same("imported")
		for _, m := range []*server{n, again} {
			scribble(t, m, seed+100, 150)
		}
		same("written to")
		for _, m := range []*server{n, again} {
			rev, _ := m.kv.Revision()
			for _, p := range []*kvpart.Part{{Compact: &kvpart.Compact{Revision: rev}}} {
				if _, err := m.Propose(within(t), lane, entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, p)}); err != nil {
					t.Fatal(err)
				}
			}
			for deadline := time.Now().Add(wait.Limit(t)); m.kv.Scrubbed() != rev; {
				if time.Now().After(deadline) {
					t.Fatal("compaction does not end")
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		same("compacted again")
		n.Stop()
		again.Stop()
	}
}

// A file under way is removed at the end and, after a crash, at start. One is made at a time; a disk without room ends the call and not the
// node.
func TestEtcdFileIsTemporary(t *testing.T) {
	dir := t.TempDir()
	fs := &fullDisk{FS: disk.OS()}
	n := start(t, dir, fs)
	n.put(t, "k", "v")
	f, err := n.saver.Save(within(t), "3.7.0", "3.7.0")
	if err != nil {
		t.Fatal(err)
	}
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := n.saver.Save(brief, "3.7.0", "3.7.0"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second file beside the first: %v", err)
	}
	left := func() bool {
		names, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(names, func(e os.DirEntry) bool { return e.Name() == "etcd-snapshot" })
	}
	if !left() {
		t.Error("the file is not in the data directory")
	}
	f.Close()
	if left() {
		t.Error("the file is still there")
	}
	fs.full = true
	if _, err := n.saver.Save(within(t), "3.7.0", "3.7.0"); !errors.Is(err, ErrNoRoom) {
		t.Errorf("without room: %v", err)
	}
	if left() {
		t.Error("what did not fit is still there")
	}
	fs.full = false
	n.put(t, "k", "after")
	saveEtcd(t, n)
	n.Stop()
	if err := os.MkdirAll(filepath.Join(dir, "etcd-snapshot"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "etcd-snapshot", "db"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, dir, nil)
	if left() {
		t.Error("a crash left half a file for good")
	}
}

// fullDisk says that there is no room.
type fullDisk struct {
	disk.FS
	full bool
}

func (f *fullDisk) Free(dir string) (uint64, error) {
	if f.full {
		return 1 << 20, nil
	}
	return 1 << 40, nil
}

// leasesOf lists ids and times of leases.
func leasesOf(n *server) string {
	var b strings.Builder
	for _, l := range n.kv.Leases() {
		fmt.Fprintln(&b, l.ID, l.TTL)
	}
	return b.String()
}
