package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// ear is one side's half of a watch stream: it sends requests and keeps what each watch was told. How events are packed into
// answers is not compared, because it depends on time; what may be packed together is checked as it comes.
type ear struct {
	x      *side
	stream pb.Watch_WatchClient
	cancel context.CancelFunc

	mu       sync.Mutex // guards the rest, and sending
	asked    []*pb.WatchCreateRequest
	created  int                              // answers to create requests
	newest   int64                            // the id in the last of them
	active   map[int64]*pb.WatchCreateRequest // watches that stand
	expired  map[int64]bool                   // ended by a compaction; false until the original has forgotten them too
	said     map[int64][]string               // by watch id
	last     map[int64]int64                  // by watch id: the last event's revision
	progress int64                            // revision of the last progress answer
	reports  int                              // progress answers
	ended    error
}

func (x *side) listen() (*ear, error) {
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := pb.NewWatchClient(x.conns[x.home]).Watch(ctx, x.options()...)
	if err != nil {
		cancel()
		return nil, err
	}
	e := &ear{x: x, stream: stream, cancel: cancel, active: map[int64]*pb.WatchCreateRequest{}, expired: map[int64]bool{},
		said: map[int64][]string{}, last: map[int64]int64{}}
	go func() {
		for {
			res, err := stream.Recv()
			e.mu.Lock()
			if err != nil {
				e.ended = err
				e.mu.Unlock()
				return
			}
			e.hear(res)
			e.mu.Unlock()
		}
	}()
	return e, nil
}

// hear notes one answer. e.mu is held.
func (e *ear) hear(r *pb.WatchResponse) {
	id := r.WatchId
	say := func(format string, args ...any) { e.said[id] = append(e.said[id], fmt.Sprintf(format, args...)) }
	switch {
	case r.Created:
		e.created++
		e.newest = id
		if len(e.asked) == 0 {
			say("created, which nobody asked for")
			return
		}
		req := e.asked[0]
		e.asked = e.asked[1:]
		if !r.Canceled {
			e.active[id] = req
			delete(e.expired, id)
			delete(e.last, id)
		}
		say("%s", e.x.text(r))
	case r.Canceled && r.CompactRevision != 0:
		say("%s", e.x.text(r))
		delete(e.active, id)
		e.expired[id] = !e.x.original
		if e.x.original { // it would remember the watch until it is told to forget it: see differences
			_ = e.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{
				CancelRequest: &pb.WatchCancelRequest{WatchId: id}}}) // an error shows as the stream's end
		}
	case r.Canceled:
		if gone, ok := e.expired[id]; ok && !gone && e.x.original {
			e.expired[id] = true
			return
		}
		say("%s", e.x.text(r))
		delete(e.active, id)
	case len(r.Events) == 0:
		if r.Fragment || r.CancelReason != "" {
			say("no progress answer: %s", e.x.text(r))
		}
		e.progress = r.Header.GetRevision() - e.x.first
		e.reports++
	default:
		e.events(r)
	}
}

// events notes the events of one answer. e.mu is held.
func (e *ear) events(r *pb.WatchResponse) {
	id, req := r.WatchId, e.active[r.WatchId]
	say := func(format string, args ...any) { e.said[id] = append(e.said[id], fmt.Sprintf(format, args...)) }
	if req == nil {
		say("events for a watch that is not there")
		req = &pb.WatchCreateRequest{}
	}
	if r.Fragment && !req.Fragment {
		say("a fragment, which nobody asked for")
	}
	for i, ev := range r.Events {
		if i == 0 && ev.Kv.ModRevision == e.last[id] && !req.Fragment {
			say("one revision in two answers:")
		}
		e.last[id] = ev.Kv.ModRevision
		say("%s %s", ev.Type, e.x.text(ev))
	}
	if r.Header.GetRevision() < e.last[id] {
		say("a header older than its events: %s", e.x.text(r.Header))
	}
}

func (e *ear) send(r *pb.WatchRequest) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := r.GetCreateRequest(); c != nil {
		e.asked = append(e.asked, c)
	}
	return e.stream.Send(r)
}

// until waits for a condition on the received events, for at most limit.
func (e *ear) until(limit time.Duration, f func() bool) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(500 * time.Microsecond) {
		e.mu.Lock()
		done, ended := f(), e.ended
		e.mu.Unlock()
		if done {
			return true
		}
		if ended != nil || time.Now().After(deadline) {
			return false
		}
	}
}

// catchUp is longer than etcd leaves a watch that begins in the past: it looks for those every 100 ms. One that it has not looked at yet is ended by a
// compaction of revisions that the watch has no events of.
const catchUp = 150 * time.Millisecond

// settle asks for progress until it is reported: every event up to that revision has been sent before. A watch that waits for a future
// revision has none to report. Where there is one, nothing may be reported, and the others are given the time to catch up.
func (e *ear) settle(current int64) {
	e.mu.Lock()
	can := len(e.active) > 0
	for _, req := range e.active {
		if e.x.number(req.StartRevision) > e.x.first+current {
			can = false
		}
	}
	waits := len(e.active) > 0 && !can
	before := e.reports
	e.mu.Unlock()
	ask := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}
	if waits && e.send(ask) == nil && e.until(catchUp, func() bool { return e.reports > before }) {
		e.mu.Lock()
		e.said[-1] = append(e.said[-1], "progress, although a watch waits for the future")
		e.mu.Unlock()
	}
	if !can {
		return
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if e.send(ask) != nil {
			return // the end of the stream is part of the transcript
		}
		if e.until(40*time.Millisecond, func() bool { return e.reports > before }) {
			return
		}
	}
}

// forgotten reports whether the newest watch has ended again, or never began. e.mu is held.
func (e *ear) forgotten() bool {
	return e.active[e.newest] == nil && (e.expired[e.newest] || e.newest == -1)
}

// any draws the id of a watch that stands, or now and then some other.
func (e *ear) any(d *dice) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	ids := slices.Sorted(maps.Keys(e.active))
	if len(ids) == 0 || d.chance(15) {
		return d.r.Int64N(9) - 1
	}
	return one(d, ids...)
}

// transcript is everything the stream's watches were told, by watch.
func (e *ear) transcript() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(e.said)) {
		fmt.Fprintf(&b, "watch %d:\n  %s\n", id, strings.Join(e.said[id], "\n  "))
	}
	fmt.Fprintf(&b, "progress: %d\n", e.progress)
	if e.ended != nil {
		fmt.Fprintf(&b, "ended: %v\n", e.ended)
	}
	return b.String()
}
