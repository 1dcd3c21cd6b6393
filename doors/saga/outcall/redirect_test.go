package outcall

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

func TestRedirectsAreFollowed(t *testing.T) {
	var seen []string
	var header http.Header
	last := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, body))
		header = r.Header
	})
	first := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var code int
		var to string
		fmt.Sscanf(r.URL.Path, "/%d/", &code)
		if _, to, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); to == "" {
			to = last.URL + "/x?y=1#z"
		}
		w.Header().Set("Location", to)
		w.WriteHeader(code)
		io.WriteString(w, "this is no FAILURE, nor ONGOING: it is elsewhere")
	})
	n := newNet(t, Options{})
	headers := []Header{{"Authorization", "Bearer 1"}, {"Cookie", "a=b"}, {"X-Trace", "7"}}
	for _, c := range []struct {
		code          int
		payload, want string
	}{
		{301, "", "GET /x?y=1 "}, {302, "", "GET /x?y=1 "}, {303, "", "GET /x?y=1 "}, {307, "", "GET /x?y=1 "}, {308, "", "GET /x?y=1 "},
		{301, "{}", "GET /x?y=1 "}, {302, "{}", "GET /x?y=1 "}, {303, "{}", "GET /x?y=1 "}, {307, "{}", "POST /x?y=1 {}"}, {308, "{}", "POST /x?y=1 {}"},
	} {
		seen = nil
		url := fmt.Sprintf("%s/%d/", first.URL, c.code)
		want(t, do(t, n, &Request{URL: url, Gid: "g", Payload: []byte(c.payload), Headers: headers}), OK, "")
		if len(seen) != 1 || seen[0] != c.want {
			t.Errorf("%d with %q came as %q, want %q", c.code, c.payload, seen, c.want)
		}
	}
	if header.Get("Authorization") != "Bearer 1" || header.Get("X-Trace") != "7" {
		t.Errorf("to the same host went %v", header)
	}
	// Another host, by name: no credentials of the first.
	n.o.Lookup = names(map[string][]string{"first.test": {"127.0.0.1"}})
	named := strings.Replace(first.URL, "127.0.0.1", "first.test", 1)
	want(t, do(t, n, &Request{URL: named + "/307/", Headers: headers}), OK, "")
	if header.Get("Authorization") != "" || header.Get("Cookie") != "" || header.Get("X-Trace") != "7" {
		t.Errorf("to another host went %v", header)
	}
	for _, code := range []int{300, 305, 306} {
		want(t, do(t, n, &Request{URL: fmt.Sprintf("%s/%d/", first.URL, code)}), Ongoing, "elsewhere")
	}
}

func TestRedirectsAreRelativeToWhatAnswered(t *testing.T) {
	var seen []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.RequestURI)
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(307)
		}
	})
	n := newNet(t, Options{})
	for to, want := range map[string]string{"/x": "/x", "x": "/a/x", "../x": "/x", "?q": "/a/b?q", "//" + s.Listener.Addr().String() + "/x": "/x"} {
		seen = nil
		if r := do(t, n, &Request{URL: s.URL + "/a/b?to=" + to}); r.Outcome != OK || len(seen) != 2 || seen[1] != want {
			t.Errorf("%s led to %q, want %q: %+v", to, seen, want, r)
		}
	}
	want(t, do(t, n, &Request{URL: s.URL + "/?to=http://[::x/"}), Transient, "cannot be read")
}

func TestRedirectsEnd(t *testing.T) {
	calls := 0
	var s *httptest.Server
	s = serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		http.Redirect(w, r, s.URL, http.StatusTemporaryRedirect)
	})
	want(t, do(t, newNet(t, Options{PerEndpoint: 1, InFlight: 1}), &Request{URL: s.URL}), Transient, "redirect after 3 others")
	if calls != 1+maxRedirects {
		t.Errorf("%d calls", calls)
	}
}

func TestARedirectedCallHoldsNoPlaceWhereItCameFrom(t *testing.T) {
	stuck := serve(t, hang)
	first := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, stuck.URL, http.StatusTemporaryRedirect)
		}
	})
	n := newNet(t, Options{PerEndpoint: 1, Timeout: time.Minute})
	var all []started
	for range 3 { // one hangs at the second service, two wait for their place there
		all = append(all, start(n, &Request{URL: first.URL + "/away"}))
	}
	wait.Until(t, "all are where they were led", func() bool { return n.Meter().Running.Load() == 1 && n.Meter().Waiting.Load() == 2 })
	want(t, do(t, n, &Request{URL: first.URL}), OK, "")
	for _, s := range all {
		s.cancel()
		want(t, result(t, s), Transient, "cancelled")
	}
}

func TestTimeoutsGoOnOverRedirects(t *testing.T) {
	var s *httptest.Server
	s = serve(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(60 * time.Millisecond):
			http.Redirect(w, r, s.URL, http.StatusTemporaryRedirect)
		case <-r.Context().Done():
		}
	})
	r := do(t, newNet(t, Options{}), &Request{URL: s.URL, Timeout: 100 * time.Millisecond})
	want(t, r, Transient, "no answer in time (100ms)")
}
