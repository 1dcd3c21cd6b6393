package kv_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestPeerMetrics: each of three members exports under etcd's names its traffic with each other one, labelled by the other's id. When one
// goes, the others' alerts can see it.
func TestPeerMetrics(t *testing.T) {
	servers := serveThree(t, doorkv.Options{})
	id := func(s *server) string { return fmt.Sprintf("%x", s.node.Status().MemberID) }
	to := func(name string, s *server) string { return fmt.Sprintf("etcd_network_peer_%s{To=%q}", name, id(s)) }
	from := func(name string, s *server) string { return fmt.Sprintf("etcd_network_peer_%s{From=%q}", name, id(s)) }
	link := func(name string, s, other *server) string {
		return fmt.Sprintf("etcd_network_%s{Local=%q,Remote=%q}", name, id(s), id(other))
	}
	c := servers[0].client(t)
	const size = 100_000
	if _, err := c.Put(context.Background(), "k", strings.Repeat("v", size)); err != nil {
		t.Fatal(err)
	}
	within := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(wait.Limit(t)); !ok(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: not within 20 s", what)
			}
		}
	}
	for i, s := range servers {
		for j, other := range servers {
			if i == j {
				if n, there := s.scrape(t)[to("sent_bytes_total", other)]; there {
					t.Errorf("n%d has sent itself %v bytes", i+1, n)
				}
				continue
			}
			within(fmt.Sprintf("n%d and n%d know each other", i+1, j+1), func() bool {
				m := s.scrape(t)
				return m[to("sent_bytes_total", other)] > 0 && m[from("received_bytes_total", other)] > 0 &&
					m[to("round_trip_time_seconds_count", other)] > 0 && m[to("round_trip_time_seconds_sum", other)] > 0 &&
					m[link("active_peers", s, other)] == 1
			})
			m := s.scrape(t)
			for _, name := range []string{to("sent_failures_total", other), from("received_failures_total", other), link("disconnected_peers_total", s, other)} {
				if _, there := m[name]; !there {
					t.Errorf("n%d: %s is missing", i+1, name)
				}
			}
			if name := fmt.Sprintf(`etcd_network_peer_round_trip_time_seconds_bucket{To=%q,le="3.2768"}`, id(other)); m[name] == 0 {
				t.Errorf("n%d: %s is %v", i+1, name, m[name])
			}
		}
	}
	// The value went over two connections at least.
	all := 0.0
	for _, s := range servers {
		for name, v := range s.scrape(t) {
			if strings.HasPrefix(name, "etcd_network_peer_sent_bytes_total") {
				all += v
			}
		}
	}
	if all < 2*size {
		t.Errorf("%v bytes sent by all, though a value of %d went to two members", all, size)
	}

	// Only who leads has anything to say to all others, so the failures are those of the two together.
	gone := servers[2]
	failures := func() (n float64) {
		for _, s := range servers[:2] {
			n += s.scrape(t)[to("sent_failures_total", gone)]
		}
		return n
	}
	before := failures()
	gone.stop()
	within("the others see that n3 is gone", func() bool {
		m := servers[0].scrape(t)
		return m[link("active_peers", servers[0], gone)] == 0 && m[link("disconnected_peers_total", servers[0], gone)] == 1 && failures() > before
	})
}
