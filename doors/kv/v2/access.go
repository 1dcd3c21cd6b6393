package v2

import (
	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/serve/port"
)

// access is how a request was admitted: because authentication is off (asked is false), or as root by the users and roles of a revision.
//
// The catalogue can change between judging and doing, and this member may be the last to hear of it. So a write carries the revision into
// the log. It is refused there if the revision has changed, or if authentication is on by then and it carries none. A read looks again when
// it is done (stands). In both cases the request is judged anew.
type access struct {
	asked    bool
	revision uint64
}

// allowed judges whether a request may do anything at all.
func (h *Handler) allowed(ctx *fasthttp.RequestCtx) (a access, ok bool) {
	if a.asked, _ = h.opts.Catalogue(); !a.asked {
		return a, true
	}
	user, password, ok := basicAuth(ctx.Request.Header.Peek("Authorization"))
	if !ok || h.opts.RootBasic == nil {
		return a, false
	}
	a.revision, ok = h.opts.RootBasic(port.Host(ctx), user, password)
	return a, ok
}

// stands reports whether a request admitted by a would be admitted now.
func (h *Handler) stands(a access) bool {
	asked, revision := h.opts.Catalogue()
	return !asked || a.asked && a.revision == revision
}

// command is a part of the v2 machine with what lets it pass. While authentication is off that is the part alone, without a pass.
func (a access) command(parts *[2]entry.Part, body []byte) []entry.Part {
	parts[1] = entry.Part{Machine: entry.MachineEtcd2, Body: body}
	if !a.asked {
		return parts[1:]
	}
	parts[0] = entry.Part{Machine: entry.MachineIdent, Body: eident.AppendPart(nil, &eident.Part{Pass: &eident.Pass{Revision: a.revision}})}
	return parts[:]
}
