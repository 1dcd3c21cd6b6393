package wire

import (
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestFailuresSlowTheirAddress: beyond a few failures each login of the address waits for its turn, and its turns come ever slower. Others do
// not wait.
func TestFailuresSlowTheirAddress(t *testing.T) {
	var x throttle
	now := time.Unix(1000, 0)
	bad, good := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	for i := range freeFailures {
		if d, ok := x.enter(bad, now); d != 0 || !ok {
			t.Fatalf("login %d waits %v, %v", i, d, ok)
		}
		x.failed(bad, now)
	}
	tries := 0
	for end := now.Add(time.Minute); now.Before(end); tries++ {
		d, ok := x.enter(bad, now)
		if !ok || d > mostPause {
			t.Fatalf("try %d waits %v, %v", tries, d, ok)
		}
		now = now.Add(d)
		x.failed(bad, now)
		if d, ok := x.enter(good, now); d != 0 || !ok {
			t.Fatalf("another address waits %v, %v", d, ok)
		}
	}
	if tries > 70 {
		t.Errorf("%d tries in a minute", tries)
	}
	waiting := 0 // of a crowd that comes at once
	for range 1000 {
		if _, ok := x.enter(bad, now); ok {
			waiting++
		}
	}
	if most := int(mostWait/mostPause) + 2; waiting > most {
		t.Errorf("%d logins wait at a time, want %d at most", waiting, most)
	}
	x.passed(bad)
	if d, ok := x.enter(bad, now); d != 0 || !ok {
		t.Errorf("behind a login that succeeded the next one waits %v, %v", d, ok)
	}
	for range freeFailures + 1 {
		x.failed(bad, now)
	}
	if d, ok := x.enter(bad, now.Add(forgetAfter+time.Second)); d != 0 || !ok {
		t.Errorf("old failures count: %v, %v", d, ok)
	}
}

// TestTheThrottleIsBounded, however many addresses a stranger has.
func TestTheThrottleIsBounded(t *testing.T) {
	var x throttle
	for i := range mostAddresses + 500 {
		x.failed(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32), time.Unix(1000, 0))
	}
	if n := len(x.all); n > mostAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
	a := addressOf(&net.TCPAddr{IP: net.ParseIP("2001:db8::1")})
	if b := addressOf(&net.TCPAddr{IP: net.ParseIP("2001:db8::ffff:1")}); a != b || !a.IsValid() {
		t.Errorf("two addresses of one /64 are %s and %s", a, b)
	}
	if a, b := addressOf(&net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.1")}), netip.MustParsePrefix("192.0.2.1/32"); a != b {
		t.Errorf("an IPv4 address in IPv6's form is %s", a)
	}
}

// TestAGuesserStopsNobodyElse: a stranger guesses over many connections, and a client from another address logs in beside it.
func TestAGuesserStopsNobodyElse(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	from := func(ip string) func(context.Context, string) (net.Conn, error) {
		return func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext(ctx, "tcp", addr)
		}
	}
	mysql.RegisterDialContext("guesser", from("127.0.0.2"))
	mysql.RegisterDialContext("client", from("127.0.0.3"))
	ping := func(network, user string) error {
		db, err := sql.Open("mysql", user+"@"+network+"("+r.addr+")/")
		if err != nil {
			return err
		}
		defer db.Close()
		return db.Ping()
	}
	var denied, blocked atomic.Int64
	end := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-end:
					return
				default:
				}
				switch number(ping("guesser", fmt.Sprintf("sha2:guess%d.%d", i, n))) {
				case ErrAccessDenied:
					denied.Add(1)
				case ErrBlocked:
					blocked.Add(1)
				}
			}
		})
	}
	const unslowed = 1000 // guesses that are judged, of a guesser whom nothing slows
	began := time.Now()
	wait.Until(t, "the guesser is slowed", func() bool { return blocked.Load() > 100 || denied.Load() > unslowed })
	if err := ping("client", "sha2:two"); err != nil {
		t.Errorf("a client from another address: %v", err)
	}
	if n, most := denied.Load(), 60+2*int64(time.Since(began)/time.Second); n > most {
		t.Errorf("%d guesses were judged, want %d at most", n, most)
	}
	close(end)
	wg.Wait()
}

// TestCryptsAreBounded: logins compute on half of the processors at most, and one that finds no place in time is told.
func TestCryptsAreBounded(t *testing.T) {
	t.Parallel()
	var x crypts
	var running, most atomic.Int64
	var wg sync.WaitGroup
	release := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			x.run(t.Context(), time.Hour, func() {
				n := running.Add(1)
				for {
					if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				<-release
				running.Add(-1)
			})
		})
	}
	places := int64(max(runtime.NumCPU()/2, 1))
	wait.Until(t, "the places are taken", func() bool { return running.Load() == min(places, 8) })
	if places < 8 {
		if x.run(t.Context(), time.Millisecond, func() { t.Error("it has run") }) {
			t.Error("a place was given that is not there")
		}
	}
	close(release)
	wg.Wait()
	if n := most.Load(); n > places {
		t.Errorf("%d ran at a time, want %d at most", n, places)
	}
}

// far is a connection from beyond loopback.
type far struct{ net.Conn }

func (far) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 1234} }

// TestBeyondLoopbackOnlyOverTLS: where the server has a certificate, passwords and rows of clients from elsewhere never travel in clear text.
func TestBeyondLoopbackOnlyOverTLS(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority("ca")
	r := serve(t, func(s *Server) { s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue("server")}} })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { r.Serve(ctx, far{nc}) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); cancel(); wg.Wait() })
	if err := mysql.RegisterTLSConfig("far", &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	for options, want := range map[string]uint16{"": ErrCleartext, "?tls=far": 0} {
		db, err := sql.Open("mysql", "sha2:two@tcp("+l.Addr().String()+")/"+options)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Ping(); number(err) != want || (want == 0) != (err == nil) {
			t.Errorf("%q: %v, want %d", options, err, want)
		}
		_ = db.Close()
	}
}
