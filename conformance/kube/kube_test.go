package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// fake answers as an API server would that holds o-00000 to o-00002, but for what a test makes it do wrong.
func fake(t *testing.T, events []string, pages map[string]string) *apiServer {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case q.Get("watch") == "":
			fmt.Fprint(w, pages[q.Get("continue")])
		case q.Get("resourceVersion") == "1":
			fmt.Fprint(w, strings.Join(events, "\n"))
		default: // a second connection has no more to say
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	return &apiServer{client: server.Client(), base: server.URL}
}

var three = map[string]meta{}

func item(i int) string {
	return fmt.Sprintf(`{"metadata":{"name":"o-%05d","uid":"u%d","resourceVersion":"%d"}}`, i, i, i+2)
}

func init() {
	for i := range 3 {
		name := fmt.Sprintf("o-%05d", i)
		three[name] = meta{Name: name, UID: fmt.Sprint("u", i), Revision: fmt.Sprint(i + 2)}
	}
}

func page(revision, more string, items ...string) string {
	return fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"continue":%q},"items":[%s]}`, revision, more, strings.Join(items, ","))
}

// TestListsAreJudged: a list must have everything as it was created, once, at one revision.
func TestListsAreJudged(t *testing.T) {
	for name, tc := range map[string]struct {
		pages map[string]string
		want  string // of the error
	}{
		"whole":    {map[string]string{"": page("9", "a", item(0), item(1)), "a": page("9", "", item(2))}, ""},
		"one lost": {map[string]string{"": page("9", "a", item(0)), "a": page("9", "", item(2))}, "1 of 3 created"},
		"another in its place": {map[string]string{"": page("9", "", item(0), item(1),
			`{"metadata":{"name":"o-00002","uid":"other","resourceVersion":"4"}}`)}, "1 of 3 created"},
		"one too many":     {map[string]string{"": page("9", "", item(0), item(1), item(2), item(3))}, "1 are that nobody created"},
		"twice":            {map[string]string{"": page("9", "a", item(0), item(1)), "a": page("9", "", item(1), item(2))}, "listed twice"},
		"of two revisions": {map[string]string{"": page("9", "a", item(0), item(1)), "a": page("10", "", item(2))}, "the first was of 9"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &creation{api: fake(t, nil, tc.pages), made: map[string]map[string]meta{"secrets": three}}
			_, err := c.listed(t.Context(), "secrets")
			wantError(t, err, tc.want)
		})
	}
}

// TestWatchesAreJudged: a watch must tell of everything once, and of nothing else.
func TestWatchesAreJudged(t *testing.T) {
	added := func(i int) string { return `{"type":"ADDED","object":` + item(i) + `}` }
	for name, tc := range map[string]struct {
		events []string
		want   string
	}{
		"whole":            {[]string{added(0), added(1), added(2)}, ""},
		"one repeated":     {[]string{added(0), added(1), added(1), added(2)}, "1 repeated"},
		"of nothing":       {[]string{added(0), added(1), added(2), added(3)}, "1 of nothing created"},
		"one in its place": {[]string{added(0), added(1), added(3)}, "1 missed"},
		"one deleted":      {[]string{added(0), `{"type":"DELETED","object":` + item(0) + `}`}, "event DELETED"},
		"too old":          {[]string{added(0), `{"type":"ERROR","object":{"code":410}}`}, "event ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake(t, tc.events, map[string]string{"": page("1", "")})
			w, err := beginWatch(context.Background(), api, "secrets")
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.finish(three)
			wantError(t, err, tc.want)
		})
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%v, want an error with %q", err, want)
	}
}

// TestMetricsAreSummed: by name, by what is in the line, and by codes.
func TestMetricsAreSummed(t *testing.T) {
	text := `# HELP grpc_server_handled_total Calls that ended, by code.
grpc_server_handled_total{grpc_method="Watch",grpc_code="OK"} 2
grpc_server_handled_total{grpc_method="Watch",grpc_code="Canceled"} 3
grpc_server_handled_total{grpc_method="Watch",grpc_code="Unavailable"} 4
grpc_server_handled_total{grpc_method="Range",grpc_code="OK"} 100
`
	if n, err := sumOf(text, endedWatches, nil); n != 9 || err != nil {
		t.Errorf("%v streams, %v", n, err)
	}
	if n, err := sumOf(text, endedWatches, []string{"OK", "Canceled"}); n != 5 || err != nil {
		t.Errorf("%v by clients, %v", n, err)
	}
	if _, err := sumOf(text, "none", nil); err == nil {
		t.Error("no such metric, and no error")
	}
}

// TestConnectionsAreSeen: those that are open, to the port that is asked for.
func TestConnectionsAreSeen(t *testing.T) {
	all := map[string]bool{}
	established(`  sl  local_address rem_address   st tx_queue rx_queue
   0: 0100007F:5F18 00000000:0000 0A 00000000:00000000
   1: 0300007F:A001 0100007F:5F18 01 00000000:00000000
   2: 0100007F:A002 0100007F:5F18 06 00000000:00000000
   3: 0100007F:A003 0100007F:5F19 01 00000000:00000000
`, 0x5F18, all)
	if len(all) != 1 || !all["0300007F:A001"] {
		t.Errorf("%v", all)
	}
}

// TestGatewayWatchesAreJudged: every put once, in order, and a stream that ends is seen.
func TestGatewayWatchesAreJudged(t *testing.T) {
	event := func(n int) string {
		m := fmt.Sprintf(`{"result":{"events":[{"kv":{"value":"%s"}}]}}`, base64.StdEncoding.EncodeToString(fmt.Append(nil, n)))
		return fmt.Sprintf("%x\r\n%s\r\n", len(m), m)
	}
	for name, tc := range map[string]struct {
		said  string
		heard int
		want  string
	}{
		"two": {event(0) + event(1), 2, "has ended: EOF"}, "one left out": {event(0) + event(2), 2, "put 2 after 1"},
		"an end": {event(0) + "0\r\n\r\n", 1, "the answer has ended"}, "an error": {"14\r\n" + `{"error":{"code":8}}` + "\r\n", 0, "cancelled"},
	} {
		g := &gates{heard: make([]int, 1)}
		g.follow(0, bufio.NewReader(strings.NewReader(tc.said)))
		if wantError(t, g.wrong, tc.want); g.heard[0] != tc.heard {
			t.Errorf("%s: %d events", name, g.heard[0])
		}
	}
}
