package main

import (
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// watching returns the two halves of one of the script's watch streams; the first watch opens it, and at times a second one.
func (s *script) watching() (a, b *ear, err error) {
	n := len(s.a.ears)
	if n == 0 || n == 1 && s.chance(20) {
		s.pack()
		for _, x := range []*side{s.a, s.b} {
			e, err := x.listen()
			if err != nil {
				return nil, nil, err
			}
			x.ears = append(x.ears, e)
		}
		n++
	}
	i := s.r.IntN(n)
	return s.a.ears[i], s.b.ears[i], nil
}

// watch asks for a watch and waits until both have answered, so that both begin at the same place.
func (s *script) watch() error {
	a, b, err := s.watching()
	if err != nil {
		return err
	}
	req := s.dice.watch()
	s.count["Watch"]++
	s.did = append(s.did, "Watch"+(&frame{}).text(req))
	a.mu.Lock()
	want := a.created + 1
	a.mu.Unlock()
	for _, e := range []*ear{a, b} {
		own := e.x.fill(req).(*pb.WatchCreateRequest)
		if err := e.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: own}}); err != nil {
			return err
		}
	}
	for _, e := range []*ear{a, b} {
		e.until(patience, func() bool { return e.created >= want })
	}
	// One that begins before the history does ends by itself. Its end comes with the original's next round of catching up.
	if at := s.a.number(req.StartRevision) - s.a.first; req.StartRevision > 0 && at < s.compacted {
		for _, e := range []*ear{a, b} {
			e.until(patience, e.forgotten)
		}
	}
	s.hear(a, b)
	return nil
}

// unwatch cancels a watch of the script, or one that is not there.
func (s *script) unwatch() error {
	if len(s.a.ears) == 0 {
		return nil
	}
	i := s.r.IntN(len(s.a.ears))
	a, b := s.a.ears[i], s.b.ears[i]
	a.settle(s.revision) // else what it was told would depend on time
	b.settle(s.revision)
	id := a.any(s.dice)
	s.count["(cancel a watch)"]++
	s.did = append(s.did, fmt.Sprintf("cancel watch %d", id))
	for _, e := range []*ear{a, b} {
		if err := e.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}}); err != nil {
			return err
		}
	}
	for _, e := range []*ear{a, b} {
		e.until(patience, func() bool { return e.active[id] == nil })
	}
	s.hear(a, b)
	return nil
}

// listen lets all watches hear the pending events and compares those of both servers.
func (s *script) listen() error {
	for i := range s.a.ears {
		s.count["(progress)"]++
		s.did = append(s.did, "progress of all watches")
		_, _, err := s.both(func(x *side) (*answer, error) {
			x.ears[i].settle(s.revision)
			return nil, nil
		})
		if err != nil {
			return err
		}
		s.hear(s.a.ears[i], s.b.ears[i])
	}
	return nil
}

// hear compares two transcripts, as soon as they are the same.
func (s *script) hear(a, b *ear) {
	var x, y string
	for deadline := time.Now().Add(patience / 5); ; time.Sleep(time.Millisecond) {
		if x, y = a.transcript(), b.transcript(); x == y || time.Now().After(deadline) {
			break
		}
	}
	s.compare(nil, &answer{text: x}, &answer{text: y})
}

// hangUp ends all watch streams.
func (s *script) hangUp() {
	for _, x := range []*side{s.a, s.b} {
		for _, e := range x.ears {
			e.cancel()
		}
		x.ears = nil
	}
}
