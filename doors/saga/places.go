package saga

import (
	"net/http"
	"strings"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// longestURL is the longest that is called (doors/saga/outcall), in bytes. The log has room for twice as much.
const longestURL = 8 << 10

// checkURL refuses what could never be called, when it is submitted: a transaction with such a URL would be tried again for ever. DTM's
// names of service discovery are among it, because this server asks none: a name of DNS does the same. what is the request's name for the
// URL.
func checkURL(what, url string) error {
	if len(url) > longestURL {
		return refuse(http.StatusRequestEntityTooLarge, "%s: a URL of %d bytes is too long; at most %d are called", what, len(url), longestURL)
	}
	scheme, _, ok := strings.Cut(url, "://")
	if !ok || strings.ContainsAny(scheme, "/?#") || strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https") {
		return nil
	}
	return refuse(http.StatusBadRequest, "%s: %s begins with %s, which is not called here: no service discovery is asked; give http://HOST:PORT/PATH, or HOST:PORT/pkg.Service/Method "+
		"for gRPC, with a name of DNS", what, quote(url), quote(scheme+"://"))
}

// checkURLs judges the URLs of the steps, and the URL of a message's query.
func (r *request) checkURLs() error {
	if err := checkURL("query_prepared", r.QueryPrepared); err != nil {
		return err
	}
	for i := range r.steps {
		s := &r.steps[i]
		if r.Mode != sagapart.Msg || !strings.HasPrefix(s.action, topicPrefix) {
			if err := checkURL("action", s.action); err != nil {
				return err
			}
		}
		if err := checkURL("compensate", s.compensate); err != nil {
			return err
		}
	}
	return nil
}

// plain refuses a change of keys where there is none beside a transaction: passed over it would be taken for done.
func (r *request) plain() error {
	if r.kv.null() {
		return nil
	}
	return refuse(http.StatusBadRequest, "kv: DTM's own paths take no change of keys; send this to POST %ssubmit, and nothing was done", ownPrefix)
}
