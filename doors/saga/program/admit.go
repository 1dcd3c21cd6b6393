package program

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	doorsaga "github.com/holdfastdb/holdfast/doors/saga"
)

// admit judges permission to use the door: programs with a token of --saga-tokens, and those at an address of --saga-clients. DTM's clients
// send no credentials. So with authentication of users on and neither flag set, no client is admitted.
func (r *running) admit(c *doorsaga.Caller) (revision uint64, code int, text string) {
	users := r.host.Node.Ident().State()
	if users.Enabled {
		revision = users.Revision
	}
	if len(r.clients) > 0 && r.listed(c.Host) {
		return revision, 0, ""
	}
	if r.known != nil {
		if scheme, token, _ := strings.Cut(c.Authorization, " "); strings.EqualFold(scheme, "Bearer") && hasToken(r.known, strings.TrimSpace(token)) {
			return revision, 0, ""
		}
		return 0, http.StatusUnauthorized, "no token that may use this door; send one of --saga-tokens as Authorization: Bearer TOKEN"
	}
	switch {
	case len(r.clients) > 0:
		return 0, http.StatusForbidden, "programs at " + c.Host + " may not use this door (--saga-clients)"
	case users.Enabled:
		return 0, http.StatusUnauthorized, "authentication is on; start the server with --saga-tokens or --saga-clients"
	}
	return 0, 0, ""
}

// listed reports whether --saga-clients has the address.
func (r *running) listed(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(r.clients, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
}
