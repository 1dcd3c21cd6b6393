package port

import (
	"io"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/port/frame"
	"github.com/holdfastdb/holdfast/serve/port/http2test"
	"github.com/holdfastdb/holdfast/serve/port/intake"
)

// turnedAway reports whether a message was turned away of what the server sees.
func turnedAway(seen []byte) bool {
	const n = 16 // of what stands in its place
	for i := range len(seen) - n + 1 {
		if intake.TurnedAway(seen[i : i+n]) {
			return true
		}
	}
	return false
}

// TestAnnouncedBytesKeepNobodyOut: room held for announced bytes that do not come goes to clients that send.
func TestAnnouncedBytesKeepNobodyOut(t *testing.T) {
	t.Parallel()
	p := New(Options{BudgetBytes: 1 << 20})
	announce := func(streams int) (*grpcConn, *http2test.Wire) {
		c := http2test.New()
		for n := range streams {
			c.Frame(frame.Data, 0, uint32(2*n+1), http2test.Prefixed(100_000, 'x')[:5])
		}
		w := http2test.On(c.Bytes(), 9000)
		i := p.newGRPCConn(w)
		p.now.Add(settledAfter)
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{i})
		return i, w
	}
	greedy, w := announce(20)
	if held := greedy.room.Load(); held < p.opts.BudgetBytes/2 || held > p.opts.BudgetBytes/4*3 {
		t.Errorf("one connection has %d of %d bytes", held, p.opts.BudgetBytes)
	}
	sender := p.newGRPCConn(http2test.On(http2test.New().Bytes(), 9000))
	_, _ = io.Copy(io.Discard, struct{ io.Reader }{sender})
	send := func(stream uint32) bool {
		sender.Conn.Conn = http2test.On(new(http2test.Talk).Send(stream, http2test.Prefixed(100_000, 'y'), frame.Max).Bytes(), 9000)
		out, err := io.ReadAll(struct{ io.Reader }{sender})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = sender.Write(new(http2test.Talk).Bare(frame.Headers, frame.End, stream, nil).Bytes())
		return !turnedAway(out)
	}
	p.now.Add(settledAfter)
	if !send(1) {
		t.Error("a client that sends gets nothing of the last quarter")
	}
	announce(9)
	if p.budget.Load() > 100_000 {
		t.Fatalf("%d bytes are left", p.budget.Load())
	}
	go func() { // as the gRPC server does
		for !w.Closed.Load() {
			time.Sleep(time.Millisecond)
		}
		_ = greedy.Close()
	}()
	time.Sleep(stallGrace + 10*time.Millisecond) // that is what is tested
	stream := uint32(1)
	wait.Until(t, "a client that sends has the room of clients that do not", func() bool { // the one that made room may not have been run yet
		stream += 2
		return send(stream)
	})
	if !w.Closed.Load() {
		t.Error("the connection that held the most has not made room")
	}
}

// TestAnswersThatNobodyTakes: a connection has two thirds of the room for answers. It is closed when others need it and its client has
// taken nothing for a while; one whose client takes is not.
func TestAnswersThatNobodyTakes(t *testing.T) {
	p := New(Options{AnswerBytes: 9 << 20})
	conn := func() (*From, *http2test.Wire) {
		w := http2test.On(nil, 1)
		return p.newGRPCConn(w).RemoteAddr().(*From), w
	}
	greedy, w := conn()
	other, slow := conn()
	if p.TakeAnswer(greedy, 3<<20); p.TakeAnswer(greedy, 4<<20) {
		t.Error("a new connection takes the last third")
	}
	p.now.Store(settledAfter)
	if !p.TakeAnswer(greedy, 3<<20) || p.TakeAnswer(greedy, 1) {
		t.Error("not two thirds for one connection")
	}
	if !p.TakeAnswer(other, 3<<20) {
		t.Error("the last third is gone")
	}
	reader, _ := conn()
	if p.TakeAnswer(reader, 1) || w.Closed.Load() {
		t.Error("somebody was not given any time")
	}
	for _, f := range []*From{greedy, other} { // time goes by
		f.of.took.Add(-int64(stallGrace) - 1)
	}
	p.untaken.Store(0)
	_, _ = other.of.Write(new(http2test.Talk).Bare(frame.Data, 0, 1, make([]byte, untakenPiece)).Bytes())
	if p.TakeAnswer(reader, 1); !w.Closed.Load() || slow.Closed.Load() {
		t.Errorf("closed: the one that takes nothing %t, the one that takes %t", w.Closed.Load(), slow.Closed.Load())
	}
	p.AnswerGone(greedy, 6<<20)
	if !p.TakeAnswer(reader, 3<<20) {
		t.Error("room does not come back")
	}
	_ = reader.of.Close()
	p.AnswerGone(reader, 3<<20) // the transport is late
	if n := p.answers.Load(); n != 6<<20 {
		t.Errorf("%d bytes are left when a connection has ended", n)
	}
	if p.TakeAnswer(reader, 1) {
		t.Error("an answer for a connection that has ended")
	}
}
