package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

const testCluster = 0xc1

// patience bounds every wait of these tests; it is reached only when something is broken.
const patience = 10 * time.Second

func TestFramesArriveInOrderPerChannel(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	const each = 2000
	channels := []Channel{ChannelControl, ChannelAppend, ChannelForward}
	for i := range each {
		for _, l := range channels {
			if !a.Send(2, l, fmt.Appendf(nil, "%d", i)) {
				t.Fatalf("frame %d of %s dropped", i, l)
			}
		}
	}
	for _, l := range channels {
		br.await(t, l.String(), func() bool { return len(br.frames[key(1, l)]) == each })
		for i, f := range br.got(1, l) {
			if f != fmt.Sprint(i) {
				t.Fatalf("%s: frame %d is %q", l, i, f)
			}
		}
	}
}

// Frames of all sizes into a receiver that stops and goes: on either way to the socket, none overtakes another and none is torn.
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
		wait.Until(t, "room", func() bool { return a.Send(2, ChannelAppend, f) })
	}
	br.await(t, "all frames", func() bool { return len(br.frames[key(1, ChannelAppend)]) == count })
	for i, f := range br.got(1, ChannelAppend) {
		if f != sent[i] {
			t.Fatalf("frame %d: %d bytes that begin with %.10q, want %d that begin with %.10q", i, len(f), f, len(sent[i]), sent[i])
		}
	}
}

func TestSendToNobodyIsDropped(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, _ := member(t, 2, TCPOptions{})
	if a.Send(2, ChannelControl, []byte("x")) {
		t.Error("a frame to an unknown member was taken")
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	a.SetPeer(3, closed.Addr().String())
	if a.Send(3, ChannelControl, []byte("x")) {
		t.Error("a frame to a member that is not connected was taken")
	}
	connect(t, a, ar, 2, b.Addr())
	if a.Send(2, ChannelSnapshot, []byte("x")) {
		t.Error("a frame on the snapshot channel, which carries streams only, was taken")
	}
}

func TestReconnects(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, _ := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	addr := b.Addr()
	b.Close()
	wait.Until(t, "channel down", func() bool { return !a.Send(2, ChannelControl, []byte("lost")) })
	if d := a.ConnectedFor(2); d != 0 {
		t.Errorf("connected for %d ns with a member that is gone", d)
	}
	_, br := memberAt(t, 2, addr, TCPOptions{})
	ar.await(t, "second connection", func() bool { return ar.reconns[key(2, ChannelControl)] == 2 && ar.reconns[key(2, ChannelAppend)] == 2 })
	if !a.Send(2, ChannelControl, []byte("again")) {
		t.Fatal("dropped after Reconnected")
	}
	br.await(t, "frame after the reconnection", func() bool { return len(br.frames[key(1, ChannelControl)]) == 1 })
	if got := br.got(1, ChannelControl)[0]; got != "again" {
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
	c.SetDeadline(time.Now().Add(wait.Limit(t)))
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
		{"unknown channel", b.Addr(), hello{kind: 77, cluster: testCluster, from: 1, to: 2}, "bad frame: unknown channel 77"},
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
	if got := br.got(1, ChannelControl); len(got) != 0 {
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
	wait.Until(t, "connection cut", func() bool { return !a.Send(2, ChannelControl, []byte("x")) })
	if b.Send(1, ChannelControl, []byte("x")) {
		t.Error("a frame to a removed member was taken")
	}
	if _, _, got := dialHello(t, b.Addr(), hello{cluster: testCluster, from: 1, to: 2}); !strings.Contains(got, "was removed") {
		t.Errorf("a removed member came back: %q", got)
	}
	ar.await(t, "it hears why", func() bool { return ar.expelled[2] > 0 })
	if br.expelled[1] > 0 {
		t.Error("who removes another is told that it was removed itself")
	}
}

// Unsent frames are dropped beyond a bound in bytes; a slow member must not become a memory problem of its leader.
func TestQueueIsBounded(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	br.hold = make(chan struct{})
	defer close(br.hold)
	connect(t, a, ar, 2, b.Addr())
	const size = 64 << 10
	most := 3 * (queueBytes[ChannelControl] + 16<<20) // and what the kernel's buffers hold
	taken := 0
	for a.Send(2, ChannelControl, make([]byte, size)) {
		if taken += size; taken > most {
			t.Fatalf("%d bytes were taken for a member that reads nothing", taken)
		}
	}
	l := a.peers[2].channels[ChannelControl]
	l.mu.Lock()
	queued := l.bytes
	l.mu.Unlock()
	if queued > queueBytes[ChannelControl] {
		t.Fatalf("%d bytes queued, bound %d", queued, queueBytes[ChannelControl])
	}
	if !a.Send(2, ChannelAppend, []byte("x")) {
		t.Error("one full channel closed another")
	}
}

// A single frame larger than the whole bound still goes when nothing else waits, else it could never be sent.
func TestLargeFrameGoesAlone(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	if !a.Send(2, ChannelControl, make([]byte, 2*queueBytes[ChannelControl])) {
		t.Fatal("dropped")
	}
	br.await(t, "large frame", func() bool { return len(br.frames[key(1, ChannelControl)]) == 1 })
}

func TestOversizedFrameCutsTheConnection(t *testing.T) {
	b, br := member(t, 2, TCPOptions{})
	c, r, refusal := dialHello(t, b.Addr(), hello{kind: byte(ChannelAppend), cluster: testCluster, from: 1, to: 2})
	if refusal != "" {
		t.Fatal(refusal)
	}
	c.Write(frames(t, []byte("fine")))
	c.Write([]byte{1, 0, 0, 1, 0, 0, 0, 0}) // MaxFrameBytes + 1
	if _, err := r.ReadByte(); err == nil {
		t.Fatal("the connection lives")
	}
	if got := br.got(1, ChannelAppend); len(got) != 1 || got[0] != "fine" {
		t.Fatalf("frames %q", got)
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
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
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
	a.SetPeer(3, "127.0.0.1:1") // no listener there: its channels are dialling
	for range 100 {
		a.Send(2, ChannelAppend, make([]byte, 1000))
	}
	a.Close()
	b.Close()
	for deadline := time.Now().Add(wait.Limit(t)); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
	}
	a.SetPeer(2, "127.0.0.1:1") // after Close: nothing
	if a.Send(2, ChannelControl, []byte("x")) {
		t.Error("sent after Close")
	}
}
