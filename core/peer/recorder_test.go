package peer

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// recorder is a Handler that keeps what it got.
type recorder struct {
	mu       sync.Mutex
	frames   map[string][]string // "from channel" → frames in order; guarded by mu
	reconns  map[string]int      // "to channel" → calls; guarded by mu
	expelled map[uint64]int      // members that said this one was removed → calls; guarded by mu
	gone     map[uint64]int      // members that refused → calls; guarded by mu
	changed  chan struct{}       // closed and renewed at every event; guarded by mu

	hold   chan struct{} // if not nil, HandleFrame waits for it
	stream func(from uint64, r io.Reader) error
	ask    func(q []byte) ([]byte, error)
}

func newRecorder() *recorder {
	return &recorder{frames: map[string][]string{}, reconns: map[string]int{}, gone: map[uint64]int{}, expelled: map[uint64]int{}, changed: make(chan struct{})}
}

func (r *recorder) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func key(id uint64, channel Channel) string { return fmt.Sprintf("%d %s", id, channel) }

func (r *recorder) HandleFrame(from uint64, channel Channel, frame []byte) {
	if r.hold != nil {
		<-r.hold
	}
	r.note(func() { r.frames[key(from, channel)] = append(r.frames[key(from, channel)], string(frame)) })
}

func (r *recorder) HandleStream(from uint64, in io.Reader) error { return r.stream(from, in) }

func (r *recorder) HandleAsk(q []byte) ([]byte, error) { return r.ask(q) }

func (r *recorder) Reconnected(to uint64, channel Channel) {
	r.note(func() { r.reconns[key(to, channel)]++ })
}

func (r *recorder) Expelled(by uint64) { r.note(func() { r.expelled[by]++ }) }

func (r *recorder) Refused(to uint64) { r.note(func() { r.gone[to]++ }) }

// got returns the frames of one channel so far.
func (r *recorder) got(from uint64, channel Channel) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.frames[key(from, channel)])
}

// await waits until ok, which runs under the lock, says true.
func (r *recorder) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(wait.Limit(t))
	for {
		r.mu.Lock()
		done, changed := ok(), r.changed
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// member is a started and identified TCP network on a free loopback port.
func member(t *testing.T, id uint64, opts TCPOptions) (*TCP, *recorder) {
	t.Helper()
	return memberAt(t, id, "127.0.0.1:0", opts)
}

func memberAt(t *testing.T, id uint64, addr string, opts TCPOptions) (*TCP, *recorder) {
	t.Helper()
	n, err := ListenTCP(addr, opts)
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder()
	n.Start(r)
	n.Identify(testCluster, id)
	t.Cleanup(func() { n.Close() })
	return n, r
}

// connect makes a know b and waits until the channels are up.
func connect(t *testing.T, a *TCP, ar *recorder, id uint64, addr string) {
	t.Helper()
	ar.mu.Lock()
	before := map[Channel]int{}
	for _, l := range []Channel{ChannelControl, ChannelAppend, ChannelForward} {
		before[l] = ar.reconns[key(id, l)]
	}
	ar.mu.Unlock()
	a.SetPeer(id, addr)
	ar.await(t, "channels up", func() bool {
		for l, n := range before {
			if ar.reconns[key(id, l)] == n {
				return false
			}
		}
		return true
	})
}
