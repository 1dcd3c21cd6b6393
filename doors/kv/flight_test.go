package kv

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/core/entry"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/deadline"
	"github.com/holdfastdb/holdfast/serve/port"
)

// TestLargeRequestsInFlightAreBounded: beyond the bound they are refused, below it and when small they are not, and what
// was held comes back however a request ends.
func TestLargeRequestsInFlightAreBounded(t *testing.T) {
	t.Parallel()
	m := newFakeMember()
	hold := make(chan struct{})
	m.propose = func(context.Context) (*entry.Result, error) {
		<-hold
		return &entry.Result{Bodies: []entry.Body{{Machine: entry.MachineKV, Value: &kvpart.PutResult{}}}}, nil
	}
	conn := serveFake(t, m, Options{MaxFlightBytes: 3 << 20})
	kv, ctx := pb.NewKVClient(conn), context.Background()
	large := &pb.PutRequest{Key: []byte("a"), Value: make([]byte, 1<<20)}
	var wg sync.WaitGroup
	send := func(r *pb.PutRequest) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := kv.Put(ctx, r); err != nil {
				t.Error(err)
			}
		}()
	}
	proposed := func(n int) func() bool {
		return func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.lanes) == n }
	}
	send(large)
	send(large)
	wait.Until(t, "two in flight", proposed(2))
	if _, err := kv.Put(ctx, large); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a third: %v", err)
	}
	txn := &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: large}}}}
	if _, err := kv.Txn(ctx, txn); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a large txn: %v", err)
	}
	send(putRequest)
	wait.Until(t, "a small one in flight too", proposed(3))
	close(hold)
	wg.Wait()
	bad := append([]byte{0x0a}, make([]byte, 100<<10)...)
	_ = conn.Invoke(ctx, "/etcdserverpb.KV/Put", &raw{append(bad, 0xff)}, &raw{}, grpc.ForceCodec(rawCodec{}))
	send(large)
	send(large)
	wg.Wait()
}

// TestHalfALargeRequestIsInFlight: a begun request takes memory, whether the rest comes or not. A client that begins more than there is
// room for hears so at once, from a call of any kind. It hears so before it has sent it all.
func TestHalfALargeRequestIsInFlight(t *testing.T) {
	t.Parallel()
	conn := serveFake(t, newFakeMember(), Options{MaxFlightBytes: 3 << 20})
	c := newRawClient(t, conn.Target())
	half := append([]byte{0, 0, 16, 0, 0}, make([]byte, 10_000)...)
	c.begin(1, "/etcdserverpb.KV/Put", half)
	c.begin(3, "/etcdserverpb.KV/Put", half)
	methods := []string{"KV/Put", "KV/Txn", "KV/Range", "Lease/LeaseGrant"}
	for i, method := range methods {
		c.begin(uint32(5+2*i), "/etcdserverpb."+method, half)
	}
	for i, method := range methods {
		if code, text := c.end(uint32(5 + 2*i)); code != codes.ResourceExhausted || text != rpctypes.ErrorDesc(rpctypes.ErrGRPCRequestTooManyRequests) {
			t.Errorf("%s: %s %q", method, code, text)
		}
	}
	c.begin(99, "/etcdserverpb.Watch/Watch", half)
	if code, text := c.end(99); code != codes.Internal || !strings.Contains(text, "too many requests") { // see refused
		t.Errorf("a watch: %s %q", code, text)
	}
	if _, err := pb.NewKVClient(conn).Put(context.Background(), putRequest); err != nil {
		t.Errorf("a small one by another client: %v", err)
	}
	c.reset(1)
	if _, err := pb.NewKVClient(conn).Put(context.Background(), &pb.PutRequest{Key: []byte("a"), Value: make([]byte, 1<<20)}); err != nil {
		t.Errorf("a large one after the first has been given up: %v", err)
	}
}

// rawClient speaks HTTP/2 frame by frame.
type rawClient struct {
	t      *testing.T
	framer *http2.Framer
	ends   map[uint32][]hpack.HeaderField // trailers of calls that the server has ended
}

func newRawClient(t *testing.T, addr string) *rawClient {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(wait.Limit(t)))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	c := &rawClient{t, http2.NewFramer(conn, conn), map[uint32][]hpack.HeaderField{}}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// begin opens a call and sends the beginning of its message.
func (c *rawClient) begin(stream uint32, path string, message []byte) {
	c.t.Helper()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "test"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // into a buffer
	}
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
		c.t.Fatal(err)
	}
	if err := c.framer.WriteData(stream, false, message); err != nil {
		c.t.Fatal(err)
	}
}

// end waits until the server ends a call.
func (c *rawClient) end(stream uint32) (code codes.Code, text string) {
	c.t.Helper()
	for c.ends[stream] == nil {
		f, err := c.framer.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		if h, ok := f.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
			c.ends[h.StreamID] = slices.Clone(h.Fields)
		}
	}
	for _, field := range c.ends[stream] {
		switch field.Name {
		case "grpc-status":
			n, _ := strconv.Atoi(field.Value)
			code = codes.Code(n)
		case "grpc-message":
			text = field.Value
		}
	}
	return code, text
}

func (c *rawClient) reset(stream uint32) {
	c.t.Helper()
	if err := c.framer.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
		c.t.Fatal(err)
	}
	// Only what comes after its acknowledgement is known to come after the reset.
	if err := c.framer.WritePing(false, [8]byte{}); err != nil {
		c.t.Fatal(err)
	}
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		if p, ok := f.(*http2.PingFrame); ok && p.IsAck() {
			return
		}
	}
}

// TestStepsShareOneWait: an answer that waits for room twice, because it is larger than a third of all, waits no longer than one that waits once.
func TestStepsShareOneWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const all, third = 24 << 20, 8 << 20
		d := &Door{opts: Options{MaxAnswerBytes: all, RequestTimeout: time.Second}, deadline: deadline.New(time.Second), large: make(chan struct{}, largeAnswers),
			port: port.New(port.Options{AnswerBytes: all})}
		d.port.TakeAnswer(nil, all)
		time.AfterFunc(800*time.Millisecond, func() { d.port.AnswerGone(nil, third) }) // enough for the first step
		steps, begun := 0, time.Now()
		_, err := d.withRoom(t.Context(), func(most int64) error {
			if most == third {
				steps++
			}
			return kvmachine.ErrTooLarge
		}, func() int64 { return 0 })
		if took := time.Since(begun); err != rpctypes.ErrGRPCRequestTooManyRequests || steps != 1 || took > 1600*time.Millisecond {
			t.Errorf("%v after %v and %d steps", err, took, steps)
		}
	})
}

// TestRoomComesInTurn: a read that asks for less, or at the right moment, does not get the room that another read waits for. One that gives
// up blocks no other.
func TestRoomComesInTurn(t *testing.T) {
	t.Parallel()
	const mib, all = 1 << 20, 24 << 20
	synctest.Test(t, func(t *testing.T) {
		d := &Door{opts: Options{MaxAnswerBytes: all}, port: port.New(port.Options{AnswerBytes: all})}
		d.port.TakeAnswer(nil, all)
		var order []int64
		wants := func(ctx context.Context, n int64) {
			synctest.Wait()
			go func() {
				if err := d.waitForRoom(ctx, t.Context(), nil, n); err == nil {
					order = append(order, n/mib)
				}
			}()
			synctest.Wait()
		}
		gone, giveUp := context.WithCancel(t.Context())
		wants(gone, 16*mib)
		wants(t.Context(), 8*mib)
		wants(t.Context(), 4*mib)
		wants(t.Context(), smallAnswer)
		free := func(n int64, want ...int64) {
			t.Helper()
			d.newRoom(nil, n).giveBack()
			synctest.Wait() // and no tick passes
			time.Sleep(10 * roomInterval)
			if !slices.Equal(order, want) {
				t.Errorf("order %d, want %d", order, want)
			}
		}
		free(5*mib, 1)
		giveUp()
		free(3*mib, 1)
		free(1*mib, 1, 8)
		wants(t.Context(), 2*mib)
		free(3*mib, 1, 8)
		free(1*mib, 1, 8, 4)
		free(2*mib, 1, 8, 4, 2)
		d.port.AnswerGone(nil, all)
	})
	var l line
	first, second := l.enter(nil), l.enter(nil)
	if !l.may(first) || l.may(second) {
		t.Error("the second before the first")
	}
	l.leave(first)
	if !l.may(second) || len(second.turn) != 1 {
		t.Error("the second is not told that the first has gone")
	}
	l.leave(second)
	if !l.empty() {
		t.Error("places are left")
	}
}

// TestALargeAnswerIsReadOnceMore: what the first attempt says of its size decides about the next one.
func TestALargeAnswerIsReadOnceMore(t *testing.T) {
	const all = 48 << 20
	d := &Door{opts: Options{MaxAnswerBytes: all, RequestTimeout: time.Second}, deadline: deadline.New(time.Second), large: make(chan struct{}, largeAnswers),
		port: port.New(port.Options{AnswerBytes: all})}
	const size = 20 << 20
	for _, c := range []struct {
		about int64
		reads []int64
	}{
		{16 << 20, []int64{smallAnswer, 17 << 20, 32 << 20}}, // too little
		{20 << 20, []int64{smallAnswer, 85 << 18}},
		{1 << 40, []int64{smallAnswer, 32 << 20}},
		{1, []int64{smallAnswer, 32 << 20}},
		{0, []int64{smallAnswer, 16 << 20, 32 << 20}}, // nothing is known
	} {
		var reads []int64
		r, err := d.withRoom(t.Context(), func(most int64) error {
			reads = append(reads, most)
			switch {
			case most >= size:
				return nil
			case c.about == 0:
				return kvmachine.ErrTooLarge
			}
			return &kvmachine.TooLargeError{About: c.about}
		}, func() int64 { return size })
		if err != nil || !slices.Equal(reads, c.reads) {
			t.Errorf("about %d: reads %d, want %d; %v", c.about, reads, c.reads, err)
		}
		r.giveBack()
	}
	if !d.port.TakeAnswer(nil, all) {
		t.Error("room is still held")
	}
}

// TestRoomIsGivenBack: large answers wait for each other, and their room comes back when they are sent.
func TestRoomIsGivenBack(t *testing.T) {
	const all = 24 << 20
	d := &Door{opts: Options{MaxAnswerBytes: all, RequestTimeout: 50 * time.Millisecond}, deadline: deadline.New(50 * time.Millisecond), large: make(chan struct{}, largeAnswers),
		port: port.New(port.Options{AnswerBytes: all})}
	full := func() bool {
		if !d.port.TakeAnswer(nil, all) {
			return false
		}
		d.port.AnswerGone(nil, all)
		return true
	}
	ctx := context.Background()
	size := int64(7 << 20)
	read := func(max int64) error {
		if max < size {
			return kvmachine.ErrTooLarge
		}
		return nil
	}
	of := func() int64 { return size }
	var rooms []*room
	for range 2 {
		r, err := d.withRoom(ctx, read, of)
		if err != nil || r == nil {
			t.Fatalf("room %v, %v", r, err)
		}
		rooms = append(rooms, r)
	}
	d.port.TakeAnswer(nil, 3<<20)
	if _, err := d.withRoom(ctx, read, of); err != rpctypes.ErrGRPCRequestTooManyRequests {
		t.Errorf("one more: %v", err)
	}
	for range 16 { // either of two contexts may be seen to end first
		short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		if _, err := d.withRoom(short, read, of); status.Code(err) == codes.ResourceExhausted {
			t.Errorf("a client that gave up: %v", err)
		}
		cancel()
	}
	d.port.AnswerGone(nil, 3<<20)
	for _, r := range rooms {
		a := &rangeAnswer{result: &kvpart.RangeResult{KVs: []kvpart.KeyValue{{Value: make([]byte, 2<<20)}}}}
		marshal(a, r).Free()
	}
	if !full() {
		t.Error("room is still held")
	}
	if _, err := d.withRoom(ctx, func(int64) error { return kvmachine.ErrTooLarge }, of); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("larger than any room: %v", err)
	}
	if !full() {
		t.Error("room is held after a refusal")
	}
	size = 15 << 20 // what two thirds hold
	r, err := d.withRoom(ctx, read, of)
	if err != nil || d.port.TakeAnswer(nil, all-size+1) {
		t.Errorf("a large answer: %v", err)
	}
	r.giveBack()
	d.port.TakeAnswer(nil, all/3+1)
	if _, err := d.withRoom(ctx, read, of); err != rpctypes.ErrGRPCRequestTooManyRequests {
		t.Errorf("a large answer beside others: %v", err)
	}
	d.port.AnswerGone(nil, all/3+1)
	if !full() {
		t.Error("room is held after large answers")
	}
	for _, n := range []int64{10, 100 << 10} { // with all room, and with none
		size = n
		for _, taken := range []int64{0, all} {
			if taken > 0 && !d.port.TakeAnswer(nil, taken) {
				t.Fatal("room is lost")
			}
			r, err := d.withRoom(ctx, read, of)
			if wait := taken > 0 && n > freeAnswer; wait != (err != nil) || (r != nil) != (err == nil && n > freeAnswer) {
				t.Errorf("%d bytes with %d taken: %v, %v", n, taken, r, err)
			}
			r.giveBack()
			d.port.AnswerGone(nil, taken)
		}
	}
	if !full() {
		t.Error("room is held after small answers")
	}
}
