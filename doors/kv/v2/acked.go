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
	s.level = h.opts.Ack.Default
	asked := ctx.Request.Header.PeekBytes(headerAck)
	if len(asked) == 0 {
		return true
	}
	level, err := h.opts.Ack.Level(string(asked))
	if err != nil {
		h.refused(ctx, s, codeInvalidField, err.Error(), 0)
		return false
	}
	s.level = level
	return true
}

// raftIndex is the index of the log that an answer shows: one that is archived, if the request waits for that.
func (h *Handler) raftIndex(s *scratch, st *node.Status) uint64 {
	if s.level == ack.Archive {
		return h.node.ArchivedIndex()
	}
	return st.Commit
}

// archived returns true once all is archived that a watch can have on its queue, false if that takes longer than the watch may, or the
// server stops.
func (h *Handler) archived(over time.Time) bool {
	if h.node.ArchivedIndex() >= h.node.ReadIndex() {
		return true
	}
	ctx, cancel := context.WithDeadline(h.life, over)
	defer cancel()
	return ack.Read(ctx, h.node) == nil
}
