package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/server"
)

// freeAddr is an address without a listener, that no other test of this process was given, and that no outgoing connection takes.
func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := proctest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// running is a server started from a command line's flags.
type running struct {
	*server.Server
	kvAddr, adminAddr, data string

	setup *server.Setup
}

// load reads the arguments of `holdfast serve`. Where they name no memory it is 256 MiB, so that no test depends on the machine's.
func load(args ...string) (*server.Config, error) {
	return server.Load(all, args, func(name string) string {
		if name == "HOLDFAST_MEMORY" {
			return "256MiB"
		}
		return ""
	})
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
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{scheme + r.kvAddr}, TLS: conf, DialTimeout: wait.Limit(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// timely is a context for one request of a test.
func timely(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
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
		{"saga port in use", []string{"--data", fresh, "--admin", "off", "--saga", taken.Addr().String()}, "port is in use; stop what listens there or give another --saga"},
		{"saga port over gRPC in use", []string{"--data", fresh, "--admin", "off", "--saga", "127.0.0.1:0", "--saga-grpc", taken.Addr().String()}, "give another --saga-grpc"},
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
			c.SetDeadline(time.Now().Add(wait.Limit(t)))
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
	deadline := time.Now().Add(wait.Limit(t))
	for serial() != 5 {
		if time.Now().After(deadline) {
			t.Fatal("the renewed certificate is not shown")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestANewServerIsReadyAtItsLevel: what the newest level brought is there for the first client of a server that has just been founded.
func TestANewServerIsReadyAtItsLevel(t *testing.T) {
	t.Parallel()
	for range 3 {
		r := serveFlags(t, t.TempDir())
		if at, known := r.Node().ClusterLevel(), r.Node().KnownLevel(); at != known {
			t.Errorf("ready at level %d of %d", at, known)
		}
	}
	if held := serveFlags(t, t.TempDir(), "--hold-level"); held.Node().ClusterLevel() != 0 {
		t.Error("--hold-level does not hold the level")
	}
}
