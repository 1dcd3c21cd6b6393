package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/serve/admin"
)

func TestOperatorsCommandsAgainstARunningServer(t *testing.T) {
	t.Parallel()
	r := serveFlags(t, filepath.Join(t.TempDir(), "one"), "--name", "n1")
	c := r.client(t, nil)
	for _, k := range []string{"a", "b", "c"} {
		if _, err := c.Put(timely(t), k, "1"); err != nil {
			t.Fatal(err)
		}
	}
	lease, err := c.Grant(timely(t), 1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(timely(t), "held", "1", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(timely(t), "b"); err != nil {
		t.Fatal(err)
	}
	ok := func(args ...string) string {
		t.Helper()
		status, out, errs := execute(map[string]string{"HOLDFAST_ADMIN": r.adminAddr}, args...)
		if status != 0 {
			t.Fatalf("%v: status %d: %s", args, status, errs)
		}
		return out
	}
	has := func(out string, wants ...string) {
		t.Helper()
		for _, w := range wants {
			if !strings.Contains(out, w) {
				t.Errorf("no %q in\n%s", w, out)
			}
		}
	}
	has(ok("status"), "n1 (", "ready", "revision 6", "leader", "sync", r.kvAddr)
	has(ok("status", "--json"), `"revision": 6`, `"role": "leader"`)
	has(ok("member", "list"), "n1", "leader", "ok")
	var st admin.Status
	if err := json.Unmarshal([]byte(ok("status", "--json")), &st); err != nil {
		t.Fatal(err)
	}
	for _, s := range st.Steps { // four puts and a delete through every step of a write
		if s.Total < 5 && s.Step != "replicate" {
			t.Errorf("step %s counted %d", s.Step, s.Total)
		}
	}

	dir := t.TempDir()
	file := filepath.Join(dir, "backup.snap")
	has(ok("snapshot", "save", file), "revision 6, 3 keys")
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("beside the snapshot lies %v", names)
	}
	if status, _, errs := execute(nil, "member", "add", "--admin", r.adminAddr, "127.0.0.1:9"); status != 1 || !strings.Contains(errs, "start this one with --peer first") {
		t.Errorf("adding a member to one that nobody can reach: status %d: %s", status, errs)
	}
	has(ok("snapshot", "status", file), "revision", "6", "keys", "3", "sha256")
	has(ok("snapshot", "status", "--json", file), `"keys": 3`, `"revision": 6`)

	stream, err := c.Snapshot(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	etcds, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	byEtcd := filepath.Join(dir, "etcdctl.snap")
	if err := os.WriteFile(byEtcd, etcds, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"snapshot", "status", byEtcd}, {"snapshot", "restore", byEtcd, "--data", filepath.Join(dir, "never")}} {
		if status, _, errs := execute(nil, args...); status != 1 || !strings.Contains(errs, "holdfast import --from "+byEtcd) {
			t.Errorf("%v of a file for etcd: status %d: %s", args, status, errs)
		}
	}
	imported := filepath.Join(dir, "imported")
	has(ok("import", "--from", byEtcd, "--data", imported, "--name", "i1"), "revision 6 with all its history: 3 keys", "holdfast serve --data "+imported)
	if status, _, errs := execute(nil, "import", "--from", byEtcd, "--data", imported); status != 1 || !strings.Contains(errs, "not empty") {
		t.Errorf("importing over data: status %d: %s", status, errs)
	}
	if status, _, errs := execute(nil, "import", "--from", byEtcd); status != 2 || !strings.Contains(errs, "--data DIR") {
		t.Errorf("importing a file without a directory: status %d: %s", status, errs)
	}
	ic := serveFlags(t, imported).client(t, nil)
	if got, err := ic.Get(timely(t), "", clientv3.WithFromKey()); err != nil || len(got.Kvs) != 3 || got.Header.Revision != 6 {
		t.Errorf("imported: %v, %v", got, err)
	}

	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad.snap")
	for name, damaged := range map[string][]byte{"cut": b[:len(b)-1], "longer": append(bytes.Clone(b), 0), "flipped": flip(b), "empty": nil} {
		if err := os.WriteFile(bad, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(dir, "never")
		for _, args := range [][]string{{"snapshot", "status", bad}, {"snapshot", "restore", bad, "--data", target}} {
			if status, _, errs := execute(nil, args...); status != 1 || !strings.Contains(errs, "another copy") {
				t.Errorf("%s snapshot, %v: status %d: %s", name, args, status, errs)
			}
		}
		if _, err := os.Stat(target); err == nil {
			t.Errorf("%s snapshot: a directory was made", name)
		}
	}
	for name, damaged := range map[string][]byte{"cut": etcds[:len(etcds)-1], "cut more": etcds[:len(etcds)-512], "flipped": flip(etcds), "empty": nil, "ours": b} {
		if err := os.WriteFile(bad, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(dir, "never")
		status, _, errs := execute(nil, "import", "--from", bad, "--data", target)
		if _, err := os.Stat(target); status != 1 || !strings.Contains(errs, "etcdctl snapshot save") || strings.Count(errs, "\n") != 1 || err == nil {
			t.Errorf("%s file of etcd's: status %d: %s, %v", name, status, errs, err)
		}
	}

	restored := filepath.Join(dir, "restored")
	has(ok("snapshot", "restore", file, "--data", restored, "--name", "r1"), "3 keys", "holdfast serve --data "+restored)
	if status, _, errs := execute(nil, "snapshot", "restore", file, "--data", restored); status != 1 || !strings.Contains(errs, "not empty") {
		t.Errorf("restoring over data: status %d: %s", status, errs)
	}
	oldCluster, oldMember := r.Node().IDs()
	again := serveFlags(t, restored)
	if cluster, member := again.Node().IDs(); cluster == oldCluster || member == oldMember {
		t.Error("the restored server took the ids of the old one")
	}
	rc := again.client(t, nil)
	got, err := rc.Get(timely(t), "", clientv3.WithFromKey())
	if err != nil || len(got.Kvs) != 3 || got.Header.Revision < 1_000_000_006 {
		t.Errorf("restored: %v, %v", got, err)
	}
	if _, err := rc.Get(timely(t), "a", clientv3.WithRev(5)); err == nil {
		t.Error("a revision of the old cluster is still answered")
	}
	if l, err := rc.TimeToLive(timely(t), lease.ID); err != nil || l.TTL < 990 {
		t.Errorf("the restored lease has %v, %v", l, err)
	}

	// A server holds its store, so these want it stopped; its log can be read while it lies still.
	if status, _, errs := execute(nil, "inspect", "store", r.data); status != 1 || !strings.Contains(errs, "stop that server") {
		t.Errorf("inspecting a store in use: status %d: %s", status, errs)
	}
	data := r.data
	r.stop()
	has(ok("inspect", "wal", data), "entry", "records with", "ends at")
	has(ok("inspect", "wal", data, "--commands"), "kv.put a=1", "kv.delete b", "member.publish", "empty: a new leader's first")
	has(ok("inspect", "entry", data, "3"), "3@2", "3.0@2 ")
	if status, _, errs := execute(nil, "inspect", "entry", data, "9999"); status != 1 || !strings.Contains(errs, "no entry 9999; the log holds 2 to") {
		t.Errorf("an entry that is not there: status %d: %s", status, errs)
	}
	has(ok("inspect", "store", data), "PREFIX", "applied index")
	again.stop()
	has(ok("inspect", "store", restored, "--prefix", "mm"), "member", "name=r1")
}

func flip(b []byte) []byte {
	c := bytes.Clone(b)
	c[len(c)/2] ^= 1
	return c
}

func TestCommandsAgainstNoServerSaySo(t *testing.T) {
	addr := freeAddr(t)
	for _, args := range [][]string{{"status"}, {"member", "list"}, {"member", "add", "127.0.0.1:1"}, {"member", "remove", "n1"}, {"snapshot", "save", filepath.Join(t.TempDir(), "f")}} {
		status, out, errs := execute(nil, append(args, "--admin", addr)...)
		if status != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "is the server running") {
			t.Errorf("%v: status %d: %s%s", args, status, out, errs)
		}
	}
	// Something else listens there.
	other := &http.Server{Addr: addr, Handler: http.NotFoundHandler()}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	go other.Serve(l)
	defer other.Close()
	if status, _, errs := execute(nil, "status", "--admin", addr); status != 1 || !strings.Contains(errs, "is that the --admin address") {
		t.Errorf("status %d: %s", status, errs)
	}
}
