package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/server"
)

// asks puts a question to a member's peer port under a certificate.
func asks(t *testing.T, addr string, conf *tls.Config) error {
	t.Helper()
	net, err := peer.ListenTCP("", peer.TCPOptions{TLS: conf})
	if err != nil {
		t.Fatal(err)
	}
	defer net.Close()
	_, err = net.Ask(timely(t), addr, []byte(`{"kind":"hello","peer_addr":"127.0.0.1:1"}`))
	return err
}

// A client's certificate opens no member's port, and as long as it cannot be told from a member's, authentication is not to be had.
func TestMembersAreNotClients(t *testing.T) {
	t.Parallel()
	a, members := newAuthority(t), newAuthority(t)
	cert, key := a.issue(t, "server", 2)
	memberCert, memberKey := members.issue(t, "member", 3)
	ca, memberCA := filepath.Join(a.dir, "ca.pem"), filepath.Join(members.dir, "ca.pem")
	for _, c := range []struct {
		name    string
		flags   []string
		enable  bool
		refused []tls.Certificate // by the peer port
		taken   tls.Certificate
	}{
		{"one authority", nil, false, []tls.Certificate{a.Issue("alice", onlyClient)}, a.Issue("server")},
		{"one authority and names", []string{"--peer-tls-allowed-names", "server,other.example"}, true,
			[]tls.Certificate{a.Issue("alice", onlyClient), a.Issue("bob")}, a.Issue("server")},
		{"an authority of the members' own", []string{"--peer-tls-ca", memberCA, "--peer-tls-cert", memberCert, "--peer-tls-key", memberKey}, true,
			[]tls.Certificate{a.Issue("server"), members.Issue("elsewhere", elsewhere)}, members.Issue("m2")},
		{"the same authority in two files", []string{"--peer-tls-ca", copyOf(t, ca)}, false, []tls.Certificate{a.Issue("alice", onlyClient)}, a.Issue("server")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			peerAddr := freeAddr(t)
			r := serveLogging(t, &synced{w: &log}, t.TempDir(), append([]string{"--tls-cert", cert, "--tls-key", key, "--tls-ca", ca, "--peer", peerAddr}, c.flags...)...)
			for i, bad := range c.refused {
				if err := asks(t, peerAddr, both(a, members, bad)); err == nil {
					t.Errorf("certificate %d was taken for a member's", i)
				}
			}
			if err := asks(t, peerAddr, both(a, members, c.taken)); err != nil {
				t.Errorf("a member's certificate: %v", err)
			}
			clientCert, clientKey := a.issue(t, "root", 4)
			client := r.client(t, a.client(t, clientCert, clientKey))
			for _, step := range []func() error{
				func() error { _, err := client.UserAdd(timely(t), "root", "pw"); return err },
				func() error { _, err := client.UserGrantRole(timely(t), "root", "root"); return err },
			} {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			_, err := client.AuthEnable(timely(t))
			if (err == nil) != c.enable || err != nil && !strings.Contains(err.Error(), "--peer-tls-allowed-names") {
				t.Errorf("auth enable: %v", err)
			}
			r.stop()
			if warned := strings.Contains(log.String(), "--peer-tls-allowed-names"); warned == c.enable {
				t.Errorf("warned %v at the start", warned)
			}
		})
	}
}

// A cluster that was begun with one authority for all goes on. So does one with names too, and one whose members have an authority of their
// own.
func TestClustersBeginUnderEveryRule(t *testing.T) {
	t.Parallel()
	a, members := newAuthority(t), newAuthority(t)
	cert, key := a.issue(t, "server", 2)
	memberCert, memberKey := members.issue(t, "member", 3)
	for name, flags := range map[string][]string{
		"one authority":                       nil,
		"one authority and names":             {"--peer-tls-allowed-names", "localhost"},
		"an authority of the members' own":    {"--peer-tls-ca", filepath.Join(members.dir, "ca.pem"), "--peer-tls-cert", memberCert, "--peer-tls-key", memberKey},
		"an authority of their own and names": {"--peer-tls-ca", filepath.Join(members.dir, "ca.pem"), "--peer-tls-cert", memberCert, "--peer-tls-key", memberKey, "--peer-tls-allowed-names", "member"},
	} {
		t.Run(name, func(t *testing.T) {
			var list []string
			for i := range 3 {
				list = append(list, fmt.Sprintf("n%d=%s", i, freeAddr(t)))
			}
			var wg sync.WaitGroup
			for i := range 3 {
				cfg, err := load(append([]string{"--data", t.TempDir(), "--kv", freeAddr(t), "--admin", "off", "--name", fmt.Sprintf("n%d", i), "--peers", strings.Join(list, ","),
					"--tls-cert", cert, "--tls-key", key, "--tls-ca", filepath.Join(a.dir, "ca.pem")}, flags...)...)
				if err != nil {
					t.Fatal(err)
				}
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
					defer cancel()
					log := slog.New(slog.DiscardHandler)
					su, err := cfg.Setup(log)
					if err != nil {
						t.Error(err)
						return
					}
					s, err := server.Start(ctx, su, log)
					if err != nil {
						t.Errorf("n%d: %v", i, err)
						return
					}
					t.Cleanup(func() { s.Shutdown() })
				})
			}
			wg.Wait()
		})
	}
}

func onlyClient(c *x509.Certificate) {
	c.IPAddresses, c.DNSNames, c.ExtKeyUsage = nil, nil, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}

func elsewhere(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"elsewhere.example"} }

// both trusts two authorities and shows one certificate.
func both(a, b *authority, cert tls.Certificate) *tls.Config {
	pool := a.Pool()
	pool.AddCert(b.Cert)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}
}

func copyOf(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	to := filepath.Join(t.TempDir(), "copy.pem")
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// synced lets several goroutines write.
type synced struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *synced) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
