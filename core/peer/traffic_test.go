package peer

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// roundTrips is how many a member has measured to another.
func roundTrips(c *Traffic) uint64 {
	var r meter.Reading
	c.RoundTrip.Read(&r)
	return r.Count
}

// One side's sent counts are the other's received ones, with TLS and without, frames and streams alike. Each knows how long the other takes
// to answer. Handlers never see the measuring frames.
func TestBothSidesCountTheSame(t *testing.T) {
	ca := certtest.NewAuthority("members")
	for name, opts := range map[string]TCPOptions{"cleartext": {}, "tls": secured(ca, ca)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // if the first probe finds a channel down, the next is five seconds away
			a, ar := member(t, 1, opts)
			b, br := member(t, 2, opts)
			connect(t, a, ar, 2, b.Addr())
			connect(t, b, br, 1, a.Addr())
			to, from := a.Traffic(2), b.Traffic(1)
			wait.Until(t, "a round trip each", func() bool { return roundTrips(to) > 0 && roundTrips(from) > 0 })

			const frames, size = 100, 1000
			for range frames {
				if !a.Send(2, ChannelAppend, make([]byte, size)) {
					t.Fatal("dropped")
				}
			}
			br.stream = func(_ uint64, r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }
			if err := sendStream(a, 2, func(w io.Writer) error { _, err := w.Write(make([]byte, 3*streamChunk)); return err }); err != nil {
				t.Fatal(err)
			}
			sent := to.Sent.Load()
			if least := uint64(frames*(frameHeaderLen+size) + 3*streamChunk); sent < least || sent > least+200 {
				t.Errorf("%d bytes sent, want %d and a few", sent, least)
			}
			wait.Until(t, "all of it received", func() bool { return from.Received.Load() == sent })
			if got := br.got(1, ChannelControl); len(got) != 0 {
				t.Errorf("probes reached the handler: %q", got)
			}
			for who, c := range map[string]*Traffic{"a": to, "b": from} {
				if c.SendFailures.Load() != 0 || c.ReceiveFailures.Load() != 0 || c.Disconnects.Load() != 0 {
					t.Errorf("%s: failures counted though nothing failed", who)
				}
			}
		})
	}
}

func TestFailuresAreCounted(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	connect(t, b, br, 1, a.Addr())
	to, from := a.Traffic(2), b.Traffic(1)

	refusal := errors.New("outdated")
	br.stream = func(_ uint64, r io.Reader) error { return errors.Join(refusal, drain(r)) }
	if err := sendStream(a, 2, func(w io.Writer) error { _, err := w.Write([]byte("x")); return err }); err == nil {
		t.Fatal("a refused stream was taken")
	}
	if to.SendFailures.Load() != 1 || from.ReceiveFailures.Load() != 1 {
		t.Errorf("a refused stream: %d failures here and %d there, want one each", to.SendFailures.Load(), from.ReceiveFailures.Load())
	}

	damaged := frames(t, []byte("a frame"))
	damaged[len(damaged)-1] ^= 1
	c, _, _ := dialHello(t, b.Addr(), hello{kind: byte(ChannelAppend), cluster: testCluster, from: 1, to: 2})
	if _, err := c.Write(damaged); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the damaged frame counted", func() bool { return from.ReceiveFailures.Load() == 2 })
	c, _, _ = dialHello(t, b.Addr(), hello{kind: byte(ChannelAppend), cluster: testCluster, from: 1, to: 2})
	c.Close() // between two frames: that is no failure

	b.Close()
	wait.Until(t, "the channel down", func() bool { return a.ConnectedFor(2) == 0 && !a.Send(2, ChannelControl, []byte("lost")) })
	if n := to.SendFailures.Load(); n < 2 {
		t.Errorf("%d failures after frames to a member that is gone", n)
	}
	wait.Until(t, "the disconnection counted", func() bool { return to.Disconnects.Load() == 1 })
	if from.ReceiveFailures.Load() != 2 {
		t.Errorf("%d failures to receive, want 2: ends between two frames are none", from.ReceiveFailures.Load())
	}
}

func drain(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// A process that is not in the member list yet is heard all the same, and counted from the frame on at which it is.
func TestTrafficBeginsWhenAMemberIsKnown(t *testing.T) {
	b, br := member(t, 2, TCPOptions{})
	c, _, _ := dialHello(t, b.Addr(), hello{kind: byte(ChannelAppend), cluster: testCluster, from: 1, to: 2})
	say := func(what string) {
		t.Helper()
		if _, err := c.Write(frames(t, []byte(what))); err != nil {
			t.Fatal(err)
		}
		br.await(t, what, func() bool {
			got := br.frames[key(1, ChannelAppend)]
			return len(got) > 0 && got[len(got)-1] == what
		})
	}
	say("early")
	if b.Traffic(1) != nil {
		t.Fatal("somebody unknown is counted")
	}
	b.SetPeer(1, "127.0.0.1:1")
	say("later")
	if n := b.Traffic(1).Received.Load(); n != frameHeaderLen+uint64(len("later")) {
		t.Errorf("%d bytes received", n)
	}
}

// A probe is answered by an empty frame and by nothing else; it is on no other channel.
func TestProbe(t *testing.T) {
	b, br := member(t, 2, TCPOptions{})
	c, r, _ := dialHello(t, b.Addr(), hello{kind: byte(ChannelControl), cluster: testCluster, from: 1, to: 2})
	for range 3 {
		if _, err := c.Write(frames(t, nil)); err != nil {
			t.Fatal(err)
		}
		var answer [frameHeaderLen]byte
		if _, err := io.ReadFull(r, answer[:]); err != nil || !bytes.Equal(answer[:], frames(t, nil)) {
			t.Fatalf("answered %x, %v", answer, err)
		}
	}
	other, _, _ := dialHello(t, b.Addr(), hello{kind: byte(ChannelForward), cluster: testCluster, from: 1, to: 2})
	if _, err := other.Write(frames(t, nil)); err != nil {
		t.Fatal(err)
	}
	br.await(t, "the empty frame of another channel", func() bool { return len(br.frames[key(1, ChannelForward)]) == 1 })
	if got := br.got(1, ChannelControl); len(got) != 0 {
		t.Errorf("the handler got %q", got)
	}
}
