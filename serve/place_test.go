package serve

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestListeners: only what listens where an address would be bound counts, in either of the kernel's tables.
func TestListeners(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	dir := t.TempDir()
	table := func(name, lines string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(head+lines), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// 36789 is 8FB5. The words of addresses are as a little-endian machine prints them, as all that Go's tests run on here are.
	passing := table("passing", "   0: 0100007F:8FB5 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 0 0 1\n"+
		"   1: 0100007F:8FB5 0100007F:1F90 06 00000000:00000000 03:00000000 00000000 0 0 0\n")
	loopback := table("loopback", "   0: 0100007F:8FB5 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1\n")
	second := table("second", "   0: 0200007F:8FB5 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1\n")
	everywhere := table("everywhere", "   0: 00000000:8FB5 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1\n")
	loopback6 := table("loopback6", "   0: 00000000000000000000000001000000:8FB5 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 1\n")
	everywhere6 := table("everywhere6", "   0: 00000000000000000000000000000000:8FB5 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 1\n")
	mapped6 := table("mapped6", "   0: 0000000000000000FFFF00000100007F:8FB5 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 1\n")
	none := filepath.Join(dir, "none")
	for _, tc := range []struct {
		addr   string
		tables []string
		want   bool
	}{
		{"127.0.0.1:36789", []string{passing}, false},
		{"127.0.0.1:36789", []string{loopback}, true},
		{"127.0.0.1:36790", []string{loopback}, false},
		{"127.0.0.1:36789", []string{second}, false},
		{"0.0.0.0:36789", []string{second}, true},
		{":36789", []string{second}, true},
		{"localhost:36789", []string{loopback, loopback6}, true},
		{"127.0.0.1:36789", []string{everywhere}, true},
		{"127.0.0.1:36789", []string{passing, loopback6}, false},
		{"[::1]:36789", []string{none, loopback6}, true},
		{"127.0.0.1:36789", []string{none, everywhere6}, true},
		{"127.0.0.1:36789", []string{passing, mapped6}, true},
	} {
		got, err := listened(tc.addr, tc.tables...)
		if err != nil || got != tc.want {
			t.Errorf("%s with %s: %t, %v", tc.addr, tc.tables, got, err)
		}
	}
	if _, err := listened("127.0.0.1:36789", none); err == nil {
		t.Error("without any table it says whether somebody listens")
	}
}

// outgoing connects from a port of this machine and returns that port's address. It lies below those that the kernel gives to connections:
// no other process takes it.
func outgoing(t *testing.T) (held string, end func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var c net.Conn
	for range 100 {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 10000 + rand.IntN(2000)}}
		if c, err = from.Dial("tcp", l.Addr().String()); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).SetLinger(0); err != nil { // a reset leaves nothing behind
		t.Fatal(err)
	}
	end = func() { c.Close() }
	t.Cleanup(end)
	return c.LocalAddr().String(), end
}

// TestAPortThatAConnectionHolds is waited for, with one line, and bound when the connection has ended.
func TestAPortThatAConnectionHolds(t *testing.T) {
	held, end := outgoing(t)
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	p := Place{Network: "tcp", Addr: held, Flag: "--saga", Patience: time.Minute}
	if err := p.Try(); err != nil {
		t.Errorf("refused early: %v", err)
	}
	time.AfterFunc(3*portAgain, end)
	began := time.Now()
	l, err := p.Wait(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if took := time.Since(began); took < 2*portAgain || l.Addr().String() != held {
		t.Errorf("bound %s after %v", l.Addr(), took)
	}
	if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "--saga") || !strings.Contains(text, "outgoing connections") {
		t.Errorf("it said:\n%s", text)
	}
}

// TestAPortIsNotWaitedForWithoutEnd: patience has an end, and so has a start that is called off.
func TestAPortIsNotWaitedForWithoutEnd(t *testing.T) {
	held, _ := outgoing(t)
	p := Place{Network: "tcp", Addr: held, Flag: "--saga", Patience: time.Millisecond}
	if _, err := p.Wait(t.Context(), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "ip_local_reserved_ports") {
		t.Errorf("patience is over: %v", err)
	}
	p.Patience = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(portAgain/2, cancel)
	if _, err := p.Wait(ctx, slog.New(slog.DiscardHandler)); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}
	p.Patience = 0
	if err := p.Try(); err == nil || !strings.Contains(err.Error(), "the port is in use") {
		t.Errorf("a port that nobody waits for: %v", err)
	}
}

// TestAPortThatSomebodyListensAtIsRefusedAtOnce: here and at every address, with connections beside the listener too.
func TestAPortThatSomebodyListensAtIsRefusedAtOnce(t *testing.T) {
	for _, theirs := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		l, err := net.Listen("tcp", theirs)
		if err != nil {
			t.Logf("%s: %v", theirs, err) // a machine without IPv6
			continue
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		p := Place{Network: "tcp", Addr: "127.0.0.1:" + port, Flag: "--saga", Patience: time.Minute}
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		const want = "the port is in use; stop what listens there or give another --saga"
		if err := p.Try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", theirs, err)
		}
		wait.Quickly(t, theirs, portAgain, func() {
			if _, err := p.Wait(t.Context(), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", theirs, err)
			}
		})
		c.Close()
		l.Close()
	}
}
