package v2

import (
	"context"
	"errors"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/core/node"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
	"github.com/holdfastdb/holdfast/serve/ack"
)

// Codes of errors of neither the request nor the machine.
const (
	codeUnauthorized = 110
	codeRaft         = 300
)

// messages are etcd's texts for its codes.
var messages = map[int]string{
	100: "Key not found", 101: "Compare failed", 102: "Not a file", 104: "Not a directory", 105: "Key already exists",
	107: "Root is read only", 108: "Directory not empty", codeUnauthorized: "The request requires user authentication",
	codePrevValueRequired: "PrevValue is Required in POST form",
	codeTTLNaN:            "The given TTL in POST form is not a number",
	codeIndexNaN:          "The given index in POST form is not a number",
	codeInvalidField:      "Invalid field",
	codeInvalidForm:       "Invalid POST form",
	codeRefreshValue:      "Value provided on refresh",
	codeRefreshTTL:        "A TTL must be provided on refresh",
	codeRaft:              "Raft Internal Error",
	401:                   "The event in requested index is outdated and cleared",
}

// statusOf is the HTTP status that goes with a code.
func statusOf(code int) int {
	switch code {
	case 100:
		return fasthttp.StatusNotFound
	case 101, 105:
		return fasthttp.StatusPreconditionFailed
	case 102, 108:
		return fasthttp.StatusForbidden
	case codeUnauthorized:
		return fasthttp.StatusUnauthorized
	case codeRaft:
		return fasthttp.StatusInternalServerError
	}
	return fasthttp.StatusBadRequest
}

// cause is the text that a client gets for an error that is not its own fault. An unknown outcome is a time-out, which every
// etcd client knows to mean just that.
func cause(err error) string {
	switch {
	case errors.Is(err, node.ErrUnknown), errors.Is(err, node.ErrNoLeader), errors.Is(err, context.DeadlineExceeded):
		return "etcdserver: request timed out"
	case errors.Is(err, node.ErrOverloaded):
		return "etcdserver: too many requests"
	case errors.Is(err, node.ErrStopped):
		return "etcdserver: server stopped"
	case errors.Is(err, node.ErrTooLarge), errors.Is(err, errTooLarge):
		return "etcdserver: request is too large"
	case errors.Is(err, v2machine.ErrTooLarge):
		return "the listing is larger than this server buffers for one answer; list the directories below it one by one"
	}
	return err.Error()
}

var (
	errLearner         = errors.New("etcdserver: rpc not supported for learner")
	errTooLarge        = errors.New("request is too large")
	errTooManyWatchers = errors.New("too many watches wait already; close some or ask another member")
	errClosed          = errors.New("etcdserver: server stopped")
)

// refused answers with etcd's error object.
func (h *Handler) refused(ctx *fasthttp.RequestCtx, s *scratch, code int, cause string, index uint64) {
	s.body = appendError(s.body[:0], code, cause, index)
	ctx.SetStatusCode(statusOf(code))
	ctx.Response.Header.SetContentTypeBytes(contentJSON)
	ctx.Response.Header.SetCanonical(headerCluster, h.cluster)
	s.num = appendUint(s.num[:0], index)
	ctx.Response.Header.SetCanonical(headerIndex, s.num)
	ctx.SetBody(s.body)
}

// failed answers with the client's form of an error.
func (h *Handler) failed(ctx *fasthttp.RequestCtx, s *scratch, err error) {
	var r *v2part.Refusal
	if errors.As(err, &r) {
		if code := int(r.Code); messages[code] != "" {
			h.refused(ctx, s, code, r.Cause, r.Index)
			return
		}
		err = r
	}
	h.refused(ctx, s, codeRaft, cause(err), 0)
	var not *ack.NotArchived
	switch {
	case errors.Is(err, errLearner):
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable) // clients go on to the next member
	case errors.As(err, &not):
		ctx.SetStatusCode(fasthttp.StatusGatewayTimeout)
	}
}
