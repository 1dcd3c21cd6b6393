package browser

import (
	"net"
	"testing"
)

func TestRefusal(t *testing.T) {
	loop, other := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}
	for _, c := range []struct {
		name    string
		r       Request
		allowed []string
		want    string
	}{
		{"a program", Request{Method: "POST", Host: "127.0.0.1:2379", Local: loop}, nil, ""},
		{"a program by name", Request{Method: "POST", Host: "localhost:2379", Local: loop}, nil, ""},
		{"a program at an IPv6 address", Request{Method: "POST", Host: "[::1]:2379", Local: &net.TCPAddr{IP: net.IPv6loopback}}, nil, ""},
		{"another site", Request{Method: "POST", Host: "127.0.0.1:2379", Origin: "http://evil.example", Local: loop}, nil, CrossSite},
		{"another site beyond loopback", Request{Method: "PUT", Host: "kv.lan:2379", Origin: "http://evil.example", Local: other}, nil, CrossSite},
		{"another port of the same host", Request{Method: "POST", Host: "127.0.0.1:2379", Origin: "http://127.0.0.1:80", Local: loop}, nil, CrossSite},
		{"a sandboxed page", Request{Method: "POST", Host: "127.0.0.1:2379", Origin: "null", Local: loop}, nil, CrossSite},
		{"another site without an origin", Request{Method: "DELETE", Host: "127.0.0.1:2379", Site: "cross-site", Local: loop}, nil, CrossSite},
		{"its own page", Request{Method: "POST", Host: "kv.lan:2379", Origin: "http://kv.lan:2379", Local: other}, nil, ""},
		{"its own page as the browser says", Request{Method: "POST", Host: "kv.lan", Origin: "https://kv.lan", Site: "same-origin", Local: other}, nil, ""},
		{"reading from another site", Request{Method: "GET", Host: "127.0.0.1:2379", Origin: "http://evil.example", Local: loop}, nil, ""},
		{"a name made to resolve to loopback", Request{Method: "GET", Host: "evil.example:2379", Local: loop}, nil, Rebound},
		{"such a name under TLS", Request{Method: "GET", Host: "kv.example:2379", Local: loop, TLS: true}, nil, ""},
		{"a name beyond loopback", Request{Method: "POST", Host: "kv.lan:2379", Local: other}, nil, ""},
		{"an origin that is allowed", Request{Method: "POST", Host: "127.0.0.1:1", Origin: "http://app.example", Site: "cross-site", Local: loop},
			[]string{"http://app.example"}, ""},
		{"an origin that is not", Request{Method: "POST", Host: "127.0.0.1:1", Origin: "http://evil.example", Local: loop}, []string{"http://app.example"}, CrossSite},
		{"everybody is allowed", Request{Method: "POST", Host: "evil.example", Origin: "http://evil.example", Local: loop}, []string{"*"}, ""},
	} {
		if got := Refusal(&c.r, c.allowed); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
