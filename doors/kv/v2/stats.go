package v2

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/core/node"
)

// storeStats answers /v2/stats/store: this process's operations on v2 keys since it started.
func (h *Handler) storeStats(ctx *fasthttp.RequestCtx, s *scratch) {
	if !allow(ctx, "GET") {
		return
	}
	st := h.machine.Stats()
	s.body = append(s.body[:0], '{')
	for i, c := range [...]struct {
		name string
		n    uint64
	}{
		{"getsSuccess", st.Gets.Load()}, {"getsFail", st.GetFails.Load()},
		{"setsSuccess", st.Sets.Load()}, {"setsFail", st.SetFails.Load()},
		{"deleteSuccess", st.Deletes.Load()}, {"deleteFail", st.DeleteFails.Load()},
		{"updateSuccess", st.Updates.Load()}, {"updateFail", st.UpdateFails.Load()},
		{"createSuccess", st.Creates.Load()}, {"createFail", st.CreateFails.Load()},
		{"compareAndSwapSuccess", st.Swaps.Load()}, {"compareAndSwapFail", st.SwapFails.Load()},
		{"compareAndDeleteSuccess", st.CompareAndDeletes.Load()}, {"compareAndDeleteFail", st.CompareAndDeleteFails.Load()},
		{"expireCount", st.Expired.Load()}, {"watchers", uint64(h.hub.waiting())},
	} {
		if i > 0 {
			s.body = append(s.body, ',')
		}
		s.body = append(append(append(s.body, '"'), c.name...), '"', ':')
		s.body = appendUint(s.body, c.n)
	}
	s.body = append(s.body, '}')
	h.json(ctx, s, fasthttp.StatusOK)
}

// selfStats answers /v2/stats/self. etcd's counters of its own peer protocol are 0 here: there is none.
func (h *Handler) selfStats(ctx *fasthttp.RequestCtx, s *scratch) {
	if !allow(ctx, "GET") {
		return
	}
	st := h.node.Status()
	state := "StateFollower"
	if st.Leader == st.MemberID {
		state = "StateLeader"
	}
	began := h.began.UTC().Format(time.RFC3339Nano)
	b := appendString(append(s.body[:0], `{"name":`...), []byte(st.Name))
	b = strconv.AppendUint(append(b, `,"id":"`...), st.MemberID, 16)
	b = append(append(append(b, `","state":"`...), state...), `","startTime":"`...)
	b = append(append(b, began...), `","leaderInfo":{"leader":"`...)
	b = strconv.AppendUint(b, st.Leader, 16)
	b = append(append(b, `","uptime":"`...), time.Since(h.began).String()...)
	b = append(append(b, `","startTime":"`...), began...)
	s.body = append(b, `"},"recvAppendRequestCnt":0,"sendAppendRequestCnt":0}`...)
	h.json(ctx, s, fasthttp.StatusOK)
}

// leaderStats answers /v2/stats/leader. Latencies are in milliseconds, as in etcd. They last until the follower reports the entries on disk
// (etcd times its own sending). "success" counts timed entries, "fail" entries without a connection.
func (h *Handler) leaderStats(ctx *fasthttp.RequestCtx, s *scratch) {
	if !allow(ctx, "GET") {
		return
	}
	st := h.node.Status()
	if st.Leader != st.MemberID {
		h.message(ctx, s, fasthttp.StatusForbidden, "not current leader")
		return
	}
	b := strconv.AppendUint(append(s.body[:0], `{"leader":"`...), st.MemberID, 16)
	b = append(b, `","followers":{`...)
	first := true
	for _, f := range h.node.Followers() {
		if f.ID == st.MemberID {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = strconv.AppendUint(append(b, '"'), f.ID, 16)
		b = appendLatency(append(b, '"', ':'), &f.Latency)
	}
	s.body = append(b, `}}`...)
	h.json(ctx, s, fasthttp.StatusOK)
}

// Watchers is how many watches there are.
func (h *Handler) Watchers() int { return h.hub.waiting() }

// appendLatency appends what is known of one follower.
func appendLatency(b []byte, l *node.Latency) []byte {
	b = append(b, `{"latency":{`...)
	for i, v := range [...]struct {
		name string
		d    time.Duration
	}{{"current", l.Current}, {"average", l.Mean()}, {"standardDeviation", l.Deviation()}, {"minimum", l.Min}, {"maximum", l.Max}} {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), v.name...), '"', ':')
		b = strconv.AppendFloat(b, float64(v.d)/float64(time.Millisecond), 'g', -1, 64)
	}
	b = appendUint(append(b, `},"counts":{"fail":`...), l.Failed)
	return append(appendUint(append(b, `,"success":`...), l.Count), '}', '}')
}
