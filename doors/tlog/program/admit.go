package program

import "net/http"

// admit is doortlog.Options.Admit. While authentication of users is on, every door must know the author of a change, on loopback as well:
// without tokens this door knows none. A client's certificate names a machine and does not count.
func (r *running) admit(log, authorization string, n int) (code int, text string, done func()) {
	switch {
	case r.tokens != nil:
		return r.tokens.admit(log, authorization, n)
	case r.host.Node.Ident().State().Enabled:
		return http.StatusUnauthorized, "authentication is on; start the server with --tlog-tokens, and send one of the log's as Authorization: Bearer TOKEN", nil
	}
	return 0, "", nil
}
