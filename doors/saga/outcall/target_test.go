package outcall

import (
	"bufio"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func TestURLsAreTakenApart(t *testing.T) {
	for _, c := range []struct{ raw, endpoint, authority, path string }{
		{"http://a.test", "http://a.test:80", "a.test", "/"},
		{"HTTPS://A.Test./x", "https://a.test:443", "a.test", "/x"},
		{"http://a.test:8080/x/y?z#w", "http://a.test:8080", "a.test:8080", "/x/y?z"},
		{"http://a.test:80", "http://a.test:80", "a.test:80", "/"},
		{"http://10.0.0.1:/", "http://10.0.0.1:80", "10.0.0.1", "/"},
		{"http://[2001:DB8::1]:81/", "http://[2001:db8::1]:81", "[2001:db8::1]:81", "/"},
		{"http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]:80", "[fe80::1]", "/"},
		{"http://my_service:80/", "http://my_service:80", "my_service:80", "/"},
		{"http://xn--mnchen-3ya.test/", "http://xn--mnchen-3ya.test:80", "xn--mnchen-3ya.test", "/"},
		{"http://a.test?x y", "http://a.test:80", "a.test", "/?x%20y"},
		{"http://a.test/%zz", "", "", ""},
		{"http://a.test:0x50/", "", "", ""},
		{"http://[::1/", "", "", ""},
	} {
		got, err := parseHTTP(c.raw)
		if (err != nil) != (c.endpoint == "") || err == nil && (got.endpoint() != c.endpoint || got.authority != c.authority || got.path != c.path) {
			t.Errorf("%q is %q %q %q (%v), want %q %q %q", c.raw, got.endpoint(), got.authority, got.path, err, c.endpoint, c.authority, c.path)
		}
	}
	got, err := parseGRPC("A.test.:9090/pkg.Service/Method")
	if err != nil || got.endpoint() != "grpc://a.test:9090" || got.path != "/pkg.Service/Method" || got.authority != "a.test:9090" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatTheCLibraryTakesForAnAddressIsNoName(t *testing.T) {
	for _, s := range []string{"127.1", "0x7f000001", "0X7F000001", "2130706433", "017700000001", "0x", "1", "a.1", "a.0x1", "1.", "127.0.0.1.", "127.0.0.0x1"} {
		if name, err := hostName(s); err == nil {
			t.Errorf("%q is the name %q", s, name)
		}
	}
	for _, s := range []string{"a1", "1a", "1.a", "0xg", "127.0.0.1.nip.io", "x0x1", "3com", "a-1", "1-1"} {
		if _, err := hostName(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// TestTheLongestURLAndName are called; with a letter more they are not.
func TestTheLongestURLAndName(t *testing.T) {
	name := strings.Repeat(strings.Repeat("a", 62)+".", 4) + "a"
	for n, ok := range map[int]bool{253: true, 254: false} {
		if _, err := hostName(name[:252] + strings.Repeat("a", n-252)); (err == nil) != ok {
			t.Errorf("a name of %d letters: %v", n, err)
		}
	}
	for n, ok := range map[int]bool{maxURL: true, maxURL + 1: false} {
		for url, parse := range map[string]func(string) (target, error){"http://a.test/": parseHTTP, "a.test:80/pkg.Service/": parseGRPC} {
			if _, err := parse(url + strings.Repeat("x", n-len(url))); (err == nil) != ok {
				t.Errorf("%s… of %d bytes: %v", url, n, err)
			}
		}
	}
}

// TestLettersOfNamesAndValues: those that a header's name may have (RFC 9110), and those that gRPC's metadata and methods may.
func TestLettersOfNamesAndValues(t *testing.T) {
	const tokens = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for c := range 256 {
		s := string([]byte{byte(c)})
		if got, want := token("x"+s), strings.Contains(tokens, s); got != want {
			t.Errorf("%q in the name of a header: %t", s, got)
		}
		visible := c >= 0x20 && c <= 0x7e
		if got := printable("x" + s); got != visible {
			t.Errorf("%q in a value: %t", s, got)
		}
		if _, err := parseGRPC("a.test:80/pkg.Service/M" + s); (err == nil) != (visible && c != ' ') {
			t.Errorf("%q in the name of a method: %v", s, err)
		}
	}
}

// FuzzHTTP looks for a URL that is not refused and makes another request of itself than one line to the host that was judged.
func FuzzHTTP(f *testing.F) {
	for _, url := range forbidden {
		f.Add(strings.ReplaceAll(url, "ADMIN", "2379"), "g", "action")
	}
	f.Add("http://a.test/x y?z=\x80#w", "g 1&", "a\r\nb")
	f.Fuzz(func(t *testing.T, raw, gid, op string) {
		got, err := parseHTTP(raw)
		if err != nil {
			return
		}
		if got.port == 0 || got.host == "" || got.scheme != "http" && got.scheme != "https" {
			t.Fatalf("%+v", got)
		}
		if got.addr.IsValid() {
			if a, err := netip.ParseAddr(got.host); err != nil || a != got.addr {
				t.Fatalf("the address %v is called %q", got.addr, got.host)
			}
		} else if _, err := hostName(got.host); err != nil {
			t.Fatalf("the name %q: %v", got.host, err)
		}
		c := &call{req: &Request{Gid: gid, Op: op}, method: "GET", target: got}
		c.target.path = withArgs(got.path, c.req)
		head := string(c.appendHead(nil))
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
		if err != nil {
			t.Fatalf("%q cannot be read: %v", head, err)
		}
		if req.Host != got.authority || req.Method != "GET" || req.RequestURI != c.target.path || strings.Count(head, "\r\n\r\n") != 1 || !strings.HasSuffix(head, "\r\n\r\n") {
			t.Fatalf("%q came as %q", raw, head)
		}
		if q := req.URL.Query(); !strings.ContainsAny(raw, ";") && (len(q["gid"]) == 0 || q["gid"][len(q["gid"])-1] != gid || q["op"][len(q["op"])-1] != op) {
			t.Fatalf("gid %q and op %q came as %v", gid, op, q)
		}
		again, err := parseHTTP(got.endpoint() + got.path)
		if strings.Contains(got.host, "%") { // a zone is escaped in a URL
			return
		}
		if err != nil || again.endpoint() != got.endpoint() || again.path != got.path {
			t.Fatalf("%+v is read as %+v, %v", got, again, err)
		}
	})
}

// FuzzGRPC is the same for targets of gRPC.
func FuzzGRPC(f *testing.F) {
	for _, url := range forbidden {
		f.Add(strings.ReplaceAll(url, "ADMIN", "2379"))
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := parseGRPC(raw)
		if err != nil {
			return
		}
		if got.port == 0 || got.host == "" || !strings.HasSuffix(raw, got.path) || strings.Count(got.path, "/") < 2 || !printable(got.path) {
			t.Fatalf("%q: %+v", raw, got)
		}
		if got.addr.IsValid() {
			if a, err := netip.ParseAddr(got.host); err != nil || a != got.addr {
				t.Fatalf("the address %v is called %q", got.addr, got.host)
			}
		} else if _, err := hostName(got.host); err != nil {
			t.Fatalf("the name %q: %v", got.host, err)
		}
	})
}

// FuzzAllow looks for a word that allows more than it says.
func FuzzAllow(f *testing.F) {
	for _, word := range []string{"10.0.0.0/8", "::ffff:10.0.0.0/104", "fe80::/10", "[fe80::1]", "a.test", "127.1", "::/0", "0.0.0.0/0", "::ffff:0:0/90"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		a, err := ParseAllow([]string{word})
		if err != nil {
			return
		}
		if len(a.hosts)+len(a.prefixes) != 1 {
			t.Fatalf("%q: %+v", word, a)
		}
		for _, p := range a.prefixes {
			if !p.IsValid() || p.Addr().Is4In6() || p.Addr().Zone() != "" {
				t.Fatalf("%q is %v", word, p)
			}
		}
		for h := range a.hosts {
			if _, err := hostName(h); err != nil {
				t.Fatalf("%q is the host %q", word, h)
			}
		}
	})
}

// FuzzAnswer feeds a service's bytes: any input is one of the outcomes.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(benchAnswer), false)
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nFAI\r\n4\r\nLURE\r\n0\r\n\r\n"), true)
	f.Add([]byte("HTTP/1.1 307 x\r\nLocation: //a b\r\n\r\n"), false)
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b"), false)
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n{\"error\":{\"code\":-32901}}"), true)
	f.Fuzz(func(t *testing.T, sent []byte, jsonRPC bool) {
		conn := &conn{Conn: replay{strings.NewReader(string(sent))}}
		conn.awake()
		buf := &buffer{}
		c := &call{req: &Request{}, method: "POST", jsonRPC: jsonRPC, target: target{scheme: "http", host: "a.test", port: 80, authority: "a.test", path: "/x"}}
		a, err := conn.readAnswer("POST", jsonRPC, buf, func() (func(), error) { return func() {}, nil })
		if err != nil {
			return
		}
		if v := c.judgeAnswer(a); v.outcome < OK || v.outcome > Transient {
			t.Fatalf("%+v", v)
		}
	})
}

// TestTranslatorsOfAServiceAreCalled: an address inside IPv6 that is no forbidden one is as good as it is by itself.
func TestTranslatorsOfAServiceAreCalled(t *testing.T) {
	j := newJudge(Policy{})
	for _, at := range []string{"64:ff9b::c633:6407", "64:ff9b:1::c633:6407", "64:ff9b:1:c633:64:700::", "64:ff9b:1:c6:33:6407::", "64:ff9b:1:0:c6:3364:700::",
		"2002:c633:6407::1", "2001:db8::5efe:198.51.100.7", "2001:0:4136:e378:8000:63bf:39cc:9bf8", "2001:db8::1"} {
		if r := j.address(netip.AddrPortFrom(netip.MustParseAddr(at), 80), ""); r != nil {
			t.Errorf("%s: %v", at, r)
		}
	}
}
