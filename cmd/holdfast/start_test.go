package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/cmd/holdfast/server"
	"github.com/holdfastdb/holdfast/door/admin"
	"github.com/holdfastdb/holdfast/internal/certtest"
)

// given are the addresses freeAddr has returned.
var given sync.Map

// freeAddr is an address nobody listens on right now, and no other test of this process was given.
func freeAddr(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close()
		if _, taken := given.LoadOrStore(addr, true); !taken {
			return addr
		}
	}
}

// running is a server started from a command line's flags.
type running struct {
	*server.Server
	kvAddr, adminAddr, data string
}

// load reads the arguments of `holdfast serve`.
func load(args ...string) (*server.Config, error) {
	return server.Load(all, args, func(string) string { return "" })
}

// serveFlags starts a server in this process; the test's end stops it.
func serveFlags(t *testing.T, data string, args ...string) *running {
	t.Helper()
	return serveLogging(t, io.Discard, data, args...)
}

func (r *running) stop() {
	if r.Server != nil {
		r.Server.Shutdown()
		r.Server = nil
	}
}

func (r *running) client(t *testing.T, conf *tls.Config) *clientv3.Client {
	t.Helper()
	scheme := "http://"
	if conf != nil {
		scheme = "https://"
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{scheme + r.kvAddr}, TLS: conf, DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// timely is a context for one request of a test.
func timely(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestAServerServesStopsAndStartsAgainWithItsData(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	r := serveFlags(t, data)
	if _, err := r.client(t, nil).Put(timely(t), "a", "1"); err != nil {
		t.Fatal(err)
	}
	res, err := http.Get("http://" + r.adminAddr + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("readyz answers %s although every door serves", res.Status)
	}
	r.stop()
	if _, err := net.Dial("tcp", r.kvAddr); err == nil {
		t.Error("a stopped server still listens")
	}

	r = serveFlags(t, data)
	got, err := r.client(t, nil).Get(timely(t), "a")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "1" {
		t.Errorf("after the restart a is %v, %v", got, err)
	}
}

func TestAStartThatIsRefusedSaysWhyAndChangesNothing(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r := serveFlags(t, filepath.Join(t.TempDir(), "used"))
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "identity.json"), []byte(`{"format":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"kv port in use", []string{"--data", fresh, "--admin", "off", "--kv", taken.Addr().String()}, "port is in use; stop what listens there or give another --kv"},
		{"admin port in use", []string{"--data", fresh, "--admin", taken.Addr().String(), "--kv", "off"}, "give another --admin"},
		{"peer port in use", []string{"--data", fresh, "--admin", "off", "--kv", "off", "--peer", taken.Addr().String()}, "give another --peer"},
		{"no such address", []string{"--data", fresh, "--admin", "off", "--kv", "203.0.113.77:2379", "--insecure"}, "no such address; give --kv an address of this machine"},
		{"directory in use", []string{"--data", r.data, "--admin", "off", "--kv", "off"}, "another process uses it; stop that one or give another --data"},
		{"directory of another version", []string{"--data", foreign, "--admin", "off", "--kv", "off"}, "data format 99"},
		{"key unreadable", []string{"--data", fresh, "--admin", "off", "--kv", "off", "--tls-cert", fresh, "--tls-key", fresh}, "give a PEM file"},
	} {
		status, out, errs := execute(nil, append([]string{"serve"}, tc.args...)...)
		if status != 1 || out != "" || strings.Count(errs, "\nholdfast: ")+strings.Count(errs, "holdfast: ") < 1 || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: status %d: %s", tc.name, status, errs)
		}
		if last := errs[strings.LastIndex(strings.TrimSpace(errs), "\n")+1:]; !strings.HasPrefix(last, "holdfast: ") {
			t.Errorf("%s: the last line is %s", tc.name, last)
		}
		if _, err := os.Stat(fresh); err == nil {
			t.Errorf("%s: the data directory was made", tc.name)
		}
	}
	if names, _ := os.ReadDir(foreign); len(names) != 1 {
		t.Errorf("the directory of another version has now %v", names)
	}
}

// authority signs certificates for a test and writes them to files.
type authority struct {
	*certtest.Authority
	dir string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{certtest.NewAuthority("test authority"), t.TempDir()}
	if _, err := a.WriteFile(a.dir); err != nil {
		t.Fatal(err)
	}
	return a
}

// issue writes NAME.pem and NAME-key.pem, valid for loopback, as a server and as a client.
func (a *authority) issue(t *testing.T, name string, serial int64) (cert, key string) {
	t.Helper()
	cert, key, err := certtest.WriteFiles(a.dir, name, a.Issue(name, certtest.Serial(serial)))
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// client is the configuration of a client with its own certificate, or with none.
func (a *authority) client(t *testing.T, cert, key string) *tls.Config {
	t.Helper()
	c := a.Config()
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

func TestWithAnAuthorityEveryClientMustShowACertificateAndARenewedOneIsTaken(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue(t, "server", 2)
	r := serveFlags(t, t.TempDir(), "--tls-cert", cert, "--tls-key", key, "--tls-ca", filepath.Join(a.dir, "ca.pem"))
	clientCert, clientKey := a.issue(t, "client", 3)
	if _, err := r.client(t, a.client(t, clientCert, clientKey)).Put(timely(t), "a", "1"); err != nil {
		t.Fatalf("a client with a certificate: %v", err)
	}

	stranger := newAuthority(t)
	strangeCert, strangeKey := stranger.issue(t, "stranger", 4)
	for name, conf := range map[string]*tls.Config{"without a certificate": a.client(t, "", ""), "of another authority": a.client(t, strangeCert, strangeKey)} {
		c, err := tls.Dial("tcp", r.kvAddr, conf)
		if err == nil { // in TLS 1.3 the refusal arrives with the first read
			c.SetDeadline(time.Now().Add(5 * time.Second))
			_, err = c.Read(make([]byte, 1))
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "tls") && err != io.EOF {
			t.Errorf("a client %s: %v", name, err)
		}
	}

	serial := func() int64 {
		c, err := tls.Dial("tcp", r.kvAddr, a.client(t, clientCert, clientKey))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if n := serial(); n != 2 {
		t.Fatalf("the server shows certificate %d", n)
	}
	a.issue(t, "server", 5)
	deadline := time.Now().Add(5 * time.Second)
	for serial() != 5 {
		if time.Now().After(deadline) {
			t.Fatal("the renewed certificate is not shown")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

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
