package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/holdfastdb/holdfast/cmd/holdfast/etcd"
	"github.com/holdfastdb/holdfast/cmd/holdfast/etcdflags"
	"github.com/holdfastdb/holdfast/cmd/holdfast/server"
	"github.com/holdfastdb/holdfast/etcdfile"
)

// etcdStart brings up a member in this process from etcd's flags. The caller stops it with stop, or the test's end does.
func etcdStart(t *testing.T, args ...string) (*running, error) {
	t.Helper()
	s, err := etcdflags.Parse(args, nil, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	su, err := etcd.Setup(all, s, 64<<20, log)
	if err != nil {
		return nil, err
	}
	su.Node.HealthyAfter = 500 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r := &running{kvAddr: s.ListenClient[0].Addr, data: s.DataDir}
	if r.Server, err = server.Start(ctx, su, log); err != nil {
		return nil, err
	}
	t.Cleanup(r.stop)
	return r, nil
}

// etcdAlone is the flags of a member alone on free ports, with the given scheme for clients.
func etcdAlone(t *testing.T, scheme string, more ...string) (args []string, kv string) {
	kv = freeAddr(t)
	peer := "http://" + freeAddr(t)
	return append([]string{"--name=n1", "--data-dir=" + t.TempDir(), "--listen-client-urls=" + scheme + "://" + kv,
		"--advertise-client-urls", scheme + "://" + kv, "-listen-peer-urls=" + peer, "-initial-advertise-peer-urls", peer,
		"--initial-cluster=n1=" + peer}, more...), kv
}

func mustStart(t *testing.T, args ...string) *running {
	t.Helper()
	r, err := etcdStart(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheVersionIsEtcdsAndTheCommandLineIsJudgedAsItDoes(t *testing.T) {
	run := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		status := etcd.Run(all, args, nil, &out, &errs)
		return status, out.String(), errs.String()
	}
	if status, out, _ := run("--version"); status != 0 || !strings.HasPrefix(out, "etcd Version: 3.7.3\n") || !strings.Contains(out, runtime.Version()) {
		t.Errorf("--version: %d %q", status, out)
	}
	if status, out, _ := run("-h"); status != 0 || !strings.Contains(out, "--initial-cluster-state 'new'") {
		t.Errorf("-h: %d %q", status, out)
	}
	for args, want := range map[string]struct {
		status int
		text   string
	}{
		"--bogus=1":           {2, "etcd: flag provided but not defined: -bogus"},
		"--election-timeout=": {2, "election-timeout"},
		"--force-new-cluster": {1, "holdfast snapshot restore"},
		"serve":               {1, `"serve" is not a valid flag`},
		"grpc-proxy start":    {1, "no proxies"},
		"--auto-tls --listen-client-urls=http://127.0.0.1:1": {1, "--advertise-client-urls is required"},
	} {
		if status, _, errs := run(strings.Fields(args)...); status != want.status || !strings.Contains(errs, want.text) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: %d %q", args, status, errs)
		}
	}
	if status, out, _ := execute(nil, "etcd", "--version"); status != 0 || !strings.HasPrefix(out, "etcd Version: 3.7.3\n") {
		t.Errorf("holdfast etcd --version: %d %q", status, out)
	}
}

func TestUnderTheNameEtcdTheProgramTakesEtcdsFlags(t *testing.T) {
	for argv0, want := range map[string]bool{"etcd": true, "/usr/bin/etcd": true, "holdfast": false, "./etcd-holdfast": false, "": false} {
		if got := etcd.Named([]string{argv0}); got != want {
			t.Errorf("%q: %t", argv0, got)
		}
	}
}

func TestARestartIgnoresHowTheClusterBegan(t *testing.T) {
	t.Parallel()
	args, kv := etcdAlone(t, "http")
	r := mustStart(t, args...)
	r.kvAddr = kv
	if _, err := r.client(t, nil).Put(timely(t), "a", "1"); err != nil {
		t.Fatal(err)
	}
	ms, err := r.client(t, nil).MemberList(timely(t))
	if err != nil || len(ms.Members) != 1 {
		t.Fatal(ms, err)
	}
	before := ms.Members[0]
	r.stop()

	// Another list, another advertised address: neither would be let through on an empty directory.
	args = append(args, "--initial-cluster=other=http://127.0.0.1:1", "--initial-advertise-peer-urls=http://127.0.0.1:2", "--initial-cluster-state=existing",
		"--initial-cluster-token=other")
	r = mustStart(t, args...)
	c := r.client(t, nil)
	if got, err := c.Get(timely(t), "a"); err != nil || len(got.Kvs) != 1 {
		t.Errorf("a is %v, %v", got, err)
	}
	ms, err = c.MemberList(timely(t))
	if err != nil || len(ms.Members) != 1 || ms.Members[0].ID != before.ID || strings.Join(ms.Members[0].PeerURLs, ",") != strings.Join(before.PeerURLs, ",") {
		t.Errorf("the member was %v and is %v, %v", before, ms, err)
	}
}

func TestAMemberJoinsOnceItWasAdded(t *testing.T) {
	t.Parallel()
	args, _ := etcdAlone(t, "http", "--strict-reconfig-check=false")
	first := mustStart(t, args...)
	c := first.client(t, nil)
	peer := "http://" + freeAddr(t)
	firstPeer := args[7] // what it advertises
	second, kv := etcdAlone(t, "http", "--name=n2", "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster=n1="+firstPeer+",n2="+peer, "--initial-cluster-state=existing")
	if _, err := etcdStart(t, second...); err == nil || !strings.Contains(err.Error(), "etcdctl member add") {
		t.Fatalf("a member that nobody added: %v", err)
	}
	if _, err := c.MemberAdd(timely(t), []string{peer}); err != nil {
		t.Fatal(err)
	}
	r := mustStart(t, second...)
	r.kvAddr = kv
	if _, err := r.client(t, nil).Put(timely(t), "a", "1"); err != nil {
		t.Errorf("put through the new member: %v", err)
	}
	ms, err := c.MemberList(timely(t))
	if err != nil || len(ms.Members) != 2 {
		t.Errorf("members %v, %v", ms, err)
	}
}

func TestTwoMembersBeginACluster(t *testing.T) {
	t.Parallel()
	peers := []string{"http://" + freeAddr(t), "http://" + freeAddr(t)}
	cluster := "--initial-cluster=n1=" + peers[0] + ",n2=" + peers[1]
	started := make(chan *running, 2)
	for i, p := range peers {
		args, _ := etcdAlone(t, "http", "--name="+fmt.Sprintf("n%d", i+1), "--listen-peer-urls="+p, "--initial-advertise-peer-urls="+p, cluster)
		go func() {
			r, err := etcdStart(t, args...)
			if err != nil {
				t.Error(err)
			}
			started <- r
		}()
	}
	for range peers {
		if r := <-started; r != nil {
			if _, err := r.client(t, nil).Put(timely(t), "a", "1"); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAMemberIsReachedWhereItAdvertisesAndListensElsewhere(t *testing.T) {
	t.Parallel()
	// A relay stands where n2 says it is.
	behind, front := freeAddr(t), freeAddr(t)
	relay(t, front, behind)
	p1 := "http://" + freeAddr(t)
	cluster := "--initial-cluster=n1=" + p1 + ",n2=http://" + front
	args1, _ := etcdAlone(t, "http", "--listen-peer-urls="+p1, "--initial-advertise-peer-urls="+p1, cluster)
	args2, _ := etcdAlone(t, "http", "--name=n2", "--listen-peer-urls=http://"+behind, "--initial-advertise-peer-urls=http://"+front, cluster)
	second := make(chan *running, 1)
	go func() {
		r, err := etcdStart(t, args2...)
		if err != nil {
			t.Error(err)
		}
		second <- r
	}()
	mustStart(t, args1...)
	if r := <-second; r != nil {
		if _, err := r.client(t, nil).Put(timely(t), "a", "1"); err != nil {
			t.Error(err)
		}
	}
}

// relay passes connections to from on to to until the test ends.
func relay(t *testing.T, from, to string) {
	t.Helper()
	l, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer out.Close()
				go io.Copy(out, in)
				io.Copy(in, out)
			}()
		}
	}()
}

// Clients are asked for a certificate if it was asked for or an authority is named, and not otherwise.
func TestWhoMustShowACertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	ca := filepath.Join(a.dir, "ca.pem")
	cert, key := a.issue(t, "server", 2)
	aliceCert, aliceKey := a.issue(t, "alice", 3)
	bobCert, bobKey := a.issue(t, "bob", 4)
	alice, bob, nobody := a.client(t, aliceCert, aliceKey), a.client(t, bobCert, bobKey), a.client(t, "", "")
	crl := a.revoke(t, 4)
	for _, tc := range []struct {
		flags               []string
		nobody, alice, bobs bool
	}{
		{nil, true, true, true},
		{[]string{"--trusted-ca-file", ca}, false, true, true},
		{[]string{"--trusted-ca-file", ca, "--client-cert-auth"}, false, true, true},
		{[]string{"--trusted-ca-file", ca, "--client-crl-file", crl}, false, true, false},
		{[]string{"--trusted-ca-file", ca, "--client-cert-allowed-hostname", "127.0.0.1"}, false, true, true},
		{[]string{"--trusted-ca-file", ca, "--client-cert-allowed-hostname", "example.com"}, false, false, false},
	} {
		args, _ := etcdAlone(t, "https", append([]string{"--cert-file", cert, "--key-file", key}, tc.flags...)...)
		r := mustStart(t, args...)
		for _, c := range []struct {
			who  string
			conf *tls.Config
			want bool
		}{{"nobody", nobody, tc.nobody}, {"alice", alice, tc.alice}, {"bob", bob, tc.bobs}} {
			if got := answered(r.kvAddr, c.conf); got != c.want {
				t.Errorf("%q: %s is answered: %t", tc.flags, c.who, got)
			}
		}
		r.stop()
	}
}

func TestOneAddressInBothSchemes(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue(t, "server", 2)
	args, kv := etcdAlone(t, "https", "--cert-file", cert, "--key-file", key)
	other := freeAddr(t)
	args[2] = fmt.Sprintf("--listen-client-urls=http://%s,https://%s,http://%s", kv, kv, other)
	mustStart(t, args...)
	if !answered(kv, a.client(t, "", "")) {
		t.Error("https is not answered")
	}
	for _, addr := range []string{kv, other} {
		res, err := http.Get("http://" + addr + "/version")
		if err != nil {
			t.Error(err)
			continue
		}
		if res.Body.Close(); res.StatusCode != 200 {
			t.Errorf("http://%s answers %s", addr, res.Status)
		}
	}
}

func TestMetricsWithoutTheirCertificateAreRefusedInEtcdsWords(t *testing.T) {
	t.Parallel()
	args, _ := etcdAlone(t, "http", "--listen-metrics-urls=https://"+freeAddr(t))
	const words = "client TLS key/cert (--cert-file, --key-file) must be provided for metrics secure url"
	if _, err := etcdStart(t, args...); err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %q", err, words)
	}
}

// answered reports whether /version can be asked of an address.
func answered(addr string, conf *tls.Config) bool {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: conf.Clone()}, Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	res, err := client.Get("https://" + addr + "/version")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == 200
}

// revoke writes a list that names one serial number.
func (a *authority) revoke(t *testing.T, serial int64) string {
	t.Helper()
	der, err := x509.CreateRevocationList(nil, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour),
		RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: big.NewInt(serial), RevocationTime: time.Now()}}}, a.Cert, a.Key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(a.dir, "revoked.crl")
	if err := os.WriteFile(path, der, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMembersWithTheirOwnCertificatesAcceptEachOther(t *testing.T) {
	t.Parallel()
	peers := []string{"https://" + freeAddr(t), "https://" + freeAddr(t), "https://" + freeAddr(t)}
	cluster := "--initial-cluster=n1=" + peers[0] + ",n2=" + peers[1] + ",n3=" + peers[2]
	started := make(chan *running, 3)
	for i, p := range peers {
		args, _ := etcdAlone(t, "https", "--auto-tls", "--peer-auto-tls", "--name="+fmt.Sprintf("n%d", i+1), "--listen-peer-urls="+p,
			"--initial-advertise-peer-urls="+p, cluster)
		go func() {
			r, err := etcdStart(t, args...)
			if err != nil {
				t.Error(err)
			}
			started <- r
		}()
	}
	for range peers {
		r := <-started
		if r == nil {
			continue
		}
		pem, err := os.ReadFile(filepath.Join(r.data, "fixtures", "client", "cert.pem"))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		if _, err := r.client(t, &tls.Config{RootCAs: roots}).Put(timely(t), "a", "1"); err != nil {
			t.Error(err)
		}
	}
}

func TestAddressesThatOfferSomeThingsOnly(t *testing.T) {
	httpOnly, metrics := freeAddr(t), freeAddr(t)
	dir := t.TempDir()
	t.Chdir(dir)
	args, kv := etcdAlone(t, "http", "--listen-client-http-urls=http://"+httpOnly, "--listen-metrics-urls=http://"+metrics)
	args[2] += ",unix://client.sock:1"
	r := mustStart(t, args...)
	status := func(addr, path string) int {
		client := http.Client{Timeout: 5 * time.Second}
		defer client.CloseIdleConnections()
		res, err := client.Get("http://" + addr + path)
		if err != nil {
			return 0
		}
		res.Body.Close()
		return res.StatusCode
	}
	for _, c := range []struct {
		addr, path string
		want       int
	}{{httpOnly, "/version", 200}, {httpOnly, "/metrics", 200}, {metrics, "/metrics", 200}, {metrics, "/health", 200}, {metrics, "/v3/kv/range", 404}, {kv, "/version", 0}} {
		if got := status(c.addr, c.path); got != c.want && (c.want != 0 || got == 200) {
			t.Errorf("%s%s: %d", c.addr, c.path, got)
		}
	}
	for _, endpoint := range []string{"http://" + kv, "unix://" + filepath.Join(dir, "client.sock:1")} {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Put(timely(t), "a", endpoint); err != nil {
			t.Errorf("%s: %v", endpoint, err)
		}
		c.Close()
	}
	r.stop()
	if _, err := os.Stat("client.sock:1"); err == nil {
		t.Error("the socket file is left behind")
	}
}

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

// TestTheDataOfAnEtcdIsTakenOver: an etcd's database and log are brought over at the first start and never again; its files stay as
// they are, and what a start cannot take over it refuses.
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
