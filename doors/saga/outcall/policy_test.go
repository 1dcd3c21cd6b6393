package outcall

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// names resolves the names of a table, and no other.
func names(table map[string][]string) func(context.Context, string) ([]netip.Addr, error) {
	return func(_ context.Context, host string) (all []netip.Addr, err error) {
		for _, a := range table[host] {
			all = append(all, netip.MustParseAddr(a))
		}
		if all == nil {
			return nil, fmt.Errorf("no such host")
		}
		return all, nil
	}
}

func hangingLookup(ctx context.Context, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// forbidden is where strangers would have us call: hosts that have our own port, and whole URLs. ADMIN stands for that port.
var forbidden = []string{
	// This machine's own ports, in every spelling.
	"http://127.0.0.1:ADMIN/",
	"http://localhost:ADMIN/",
	"http://LOCALHOST.:ADMIN/",
	"http://127.0.0.2:ADMIN/",
	"http://127.255.255.254:ADMIN/",
	"http://0.0.0.0:ADMIN/",
	"http://0.1.2.3:ADMIN/",
	"http://[::1]:ADMIN/",
	"http://[::]:ADMIN/",
	"http://[0:0:0:0:0:0:0:1]:ADMIN/",
	"http://[::ffff:127.0.0.1]:ADMIN/",
	"http://[::ffff:7f00:1]:ADMIN/",
	"http://[::ffff:0.0.0.0]:ADMIN/",
	"http://[::127.0.0.1]:ADMIN/",
	"http://[64:ff9b::7f00:1]:ADMIN/",
	"http://[2002:7f00:1::]:ADMIN/",
	"http://[64:ff9b:1::7f00:1]:ADMIN/",
	"http://[64:ff9b:1:7f00:0:100::]:ADMIN/",
	"http://[2001:db8:1:2:0:5efe:7f00:1]:ADMIN/",
	"http://[2001:db8:1:2:200:5efe:7f00:1]:ADMIN/",
	"http://[2001:0:c000:201:0:0:80ff:fffe]:ADMIN/",
	"http://[::ffff:0:7f00:1]:ADMIN/",
	"http://127.1:ADMIN/",
	"http://127.0.1:ADMIN/",
	"http://0:ADMIN/",
	"http://0x7f000001:ADMIN/",
	"http://0x7f.0.0.1:ADMIN/",
	"http://0x7f.1:ADMIN/",
	"http://127.0.0.0x1:ADMIN/",
	"http://2130706433:ADMIN/",
	"http://017700000001:ADMIN/",
	"http://0177.0.0.01:ADMIN/",
	"http://127.0.0.1.:ADMIN/",
	"http://①②⑦.0.0.1:ADMIN/",
	"http://127。0。0。1:ADMIN/",
	"http://%31%32%37.0.0.1:ADMIN/",
	"http://user@127.0.0.1:ADMIN/",
	"http://good.test@127.0.0.1:ADMIN/",
	"http://127.0.0.1:ADMIN#@good.test/",
	"http://127.0.0.1:0ADMIN/",
	"HTTPS://127.0.0.1:ADMIN/",
	// Another address of this machine, a peer elsewhere, and names for all of them.
	"http://192.0.2.7:ADMIN/",
	"http://[2001:db8::7]:ADMIN/",
	"http://198.51.100.9:2380/",
	"http://own.test:ADMIN/",
	"http://OWN.test.:ADMIN/",
	"http://own6.test:ADMIN/",
	"http://mapped.test:ADMIN/",
	"http://zero.test:ADMIN/",
	"http://interface.test:ADMIN/",
	"http://peer.test:2380/",
	"http://[::ffff:198.51.100.9]:2380/",
	"http://[::ffff:192.0.2.7]:ADMIN/",
	"http://[::ffff:100.100.100.200]/",
	"http://[::ffff:240.0.0.1]/",
	// Clouds' metadata, by address and by name.
	"http://169.254.169.254/latest/meta-data/",
	"http://169.254.169.254:80/",
	"http://169.254.170.2/v2/credentials",
	"http://[::ffff:169.254.169.254]/",
	"http://[64:ff9b::a9fe:a9fe]/",
	"http://[2002:a9fe:a9fe::]/",
	"http://[64:ff9b:1::a9fe:a9fe]/",
	"http://[64:ff9b:1:a9fe:a9:fe00::]/",
	"http://[64:ff9b:1:a9:fe:a9fe::]/",
	"http://[64:ff9b:1:0:a9:fea9:fe00::]/",
	"http://[2001:db8::5efe:169.254.169.254]/",
	"http://[2001:0:4136:e378:8000:63bf:5601:5601]/",
	"http://[::ffff:0:169.254.169.254]/",
	"http://0xa9fea9fe/",
	"http://2852039166/",
	"http://0251.0376.0251.0376/",
	"http://[fd00:ec2::254]/",
	"http://[fd20:ce::254]/",
	"http://100.100.100.200/",
	"http://168.63.129.16/",
	"http://192.0.0.192/",
	"http://metadata.google.internal/computeMetadata/v1/",
	"http://METADATA.google.internal./",
	"http://metadata/",
	"http://instance-data/",
	"http://innocent.test/",
	"http://innocent6.test/",
	// Link-local, multicast, reserved.
	"http://169.254.1.1/",
	"http://[fe80::1]/",
	"http://[fe80::1%25eth0]/",
	"http://[fe80::1%25lo]:ADMIN/",
	"http://224.0.0.1/",
	"http://239.255.255.250:1900/",
	"http://[ff02::1]/",
	"http://[ff02::1%25eth0]/",
	"http://255.255.255.255/",
	"http://240.0.0.1/",
	"http://[fec0::1]/",
	// No HTTP at all.
	"unix:///var/run/docker.sock",
	"http+unix://%2Fvar%2Frun%2Fdocker.sock/info",
	"file:///etc/passwd",
	"gopher://127.0.0.1:ADMIN/_GET",
	"ftp://127.0.0.1:ADMIN/",
	"ws://127.0.0.1:ADMIN/",
	"data:text/plain,x",
	"javascript:alert(1)",
	"//127.0.0.1:ADMIN/",
	"127.0.0.1:ADMIN/",
	"/etc/passwd",
	"http:127.0.0.1:ADMIN/",
	"http:///127.0.0.1:ADMIN/",
	"http://:ADMIN/",
	"http://127.0.0.1:99999999/",
	"http://127.0.0.1:0/",
	"http://127.0.0.1:-1/",
	"http://127.0.0.1 :ADMIN/",
	"http://127.0.0.1\r\n:ADMIN/",
	"http://good.test\\@127.0.0.1:ADMIN/",
	"http://[127.0.0.1:ADMIN/",
	"http://" + strings.Repeat("a", 300) + ":ADMIN/",
	"http://127.0.0.1:ADMIN/" + strings.Repeat("a", maxURL),
	// The same over gRPC, and what its library would resolve or dial in ways of its own.
	"127.0.0.1:ADMIN/pkg.Service/Method",
	"localhost:ADMIN/pkg.Service/Method",
	"[::1]:ADMIN/pkg.Service/Method",
	"[::ffff:127.0.0.1]:ADMIN/pkg.Service/Method",
	"0.0.0.0:ADMIN/pkg.Service/Method",
	"127.1:ADMIN/pkg.Service/Method",
	"0x7f000001:ADMIN/pkg.Service/Method",
	"2130706433:ADMIN/pkg.Service/Method",
	"192.0.2.7:ADMIN/pkg.Service/Method",
	"own.test:ADMIN/pkg.Service/Method",
	"own6.test:ADMIN/pkg.Service/Method",
	"mapped.test:ADMIN/pkg.Service/Method",
	"peer.test:2380/pkg.Service/Method",
	"metadata.google.internal:80/pkg.Service/Method",
	"169.254.169.254:80/pkg.Service/Method",
	"innocent.test:80/pkg.Service/Method",
	"[fe80::1%eth0]:80/pkg.Service/Method",
	"224.0.0.1:80/pkg.Service/Method",
	"unix:/var/run/docker.sock",
	"unix:///var/run/docker.sock/pkg.Service/Method",
	"unix-abstract:name/pkg.Service/Method",
	"vsock:1:2/pkg.Service/Method",
	"dns:///127.0.0.1:ADMIN/pkg.Service/Method",
	"dns:127.0.0.1:ADMIN/pkg.Service/Method",
	"passthrough:///127.0.0.1:ADMIN/pkg.Service/Method",
	"xds:///service/pkg.Service/Method",
	"ipv4:127.0.0.1:ADMIN/pkg.Service/Method",
	"127.0.0.1/pkg.Service/Method",
	"127.0.0.1:ADMIN",
	"127.0.0.1:ADMIN/Method",
	"127.0.0.1:http/pkg.Service/Method",
	":ADMIN/pkg.Service/Method",
}

// guarded is a Net whose own port is that of the listener, on a machine with two more addresses.
func guarded(t *testing.T, own *rawService, o Options) (*Net, string) {
	_, port, _ := net.SplitHostPort(own.Addr().String())
	at := netip.MustParseAddrPort(own.Addr().String())
	o.Policy.Own = func() []netip.AddrPort {
		return []netip.AddrPort{at, netip.MustParseAddrPort("198.51.100.9:2380")}
	}
	n := newNet(t, o)
	n.judge.interfaces = func() []netip.Addr {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")}
	}
	if o.Lookup == nil {
		n.o.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			if host == "localhost" {
				return lookup(ctx, host)
			}
			return names(map[string][]string{
				"own.test": {"127.0.0.1"}, "own6.test": {"::1"}, "mapped.test": {"::ffff:127.0.0.1"}, "zero.test": {"0.0.0.0"},
				"interface.test": {"192.0.2.7"}, "peer.test": {"198.51.100.9"},
				"innocent.test": {"169.254.169.254"}, "innocent6.test": {"fd00:ec2::254", "fe80::1%eth0"},
			})(ctx, host)
		}
	}
	return n, port
}

// silent is a listener that no call may reach.
func silent(t *testing.T) *rawService {
	s := listen(t, func(c net.Conn, _ int) { io.Copy(io.Discard, c) })
	t.Cleanup(func() {
		if s.accepted() != 0 {
			t.Errorf("somebody reached a port of our own %d times", s.accepted())
		}
	})
	return s
}

func TestForbiddenTargetsAreNotCalled(t *testing.T) {
	own := silent(t)
	n, port := guarded(t, own, Options{Timeout: time.Minute})
	for _, url := range forbidden {
		url = strings.ReplaceAll(url, "ADMIN", port)
		protocol := HTTP
		if strings.HasSuffix(url, "/pkg.Service/Method") || !strings.Contains(url, "//") && !strings.HasPrefix(url, "http:") {
			protocol = GRPC
		}
		for _, protocol := range []string{protocol, JSONRPC} {
			r := do(t, n, &Request{URL: url, Protocol: protocol, Payload: []byte("{}")})
			if r.Outcome != Refused || r.Message == "" {
				t.Errorf("%q over %s: %v %q, want it refused", url, protocol, r.Outcome, r.Message)
			}
		}
	}
	if dials := n.Meter().Dials.Load(); dials > 60 { // of names, and of nothing else
		t.Errorf("%d times a target came as far as being dialled", dials)
	}
	if open := n.Meter().Open.Load(); open != 0 {
		t.Errorf("refusals opened %d breakers", open)
	}
}

func TestTheRestOfThisMachineIsCalled(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	n, _ := guarded(t, silent(t), Options{})
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "own.test", "OWN.TEST."} {
		want(t, do(t, n, &Request{URL: "http://" + host + ":" + port}), OK, "")
	}
}

// TestDoorsOfOurOwnAreCalledByTheirPortAlone: a block or a name that is allowed does not free them, a port does, and only that one.
func TestDoorsOfOurOwnAreCalledByTheirPortAlone(t *testing.T) {
	allow, err := ParseAllow([]string{"127.0.0.0/8", "named.test", "::1", "10.0.0.7:2379", "[fd00::7]:2379", "keys.test:2379", "169.254.1.2:80"})
	if err != nil {
		t.Fatal(err)
	}
	list := func(all ...string) func() (of []netip.AddrPort) {
		return func() (of []netip.AddrPort) {
			for _, one := range all {
				of = append(of, netip.MustParseAddrPort(one))
			}
			return of
		}
	}
	j := newJudge(Policy{Allow: allow, Own: list("10.0.0.7:2380"), Doors: list("0.0.0.0:2379", "10.0.0.7:2379", "10.0.0.8:2379", "[fd00::7]:2379")})
	for _, c := range []struct {
		addr, host string
		allowed    bool
	}{
		{"127.0.0.1:2379", "", false},
		{"127.9.9.9:2379", "named.test", false},
		{"[::1]:2379", "", false},
		{"[::ffff:127.0.0.1]:2379", "", false},
		{"[64:ff9b::7f00:1]:2379", "", false},
		{"127.0.0.1:2379", "keys.test", true},
		{"127.0.0.1:2378", "", true},
		{"10.0.0.7:2379", "", true},
		{"[::ffff:10.0.0.7]:2379", "", true},
		{"10.0.0.7:2380", "", false},
		{"10.0.0.8:2379", "", false},
		{"10.0.0.9:2379", "", true},
		{"[fd00::7]:2379", "", true},
		{"169.254.1.2:80", "", true},
		{"169.254.1.2:81", "", false},
	} {
		if r := j.address(netip.MustParseAddrPort(c.addr), c.host); (r == nil) != c.allowed {
			t.Errorf("%s as %q: %v", c.addr, c.host, r)
		}
	}
	for _, wrong := range []string{"host:0", "host:x", "host:1:2", "10.0.0.7:99999", ":80", "1.2:80"} {
		if a, err := ParseAllow([]string{wrong}); err == nil {
			t.Errorf("%s is read as %+v", wrong, a)
		}
	}
}

func TestWhatIsAllowedIsCalled(t *testing.T) {
	allow, err := ParseAllow([]string{"metadata.google.internal", " 169.254.0.0/16", "FE80::/10", "fd00:ec2::254", "::ffff:224.0.0.0/100", "named.test."})
	if err != nil {
		t.Fatal(err)
	}
	j := newJudge(Policy{Allow: allow, Own: func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort("169.254.1.1:2380")} }})
	for _, c := range []struct {
		addr, host string
		allowed    bool
	}{
		{"169.254.169.254:80", "", true},
		{"[::ffff:169.254.169.254]:80", "", true},
		{"[fe80::1%eth0]:80", "", true},
		{"[fd00:ec2::254]:80", "", true},
		{"[fd00:ec2::23]:80", "", false},
		{"224.0.0.1:80", "", true},
		{"240.0.0.1:80", "", false},
		{"240.0.0.1:80", "named.test", true},
		{"100.100.100.200:80", "metadata.google.internal", true},
		{"169.254.1.1:2380", "", false},
		{"169.254.1.1:2380", "named.test", false},
		{"[::ffff:169.254.1.1]:2380", "named.test", false},
	} {
		if r := j.address(netip.MustParseAddrPort(c.addr), c.host); (r == nil) != c.allowed {
			t.Errorf("%s as %q: %v", c.addr, c.host, r)
		}
	}
	if r := j.name("metadata.google.internal"); r != nil {
		t.Error(r)
	}
	if r := j.name("metadata"); r == nil {
		t.Error("a name that was not allowed is called")
	}
	for _, bad := range []string{"", "10.0.0.0/33", "300.1.1.1", "a b", "http://x", "x:80:90", "127.1", "*.test", "a..b"} {
		if _, err := ParseAllow([]string{"10.0.0.1", bad}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
			t.Errorf("%q is allowed: %v", bad, err)
		}
	}

	// And all the way: this machine's loopback network stands in for a kind of address that is called only if it was named.
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	zero := "http://0.0.0.0:" + port
	want(t, do(t, newNet(t, Options{}), &Request{URL: zero}), Refused, "among the allowed targets")
	byAddress, _ := ParseAllow([]string{"0.0.0.0"})
	want(t, do(t, newNet(t, Options{Policy: Policy{Allow: byAddress}}), &Request{URL: zero}), OK, "")
	byName, _ := ParseAllow([]string{"zero.test"})
	n := newNet(t, Options{Policy: Policy{Allow: byName}, Lookup: names(map[string][]string{"zero.test": {"0.0.0.0"}, "other.test": {"0.0.0.0"}})})
	want(t, do(t, n, &Request{URL: "http://zero.test:" + port}), OK, "")
	want(t, do(t, n, &Request{URL: "http://other.test:" + port}), Refused, "among the allowed targets")
}

func TestANameThatChangesIsJudgedAnew(t *testing.T) {
	own := silent(t)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	var asked atomic.Int64
	n, _ := guarded(t, own, Options{Lookup: func(context.Context, string) ([]netip.Addr, error) {
		if asked.Add(1) == 1 {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
	}})
	want(t, do(t, n, &Request{URL: "http://rebind.test:" + port}), OK, "")
	want(t, do(t, n, &Request{URL: "http://rebind.test:" + port}), Refused, "169.254.169.254")
	if asked.Load() != 2 {
		t.Errorf("the name was resolved %d times for two connections", asked.Load())
	}
}

func TestOfSeveralAddressesThoseThatMayBeCalledAre(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	n := newNet(t, Options{Lookup: names(map[string][]string{"mixed.test": {"169.254.169.254", "127.0.0.1", "fe80::1"}})})
	want(t, do(t, n, &Request{URL: "http://mixed.test:" + port}), OK, "")
	free, _ := net.Listen("tcp", "127.0.0.1:0")
	_, gone, _ := net.SplitHostPort(free.Addr().String())
	free.Close()
	want(t, do(t, n, &Request{URL: "http://mixed.test:" + gone}), Transient, "connection refused")
}

// TestANameCannotTurnToOurOwnPort: it leads to a service while it is judged for the first time. Afterwards it leads to our own port, by
// itself and behind a redirect. Of an answer with both only the right one is dialled.
func TestANameCannotTurnToOurOwnPort(t *testing.T) {
	own := silent(t)
	for _, turned := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "64:ff9b::7f00:1", "192.0.2.7", "169.254.169.254", "fd00:ec2::254"} {
		var asked atomic.Int64
		n, port := guarded(t, own, Options{Timeout: time.Minute, Lookup: func(context.Context, string) ([]netip.Addr, error) {
			if asked.Add(1) == 1 {
				return []netip.Addr{netip.MustParseAddr("127.0.0.3")}, nil // where nothing listens
			}
			return []netip.Addr{netip.MustParseAddr(turned)}, nil
		}})
		n.judge.interfaces = func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("192.0.2.7")} }
		url := "http://rebind.test:" + port + "/"
		if r := do(t, n, &Request{URL: url}); r.Outcome == OK {
			t.Errorf("%s: a port where nothing listens answers %q", turned, r.Message)
		}
		want(t, do(t, n, &Request{URL: url}), Refused, "")
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, http.StatusTemporaryRedirect) })
		want(t, do(t, n, &Request{URL: s.URL}), Refused, "")
	}
}

func TestRedirectsAreJudged(t *testing.T) {
	own := silent(t)
	var to atomic.Value
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", to.Load().(string))
		w.WriteHeader(307)
	})
	n, port := guarded(t, own, Options{})
	for _, url := range []string{
		"http://127.0.0.1:ADMIN/stop", "http://localhost:ADMIN/", "//[::1]:ADMIN/", "http://own.test:ADMIN/", "http://169.254.169.254/",
		"http://metadata.google.internal/", "http://2130706433:ADMIN/", "unix:///var/run/docker.sock", "file:///etc/passwd", "gopher://127.0.0.1:ADMIN/",
		"http://innocent.test/",
	} {
		to.Store(strings.ReplaceAll(url, "ADMIN", port))
		for _, payload := range []string{"", "{}"} {
			want(t, do(t, n, &Request{URL: s.URL, Payload: []byte(payload)}), Refused, "")
		}
	}
}

func TestAKeptConnectionIsJudgedAgain(t *testing.T) {
	s := listen(t, func(c net.Conn, _ int) {
		for r := bufio.NewReader(c); ; {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			io.WriteString(c, benchAnswer)
		}
	})
	var own atomic.Pointer[[]netip.AddrPort]
	own.Store(&[]netip.AddrPort{})
	n := newNet(t, Options{Policy: Policy{Own: func() []netip.AddrPort { return *own.Load() }}})
	_, port, _ := net.SplitHostPort(s.Addr().String())
	n.o.Lookup = names(map[string][]string{"x.test": {"127.0.0.1"}})
	want(t, do(t, n, &Request{URL: "http://x.test:" + port}), OK, "")
	p, _ := strconv.Atoi(port)
	own.Store(&[]netip.AddrPort{netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(p))}) // a member is added that listens there
	want(t, do(t, n, &Request{URL: "http://x.test:" + port}), Refused, "never called")
	if s.accepted() != 1 {
		t.Errorf("%d connections", s.accepted())
	}
}

func TestTheEnvironmentNamesNoProxy(t *testing.T) {
	own := silent(t)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		t.Setenv(name, "http://"+own.Addr().String())
	}
	n := newNet(t, Options{Lookup: names(map[string][]string{"x.test": {"127.0.0.1"}})})
	_, port, _ := net.SplitHostPort(serveGRPC(t, func(context.Context, string, []byte) ([]byte, error) { return nil, nil }))
	want(t, do(t, n, &Request{URL: "x.test:" + port + "/pkg.Service/Method", Protocol: GRPC}), OK, "")
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, port, _ = net.SplitHostPort(s.Listener.Addr().String())
	want(t, do(t, n, &Request{URL: "http://x.test:" + port}), OK, "")
}
