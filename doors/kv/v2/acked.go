package v2

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/serve/ack"
)

// asks notes the level that a request about keys asks for. It returns false, and has answered, if there is no such level.
func (h *Handler) asks(ctx *fasthttp.RequestCtx, s *scratch) bool {
	var err error
	if s.session, err = h.opts.Ack.Session(string(ctx.Request.Header.PeekBytes(headerAck))); err != nil {
		h.refused(ctx, s, codeInvalidField, err.Error(), 0)
		return false
	}
	return true
}

// raftIndex is the index of the log that an answer shows: one that is archived, if the request waits for that.
func (h *Handler) raftIndex(s *scratch, st *node.Status) uint64 {
	if s.session.Waits() {
		return h.node.ArchivedIndex()
	}
	return st.Commit
}

// archived returns true once every event that a watch can have queued is archived. It returns false if that takes longer than the watch may
// last, or the server stops.
func (h *Handler) archived(over time.Time) bool {
	if h.node.ArchivedIndex() >= h.node.ReadIndex() {
		return true
	}
	ctx, cancel := context.WithDeadline(h.life, over)
	defer cancel()
	return ack.Read(ctx, h.node) == nil
}
