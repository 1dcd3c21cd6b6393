package main

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// believes writes a file of these authorities.
func believes(t *testing.T, file string, all ...*certtest.Authority) {
	t.Helper()
	var text []byte
	for _, a := range all {
		one, err := a.WriteFile(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(one)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// sslRequest has a server of MySQL's protocol go on over TLS.
func sslRequest(c net.Conn) error {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, c, int64(head[0])|int64(head[1])<<8|int64(head[2])<<16); err != nil {
		return err
	}
	b := make([]byte, 36)
	b[0], b[3] = 32, 1
	binary.LittleEndian.PutUint32(b[4:], 0x200|0x800|0x8000|0x80000)
	binary.LittleEndian.PutUint32(b[8:], 1<<24)
	b[12] = 45
	_, err := c.Write(b)
	return err
}

// TestADroppedAuthorityEndsItsConnections at every door: SIGHUP ends each connection that would be refused as a new one, and leaves the
// others alone.
func TestADroppedAuthorityEndsItsConnections(t *testing.T) {
	t.Parallel()
	stays, goes := newAuthority(t), newAuthority(t)
	cert, key := stays.issue(t, "server", 2)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	believes(t, ca, stays.Authority, goes.Authority)
	tlog, saga, sagaGRPC, sql, admin := freeAddr(t), freeAddr(t), freeAddr(t), freeAddr(t), freeAddr(t)
	out := &said{}
	r := serveLogging(t, out, t.TempDir(), "--tls-cert", cert, "--tls-key", key, "--tls-ca", ca, "--tlog", tlog, "--saga", saga, "--saga-grpc", sagaGRPC, "--sql", sql,
		"--admin", strings.Replace(admin, "127.0.0.1", "0.0.0.0", 1)) // on loopback alone operators need no TLS
	type open struct {
		*tls.Conn
		r *bufio.Reader
	}
	get := func(c open, path string) error {
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
			return err
		}
		res, err := http.ReadResponse(c.r, nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
	const h2, mysql = "over h2", "over MySQL's protocol"
	doors := map[string]struct{ at, speaks string }{"kv": {r.kvAddr, "/version"}, "kv over gRPC": {r.kvAddr, h2}, "tlog": {tlog, "/checkpoint"},
		"saga": {saga, "/api/dtmsvr/version"}, "saga over gRPC": {sagaGRPC, h2}, "sql": {sql, mysql}, "admin": {admin, "/v1/status"}}
	dial := func(name string, a *authority) open {
		t.Helper()
		raw, err := net.DialTimeout("tcp", doors[name].at, wait.Limit(t))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { raw.Close() })
		raw.SetDeadline(time.Now().Add(wait.Limit(t)))
		conf := stays.Config(a.Issue("client"))
		conf.ServerName = "localhost"
		switch doors[name].speaks {
		case h2:
			conf.NextProtos = []string{"h2"}
		case mysql:
			if err := sslRequest(raw); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		c := open{Conn: tls.Client(raw, conf)}
		if c.r = bufio.NewReader(c.Conn); err == nil {
			err = c.Handshake()
		}
		if err == nil && doors[name].speaks == h2 { // the server's settings come when it has taken the certificate
			if _, err = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err == nil {
				_, err = c.r.ReadByte()
			}
		}
		if err == nil && strings.HasPrefix(doors[name].speaks, "/") {
			err = get(c, doors[name].speaks)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return c
	}
	kept, ended := map[string]open{}, map[string]open{}
	for name := range doors {
		kept[name], ended[name] = dial(name, stays), dial(name, goes)
	}
	r.setup.Reload(slog.New(slog.DiscardHandler))
	for name, c := range ended {
		if path := doors[name].speaks; strings.HasPrefix(path, "/") {
			if err := get(c, path); err != nil {
				t.Errorf("%s: a file that is the same ends a connection: %v", name, err)
			}
		}
	}
	believes(t, ca, stays.Authority)
	r.setup.Reload(slog.New(slog.NewTextHandler(out, nil)))
	for name, c := range ended {
		if _, err := io.Copy(io.Discard, c.r); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: a client of the authority that was dropped goes on", name)
		}
	}
	for name, c := range kept {
		if path := doors[name].speaks; strings.HasPrefix(path, "/") {
			if err := get(c, path); err != nil {
				t.Errorf("%s: a client of the authority that stays: %v", name, err)
			}
			continue
		}
		c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // no side has anything to say
		if _, err := io.Copy(io.Discard, c.r); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: a client of the authority that stays: %v", name, err)
		}
	}
	out.line(t, "connections closed whose certificate no authority has signed any more", "connections=")
}

// TestADroppedAuthorityEndsMembersLinks, those that a member has dialled and those that others have: what it has signed is no member's any more.
func TestADroppedAuthorityEndsMembersLinks(t *testing.T) {
	t.Parallel()
	stays, goes := newAuthority(t), newAuthority(t)
	cert, key := stays.issue(t, "member", 2)
	other, otherKey := goes.issue(t, "member", 3)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	believes(t, ca, stays.Authority, goes.Authority)
	flags := []string{"--peer-tls-cert", cert, "--peer-tls-key", key, "--peer-tls-ca", ca}
	c := newTrio(t, false, flags...)
	ours := append(slices.DeleteFunc(c.args("n3", c.list()), func(f string) bool { return slices.Contains(flags, f) }),
		"--peer-tls-cert", other, "--peer-tls-key", otherKey, "--peer-tls-ca", ca)
	c.restart("n3", ours...)
	c.serves("both authorities")

	believes(t, ca, stays.Authority)
	for _, name := range []string{"n1", "n2"} {
		c.nodes[name].setup.Reload(slog.New(slog.DiscardHandler))
	}
	for _, name := range []string{"n1", "n2"} {
		wait.Until(t, name+" has no link to n3 any more", func() bool {
			for line := range strings.Lines(says(t, "status", "--admin", c.admin[name])) {
				if strings.HasPrefix(line, "n3 (") && strings.Contains(line, "unreachable since") {
					return true
				}
			}
			return false
		})
	}
	wait.Until(t, "the other two go on", func() bool {
		_, err := c.nodes["n1"].client(t, nil).Put(timely(t), "a", "1")
		return err == nil
	})
	for from, to := range map[string]string{cert: other, key: otherKey} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.nodes["n3"].setup.Reload(slog.New(slog.DiscardHandler))
	c.serves("one authority")
}
