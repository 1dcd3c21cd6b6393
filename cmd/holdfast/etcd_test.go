package main

import (
	"bytes"
	"context"
	"crypto/x509"
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

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/doors/kv/etcd"
	"github.com/holdfastdb/holdfast/doors/kv/etcd/flags"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/server"
)

// etcdStart brings up a member in this process from etcd's flags. The caller stops it with stop, or the test's end does.
func etcdStart(t *testing.T, args ...string) (*running, error) {
	t.Helper()
	s, err := flags.Parse(args, nil, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	su, err := etcd.Setup(all, s, server.Memory{Bytes: 128 << 20}, log)
	if err != nil {
		return nil, err
	}
	su.Node.HealthyAfter = 500 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
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
		status := etcd.Door.Alias.Run(all, args, nil, &out, &errs)
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
		if got := etcd.Door.Alias.Named([]string{argv0}); got != want {
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

func TestAddressesThatOfferSomeThingsOnly(t *testing.T) {
	httpOnly, metrics := freeAddr(t), freeAddr(t)
	dir := t.TempDir()
	t.Chdir(dir)
	args, kv := etcdAlone(t, "http", "--listen-client-http-urls=http://"+httpOnly, "--listen-metrics-urls=http://"+metrics)
	args[2] += ",unix://client.sock:1"
	r := mustStart(t, args...)
	status := func(addr, path string) int {
		client := http.Client{Timeout: wait.Limit(t)}
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
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: wait.Limit(t)})
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
