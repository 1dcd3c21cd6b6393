package machine

import "sort"

// feed keeps the newest events in memory for watches, bounded in bytes. It consists of append-only blocks, so that readers share them
// without copying. A reader holds a slice of a block up to the end published when it asked. Guarded by Machine.gate.
type feed struct {
	limit  int
	blocks []*feedBlock // oldest first
	bytes  int
	after  int64 // the feed holds every event of revisions above this
	rev    int64 // and up to this
}

// feedBlock holds whole revisions.
type feedBlock struct {
	events []Event
	first  int64 // revision of the first event
	bytes  int
}

const (
	feedBlockEvents = 256
	eventOverhead   = 96 // bytes of an Event itself
)

func (f *feed) reset(rev int64, limit int) {
	*f = feed{limit: limit, after: rev, rev: rev}
}

// append adds the events of one entry, up to revision rev. Blocks are cut between revisions only.
func (f *feed) append(evs []Event, rev int64) {
	for len(evs) > 0 {
		n := 1
		for n < len(evs) && evs[n].KV.ModRevision == evs[0].KV.ModRevision {
			n++
		}
		f.appendRevision(evs[:n])
		evs = evs[n:]
	}
	f.rev = rev
	for f.bytes > f.limit && len(f.blocks) > 1 {
		f.bytes -= f.blocks[0].bytes
		f.blocks[0] = nil
		f.blocks = f.blocks[1:]
		f.after = f.blocks[0].first - 1
	}
}

func (f *feed) appendRevision(evs []Event) {
	var b *feedBlock
	if n := len(f.blocks); n > 0 {
		b = f.blocks[n-1]
	}
	// A block is also closed by its bytes, so that dropping the oldest one never drops most of the feed.
	if b == nil || len(b.events)+len(evs) > cap(b.events) || b.bytes > f.limit/16 {
		b = &feedBlock{events: make([]Event, 0, max(feedBlockEvents, len(evs))), first: evs[0].KV.ModRevision}
		f.blocks = append(f.blocks, b)
		b.bytes = eventOverhead * cap(b.events)
		f.bytes += b.bytes
	}
	b.events = append(b.events, evs...)
	for i := range evs {
		n := len(evs[i].KV.Key) + len(evs[i].KV.Value)
		b.bytes += n
		f.bytes += n
	}
}

// Recent returns the events of revisions > after from the in-memory ring, in revision order (whole revisions, shared memory, do not
// modify). ok: the ring still reached back that far. changed is closed when a newer revision than the returned ones is published. It may
// return only part of them, up to revision upTo, with changed closed already: ask again.
func (m *Machine) Recent(after int64) (evs []Event, upTo int64, ok bool, changed <-chan struct{}) {
	m.gate.Lock()
	defer m.gate.Unlock()
	f := &m.feed
	if after < f.after {
		return nil, f.after, false, closedChan
	}
	// The first event after `after` is in the last block that begins no later.
	i := sort.Search(len(f.blocks), func(i int) bool { return f.blocks[i].first > after+1 })
	for i = max(i-1, 0); i < len(f.blocks); i++ {
		b := f.blocks[i]
		from := sort.Search(len(b.events), func(j int) bool { return b.events[j].KV.ModRevision > after })
		if from == len(b.events) {
			continue
		}
		evs = b.events[from:len(b.events):len(b.events)]
		if i+1 < len(f.blocks) {
			return evs, evs[len(evs)-1].KV.ModRevision, true, closedChan
		}
		break
	}
	if m.revChanged == nil {
		m.revChanged = make(chan struct{})
	}
	return evs, max(after, f.rev), true, m.revChanged
}

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
