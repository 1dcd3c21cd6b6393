package admin

import (
	"net/http"
)

// getSnapshot streams the state of one applied index in the format of docs/formats/snapshot.md, which carries its own
// checksums. A stream that fails half-way is cut, never ended: the reader must not take it for a whole one.
func (a *Admin) getSnapshot(n *attached, w http.ResponseWriter, r *http.Request) {
	if reason := a.notReady(); reason != "" {
		// A member that is not ready may be behind, and would save an old state.
		w.Header().Set("Retry-After", "1")
		Fail(w, http.StatusServiceUnavailable, reason)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := n.SaveSnapshot(r.Context(), w); err != nil {
		a.opts.Logger.Warn("snapshot not finished", "to", r.RemoteAddr, "err", err)
		panic(http.ErrAbortHandler) // the one way net/http has to break a connection
	}
}
