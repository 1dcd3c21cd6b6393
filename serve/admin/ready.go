package admin

import (
	"fmt"
	"net/http"
)

// readyz answers 200 once every door serves and the member has applied an entry of its current term. Before that it answers 503 with one
// line of reason. The sections' notes follow, a line each. With ?verbose it lists each condition.
func (a *Admin) readyz(w http.ResponseWriter, r *http.Request) {
	reason := a.notReady()
	if reason != "" {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if r.URL.Query().Has("verbose") {
		n := a.node.Load()
		mark := func(ok bool) string {
			if ok {
				return "[+]"
			}
			return "[-]"
		}
		fmt.Fprintf(w, "%s the member runs\n", mark(n != nil))
		fmt.Fprintf(w, "%s an entry of the current term is applied\n", mark(n != nil && n.Status().Ready))
		fmt.Fprintf(w, "%s every door serves\n", mark(a.opts.DoorsServe()))
		fmt.Fprintf(w, "%s it is not shutting down\n", mark(!a.ending.Load()))
	}
	if reason != "" {
		fmt.Fprintln(w, "not ready: "+reason)
	} else {
		fmt.Fprintln(w, "ok")
	}
	for _, section := range a.opts.Sections {
		if n := a.node.Load(); n != nil && section.Notes != nil {
			for _, line := range section.Notes(r.Context()) {
				fmt.Fprintln(w, line)
			}
		}
	}
}

// notReady says why this server is not ready, "" if it is.
func (a *Admin) notReady() string {
	if a.ending.Load() {
		return "shutting down"
	}
	n := a.node.Load()
	if n == nil {
		if w := a.waiting.Load(); w != nil {
			return *w
		}
		return "starting"
	}
	switch s := n.Status(); {
	case s.Leader == 0:
		return n.WaitsFor()
	case !s.Ready:
		return "no entry of the current term is applied yet"
	case !a.opts.DoorsServe() && s.Joining:
		return "this member is a learner; its doors open when the leader has made it a voter"
	case !a.opts.DoorsServe():
		return "the doors are opening"
	}
	return ""
}
