package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/doors/kv/etcd"
	etcdflags "github.com/holdfastdb/holdfast/doors/kv/etcd/flags"
	"github.com/holdfastdb/holdfast/serve/server"
)

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

// TestOperatorsReachCertificatesUnderTheNameEtcd: SIGHUP reads again what is listed here, each file once.
func TestOperatorsReachCertificatesUnderTheNameEtcd(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(t, "server", 2)
	dialCert, dialKey := a.issue(t, "client", 3)
	args, _ := etcdAlone(t, "https", "--cert-file", cert, "--key-file", key, "--listen-peer-urls=https://"+freeAddr(t),
		"--peer-cert-file", cert, "--peer-key-file", key, "--peer-client-cert-file", dialCert, "--peer-client-key-file", dialKey)
	s, err := etcdflags.Parse(args, nil, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	su, err := etcd.Setup(all, s, server.Memory{Bytes: 128 << 20}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if len(su.Certificates) != 3 {
		t.Errorf("%d certificates, want the clients', the members' and the one this member shows", len(su.Certificates))
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
	client := http.Client{Transport: &http.Transport{TLSClientConfig: conf.Clone()}}
	defer client.CloseIdleConnections()
	res, err := client.Get("https://" + addr + "/version")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == 200
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
