package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

const testCluster = 0xc1

// patience bounds every wait of these tests; it is reached only when something is broken.
const patience = 10 * time.Second

// recorder is a Handler that keeps what it got.
type recorder struct {
	mu      sync.Mutex
	frames  map[string][]string // "from lane" → frames in order; guarded by mu
	reconns map[string]int      // "to lane" → calls; guarded by mu
	changed chan struct{}       // closed and renewed at every event; guarded by mu

	hold   chan struct{} // if not nil, HandleFrame waits for it
	stream func(from uint64, r io.Reader) error
	ask    func(q []byte) ([]byte, error)
}

func newRecorder() *recorder {
	return &recorder{frames: map[string][]string{}, reconns: map[string]int{}, changed: make(chan struct{})}
}

func (r *recorder) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func key(id uint64, lane Lane) string { return fmt.Sprintf("%d %s", id, lane) }

func (r *recorder) HandleFrame(from uint64, lane Lane, frame []byte) {
	if r.hold != nil {
		<-r.hold
	}
	r.note(func() { r.frames[key(from, lane)] = append(r.frames[key(from, lane)], string(frame)) })
}

func (r *recorder) HandleStream(from uint64, in io.Reader) error { return r.stream(from, in) }
func (r *recorder) HandleAsk(q []byte) ([]byte, error)           { return r.ask(q) }

func (r *recorder) Reconnected(to uint64, lane Lane) { r.note(func() { r.reconns[key(to, lane)]++ }) }

// got returns the frames of one lane so far.
func (r *recorder) got(from uint64, lane Lane) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.frames[key(from, lane)])
}

// await waits until ok, which runs under the lock, says true.
func (r *recorder) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
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

// connect makes a know b and waits until the lanes are up.
func connect(t *testing.T, a *TCP, ar *recorder, id uint64, addr string) {
	t.Helper()
	ar.mu.Lock()
	before := map[Lane]int{}
	for _, l := range []Lane{LaneControl, LaneAppend, LaneForward} {
		before[l] = ar.reconns[key(id, l)]
	}
	ar.mu.Unlock()
	a.SetPeer(id, addr)
	ar.await(t, "lanes up", func() bool {
		for l, n := range before {
			if ar.reconns[key(id, l)] == n {
				return false
			}
		}
		return true
	})
}

func TestFramesArriveInOrderPerLane(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	const each = 2000
	lanes := []Lane{LaneControl, LaneAppend, LaneForward}
	for i := range each {
		for _, l := range lanes {
			if !a.Send(2, l, fmt.Appendf(nil, "%d", i)) {
				t.Fatalf("frame %d of %s dropped", i, l)
			}
		}
	}
	for _, l := range lanes {
		br.await(t, l.String(), func() bool { return len(br.frames[key(1, l)]) == each })
		for i, f := range br.got(1, l) {
			if f != fmt.Sprint(i) {
				t.Fatalf("%s: frame %d is %q", l, i, f)
			}
		}
	}
}

// Frames of all sizes into a receiver that stops and goes: whichever way a frame takes to the socket, none overtakes another
// and none is torn.
func TestOrderUnderBackPressure(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	br.hold = make(chan struct{})
	connect(t, a, ar, 2, b.Addr())
	const count = 3000
	go func() {
		for i := range count {
			if i%500 == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			br.hold <- struct{}{}
		}
	}()
	rng := rand.New(rand.NewPCG(1, 2))
	var sent []string
	for i := range count {
		f := fmt.Appendf(nil, "%d ", i)
		f = append(f, make([]byte, rng.IntN(1<<rng.IntN(16)))...)
		sent = append(sent, string(f))
		wait.Until(t, "room", func() bool { return a.Send(2, LaneAppend, f) })
	}
	br.await(t, "all frames", func() bool { return len(br.frames[key(1, LaneAppend)]) == count })
	for i, f := range br.got(1, LaneAppend) {
		if f != sent[i] {
			t.Fatalf("frame %d: %d bytes that begin with %.10q, want %d that begin with %.10q", i, len(f), f, len(sent[i]), sent[i])
		}
	}
}

func TestSendToNobodyIsDropped(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, _ := member(t, 2, TCPOptions{})
	if a.Send(2, LaneControl, []byte("x")) {
		t.Error("a frame to an unknown member was taken")
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	a.SetPeer(3, closed.Addr().String())
	if a.Send(3, LaneControl, []byte("x")) {
		t.Error("a frame to a member that is not connected was taken")
	}
	connect(t, a, ar, 2, b.Addr())
	if a.Send(2, LaneSnapshot, []byte("x")) {
		t.Error("a frame on the snapshot lane, which carries streams only, was taken")
	}
}

func TestReconnects(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, _ := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	addr := b.Addr()
	b.Close()
	wait.Until(t, "lane down", func() bool { return !a.Send(2, LaneControl, []byte("lost")) })
	if d := a.ConnectedFor(2); d != 0 {
		t.Errorf("connected for %d ns with a member that is gone", d)
	}
	_, br := memberAt(t, 2, addr, TCPOptions{})
	ar.await(t, "second connection", func() bool { return ar.reconns[key(2, LaneControl)] == 2 && ar.reconns[key(2, LaneAppend)] == 2 })
	if !a.Send(2, LaneControl, []byte("again")) {
		t.Fatal("dropped after Reconnected")
	}
	br.await(t, "frame after the reconnection", func() bool { return len(br.frames[key(1, LaneControl)]) == 1 })
	if got := br.got(1, LaneControl)[0]; got != "again" {
		t.Fatalf("got %q: a frame of the old connection must not appear on the new one", got)
	}
}

// dialHello opens a connection by hand and returns the sentence it was answered with, "" if it was let in.
func dialHello(t *testing.T, addr string, h hello) (net.Conn, *bufio.Reader, string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write(frames(t, h.append(nil))); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	answer, err := readFrame(r, 4096)
	if err != nil {
		t.Fatal(err)
	}
	return c, r, string(answer)
}

func TestHelloRefusedWithSentence(t *testing.T) {
	b, br := member(t, 2, TCPOptions{})
	b.RemovePeer(9)
	newborn, err := ListenTCP("127.0.0.1:0", TCPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	newborn.Start(newRecorder())
	defer newborn.Close()
	for _, c := range []struct {
		name string
		addr string
		h    hello
		want string
	}{
		{"another cluster", b.Addr(), hello{cluster: 0xc2, from: 1, to: 2}, "cluster id mismatch: this member belongs to another cluster"},
		{"meant for another member", b.Addr(), hello{cluster: testCluster, from: 1, to: 3}, "member id mismatch: this member is not 3"},
		{"removed", b.Addr(), hello{cluster: testCluster, from: 9, to: 2}, "member 9 was removed from the cluster"},
		{"not in a cluster yet", newborn.Addr(), hello{cluster: testCluster, from: 1, to: 2}, "not ready: this member has not joined a cluster yet"},
		{"unknown lane", b.Addr(), hello{kind: 77, cluster: testCluster, from: 1, to: 2}, "bad frame: unknown lane 77"},
	} {
		conn, r, got := dialHello(t, c.addr, c.h)
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("%s: the connection stayed open (%v)", c.name, err)
		}
		conn.Close()
	}
	if got := br.got(1, LaneControl); len(got) != 0 {
		t.Errorf("frames got through: %v", got)
	}
	if _, _, got := dialHello(t, b.Addr(), hello{cluster: testCluster, from: 1, to: 2}); got != "" {
		t.Errorf("a member was refused: %q", got)
	}
}

func TestRemovedMemberIsCutOff(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	connect(t, b, br, 1, a.Addr())
	b.RemovePeer(1)
	wait.Until(t, "connection cut", func() bool { return !a.Send(2, LaneControl, []byte("x")) })
	if b.Send(1, LaneControl, []byte("x")) {
		t.Error("a frame to a removed member was taken")
	}
	if _, _, got := dialHello(t, b.Addr(), hello{cluster: testCluster, from: 1, to: 2}); !strings.Contains(got, "was removed") {
		t.Errorf("a removed member came back: %q", got)
	}
}

// What cannot be sent is dropped beyond a bound in bytes; a slow member must not become a memory problem of its leader.
func TestQueueIsBounded(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	br.hold = make(chan struct{})
	defer close(br.hold)
	connect(t, a, ar, 2, b.Addr())
	const size = 64 << 10
	most := 3 * (queueBytes[LaneControl] + 16<<20) // and what the kernel's buffers hold
	taken := 0
	for a.Send(2, LaneControl, make([]byte, size)) {
		if taken += size; taken > most {
			t.Fatalf("%d bytes were taken for a member that reads nothing", taken)
		}
	}
	l := a.peers[2].lanes[LaneControl]
	l.mu.Lock()
	queued := l.bytes
	l.mu.Unlock()
	if queued > queueBytes[LaneControl] {
		t.Fatalf("%d bytes queued, bound %d", queued, queueBytes[LaneControl])
	}
	if !a.Send(2, LaneAppend, []byte("x")) {
		t.Error("one full lane closed another")
	}
}

// A single frame larger than the whole bound still goes when nothing else waits, else it could never be sent.
func TestLargeFrameGoesAlone(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	if !a.Send(2, LaneControl, make([]byte, 2*queueBytes[LaneControl])) {
		t.Fatal("dropped")
	}
	br.await(t, "large frame", func() bool { return len(br.frames[key(1, LaneControl)]) == 1 })
}

func TestOversizedFrameCutsTheConnection(t *testing.T) {
	b, br := member(t, 2, TCPOptions{})
	c, r, refusal := dialHello(t, b.Addr(), hello{kind: byte(LaneAppend), cluster: testCluster, from: 1, to: 2})
	if refusal != "" {
		t.Fatal(refusal)
	}
	c.Write(frames(t, []byte("fine")))
	c.Write([]byte{1, 0, 0, 1, 0, 0, 0, 0}) // MaxFrameBytes + 1
	if _, err := r.ReadByte(); err == nil {
		t.Fatal("the connection lives")
	}
	if got := br.got(1, LaneAppend); len(got) != 1 || got[0] != "fine" {
		t.Fatalf("frames %q", got)
	}
}

func TestStream(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	content := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // 3.2 MB
	var got []byte
	br.stream = func(from uint64, r io.Reader) (err error) {
		if from != 1 {
			return fmt.Errorf("from %d", from)
		}
		got, err = io.ReadAll(r)
		return err
	}
	if err := sendStream(a, 2, func(w io.Writer) error { _, err := w.Write(content); return err }); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, content) {
		t.Fatalf("%d bytes arrived of %d", len(got), len(content))
	}
}

// While a stream comes in no other is taken, so one that falls silent is given up.
func TestASilentStreamIsGivenUp(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	b.streamPatience = 100 * time.Millisecond // nothing has come in yet
	connect(t, a, ar, 2, b.Addr())
	received := make(chan error, 1)
	br.stream = func(_ uint64, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		received <- err
		return err
	}
	over := make(chan struct{})
	go func() {
		_ = sendStream(a, 2, func(w io.Writer) error { // its end is the receiver's
			_, err := w.Write(make([]byte, 2*streamChunk))
			<-over
			return err
		})
	}()
	select {
	case err := <-received:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("receiver: %v", err)
		}
	case <-time.After(patience):
		t.Error("the receiver waits for ever")
	}
	close(over)
}

func sendStream(a *TCP, to uint64, write func(io.Writer) error) error {
	done := make(chan error, 1)
	a.SendStream(to, write, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return errors.New("SendStream never ended")
	}
}

func TestBrokenStreamIsAnErrorOnBothSides(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	received := make(chan error, 1)
	br.stream = func(_ uint64, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		received <- err
		return err
	}
	broken := errors.New("the store went away")
	if err := sendStream(a, 2, func(w io.Writer) error {
		if _, err := w.Write(make([]byte, 2*streamChunk+1)); err != nil {
			return err
		}
		return broken
	}); !errors.Is(err, broken) {
		t.Errorf("sender: %v", err)
	}
	if err := <-received; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("receiver: %v", err)
	}
	// The other way round: the receiver refuses, in the middle or at the end; the sender hears the sentence or at least an error.
	br.stream = func(_ uint64, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return errors.Join(err, errors.New("outdated"))
	}
	if err := sendStream(a, 2, func(w io.Writer) error { _, err := w.Write([]byte("x")); return err }); !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), "outdated") {
		t.Errorf("refused at the end: %v", err)
	}
	br.stream = func(uint64, io.Reader) error { return errors.New("another snapshot is being received") }
	if err := sendStream(a, 2, func(w io.Writer) error { _, err := w.Write(make([]byte, 64<<20)); return err }); err == nil {
		t.Error("refused at the start: the sender heard nothing")
	}
	if err := sendStream(a, 99, func(io.Writer) error { return nil }); err == nil {
		t.Error("a stream to an unknown member ended well")
	}
}

// The receiver's machine dies in the middle of a stream.
func TestStreamToDyingReceiver(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	started := make(chan struct{})
	br.stream = func(_ uint64, r io.Reader) error {
		close(started)
		_, err := io.Copy(io.Discard, r)
		return err
	}
	err := sendStream(a, 2, func(w io.Writer) error {
		for i := 0; ; i++ {
			if _, err := w.Write(make([]byte, streamChunk)); err != nil {
				return err
			}
			if i == 1 {
				<-started
				go b.Close()
			}
		}
	})
	if err == nil {
		t.Fatal("the sender thinks it was taken")
	}
}

func TestAsk(t *testing.T) {
	b, err := ListenTCP("127.0.0.1:0", TCPOptions{}) // not identified: it answers questions all the same
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	br := newRecorder()
	br.ask = func(q []byte) ([]byte, error) {
		if string(q) == "who?" {
			return []byte("two"), nil
		}
		return nil, fmt.Errorf("unknown question %q", q)
	}
	b.Start(br)
	a, err := ListenTCP("", TCPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if got, err := a.Ask(ctx, b.Addr(), []byte("who?")); err != nil || string(got) != "two" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := a.Ask(ctx, b.Addr(), []byte("why?")); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), `unknown question "why?"`) {
		t.Errorf("refusal: %v", err)
	}
	late, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	gate := make(chan struct{})
	br.ask = func([]byte) ([]byte, error) { <-gate; return nil, nil }
	if _, err := a.Ask(late, b.Addr(), []byte("slow")); err == nil {
		t.Error("an answer that never came")
	}
	close(gate)
}

func TestConnectedFor(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	if d := a.ConnectedFor(2); d != 0 {
		t.Errorf("an unknown member: %d", d)
	}
	connect(t, a, ar, 2, b.Addr())
	if d := a.ConnectedFor(2); d != 0 {
		t.Errorf("connected in one direction only: %d", d)
	}
	connect(t, b, br, 1, a.Addr())
	wait.Until(t, "both directions up", func() bool { return a.ConnectedFor(2) > 0 && b.ConnectedFor(1) > 0 })
	first := a.ConnectedFor(2)
	time.Sleep(20 * time.Millisecond)
	if d := a.ConnectedFor(2) - first; d < int64(20*time.Millisecond) {
		t.Errorf("grew by %v in 20 ms", time.Duration(d))
	}
}

func TestCloseLeavesNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	connect(t, b, br, 1, a.Addr())
	a.SetPeer(3, "127.0.0.1:1") // nobody there: its lanes are dialling
	for range 100 {
		a.Send(2, LaneAppend, make([]byte, 1000))
	}
	a.Close()
	b.Close()
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
	}
	a.SetPeer(2, "127.0.0.1:1") // after Close: nothing
	if a.Send(2, LaneControl, []byte("x")) {
		t.Error("sent after Close")
	}
}
