package outcall

import (
	"net/http"
	"testing"
	"time"
)

// TestAKeptConnectionIsClosedWhenItIsOld, and its endpoint forgotten, and not before. While it is kept it has no buffer: there may be thousands.
func TestAKeptConnectionIsClosedWhenItIsOld(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	n := newNet(t, Options{Idle: time.Hour})
	want(t, do(t, n, &Request{URL: s.URL}), OK, "")
	n.tidy()
	var kept *conn
	n.mu.Lock()
	ep := n.endpoints[s.URL]
	if ep != nil && len(ep.idle) == 1 {
		kept = ep.idle[0]
		kept.used = kept.used.Add(-2 * time.Hour)
	}
	n.mu.Unlock()
	if kept == nil || kept.r != nil {
		t.Fatalf("the connection of a call just now is %+v", kept)
	}
	n.tidy()
	n.mu.Lock()
	idle, known := n.idle, n.endpoints[s.URL] == ep
	ep.used = ep.used.Add(-2 * time.Hour)
	n.mu.Unlock()
	if idle != 0 || !known {
		t.Errorf("%d old connections are kept, and the endpoint that was called just now is known: %t", idle, known)
	}
	if _, err := kept.Write([]byte("x")); err == nil {
		t.Error("the old connection is open")
	}
	n.tidy()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.endpoints) != 0 || n.sweep != nil {
		t.Errorf("%d endpoints are remembered", len(n.endpoints))
	}
}
