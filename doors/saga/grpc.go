package saga

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/port"
)

// service is the name of DTM's gRPC service.
const service = "dtmgimp.Dtm"

// decoder is a request that reads itself; b is only valid during the call. encoder is an answer that writes itself.
type (
	decoder interface{ decode(b []byte) error }
	encoder interface{ encode() []byte }
)

// register adds DTM's service and its reflection service to the server.
func (d *Door) register() {
	desc := grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Metadata: descriptorName}
	desc.Methods = []grpc.MethodDesc{
		unary(d, "NewGid", func(q *ask, _ *nothing) (encoder, error) {
			q.over = true
			return gidReply(newGid()), nil
		}),
		unary(d, "Submit", func(q *ask, r *dtmRequest) (encoder, error) { return empty, d.submit(q, &r.request) }),
		unary(d, "Prepare", func(q *ask, r *dtmRequest) (encoder, error) { return empty, d.prepare(q, &r.request) }),
		unary(d, "Abort", func(q *ask, r *dtmRequest) (encoder, error) { return empty, d.abort(q, &r.request) }),
		unary(d, "RegisterBranch", func(q *ask, r *dtmBranch) (encoder, error) { return empty, d.registerBranch(q, &r.registration) }),
		unary(d, "PrepareWorkflow", func(q *ask, r *dtmRequest) (encoder, error) {
			t, err := d.progress(q, &r.request)
			if err != nil {
				return nil, err
			}
			return d.progressOf(q, t)
		}),
		unary(d, "Subscribe", func(q *ask, r *dtmTopic) (encoder, error) { return empty, d.subscribe(q, r.topic, r.url, r.remark) }),
		unary(d, "Unsubscribe", func(q *ask, r *dtmTopic) (encoder, error) { return empty, d.unsubscribe(q, r.topic, r.url) }),
		unary(d, "DeleteTopic", func(q *ask, r *dtmTopic) (encoder, error) { return empty, d.dropTopic(q, r.topic) }),
	}
	d.server.RegisterService(&desc, d)
	d.reflect()
}

var empty = new(nothing)

// unary makes a method of do.
func unary[R any, P interface {
	*R
	decoder
}](d *Door, name string, do func(q *ask, r P) (encoder, error)) grpc.MethodDesc {
	counted := d.meters.grpc[strings.ToLower(name)]
	return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		began := time.Now()
		answer, err := func() (encoder, error) {
			r := P(new(R))
			if err := dec(r); err != nil {
				if s, ok := status.FromError(err); ok && strings.HasSuffix(s.Message(), tooMany) {
					err = status.Error(codes.ResourceExhausted, tooMany)
				}
				return nil, err
			}
			q := callerOf(ctx)
			if err := d.admit(q); err != nil {
				return nil, broken(err).grpc()
			}
			answer, err := do(q, r)
			var shows any
			if err == nil && answer != empty {
				shows = answer
			}
			if _, err = d.gate(q, shows, err); err != nil {
				return nil, broken(err).grpc()
			}
			return answer, nil
		}()
		counted.done(began, err == nil)
		if err != nil {
			return nil, err
		}
		return answer, nil
	}}
}

// callerOf is the sender of a gRPC request.
func callerOf(ctx context.Context) *ask {
	q := &ask{gone: ctx.Done}
	if v := metadata.ValueFromIncomingContext(ctx, "authorization"); len(v) > 0 {
		q.Authorization = v[0]
	}
	if v := metadata.ValueFromIncomingContext(ctx, ack.Metadata); len(v) > 0 {
		q.asked = v[0]
	}
	if p, ok := peer.FromContext(ctx); ok {
		q.Host = port.HostOf(p.Addr)
		q.from, _ = p.Addr.(*port.From)
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			q.TLS = &info.State
		}
	}
	return q
}

// progressOf is the answer to a workflow's client, with its result: without that a succeeded one would be run again for nothing. It is one
// message, so room for it is taken before it is made, and given back when the transport is done with it.
func (d *Door) progressOf(q *ask, brief *sagamachine.Transaction) (encoder, error) {
	slots := d.small
	if brief.BranchBytes > largeAnswer {
		slots = d.large
	}
	if err := d.place(slots); err != nil {
		return nil, err
	}
	defer func() { <-slots }()
	t, err := d.machine.FindNumber(brief.Number)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, later("the transaction has been forgotten meanwhile")
	}
	size := len(t.Gid) + len(t.Reason) + len(t.Result) + 64
	for i := range t.Branches {
		size += len(t.Branches[i].Payload) + len(t.Branches[i].ID) + len(t.Branches[i].Op) + 40
	}
	switch {
	case size <= smallPage:
		return appendProgress(nil, t), nil
	case size > maxProgress: // a message to a thousand subscribers, which share one payload
		return nil, refuse(http.StatusRequestEntityTooLarge, "the transaction has %d bytes, too many for one message; ask GET /api/dtmsvr/query?gid=%s", size, t.Gid)
	}
	// A client can read what it may write: a size beyond a third of all room counts as a third.
	n := min(int64(size), d.port.AnswerRoom()/3)
	if !d.port.TakeAnswer(q.from, n) {
		return nil, later("too many answers that nobody takes")
	}
	return &largeReply{appendProgress(make([]byte, 0, size), t), newRoomHeld(d.port, q.from, n)}, nil
}

// maxProgress is the longest message: a workflow with all that it may hold fits.
const maxProgress = 2 * maxBody

func appendProgress(b []byte, t *sagamachine.Transaction) progressReply {
	head := appendText(nil, 1, t.Gid)
	head = appendText(head, 2, t.Status.String())
	head = appendText(head, 3, t.Reason)
	head = appendText(head, 4, t.Result)
	b = appendMessage(b, 1, head)
	var one []byte
	for i := range t.Branches {
		at := &t.Branches[i]
		one = appendText(one[:0], 1, at.Status.String())
		if len(at.Payload) > 0 {
			one = appendMessage(one, 2, at.Payload)
		}
		one = appendText(appendText(one, 3, at.ID), 4, at.Op)
		b = appendMessage(b, 2, one)
	}
	return b
}

// largeReply is a DtmProgressesReply for which room was taken.
type largeReply struct {
	b    []byte
	room *roomHeld
}

func (r *largeReply) encode() []byte { return r.b }

// roomHeld is room for one answer. It stands in the place of a pool of buffers, which the transport puts a buffer into that it is done with.
type roomHeld struct{ held *holding }

type holding struct {
	once sync.Once
	port *port.Port
	from *port.From
	n    int64
}

func newRoomHeld(p *port.Port, from *port.From, n int64) *roomHeld {
	r := &roomHeld{&holding{port: p, from: from, n: n}}
	runtime.AddCleanup(r, (*holding).giveBack, r.held) // should the transport ever forget the answer
	return r
}

func (h *holding) giveBack() { h.once.Do(func() { h.port.AnswerSent(h.from, h.n) }) }

func (r *roomHeld) giveBack() { r.held.giveBack() }

// Get implements mem.BufferPool.
func (r *roomHeld) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put implements mem.BufferPool.
func (r *roomHeld) Put(*[]byte) { r.giveBack() }

// codec is the server's message codec: DTM's messages read and write themselves, those of reflection go through protobuf.
type codec struct{}

// tooMany ends the error of a message for which there is no room.
const tooMany = "too many large requests at a time"

// Name implements encoding.CodecV2.
func (codec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *largeReply:
		return mem.BufferSlice{mem.NewBuffer(&m.b, m.room)}, nil
	case encoder:
		return mem.BufferSlice{mem.SliceBuffer(m.encode())}, nil
	case proto.Message:
		b, err := proto.Marshal(m)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	return nil, fmt.Errorf("marshal %T: not a message of this door", v)
}

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	b := buf.ReadOnlyData()
	if port.TurnedAway(b) {
		if m, ok := v.(interface{ turnAway(error) }); ok { // so that the client hears a status that says it
			m.turnAway(refuse(http.StatusTooManyRequests, "%s; nothing was done, send it again", tooMany))
			return nil
		}
		return errors.New(tooMany)
	}
	switch m := v.(type) {
	case decoder:
		return m.decode(b)
	case proto.Message:
		return proto.Unmarshal(b, m)
	}
	return fmt.Errorf("unmarshal %T: not a message of this door", v)
}

// refuseCrowd is called before a call gets a goroutine.
func (d *Door) refuseCrowd(ctx context.Context, _ *tap.Info) (context.Context, error) {
	if d.port.Crowded() {
		if p, ok := peer.FromContext(ctx); ok {
			if from, ok := p.Addr.(*port.From); ok && from.Crowded(false) {
				return ctx, status.Error(codes.ResourceExhausted, "too many calls are open")
			}
		}
	}
	return ctx, nil
}

// portCredentials tell the gRPC server what the port found out about a connection, which makes the TLS handshake (as in doors/kv).
type portCredentials struct{}

// ServerHandshake returns the state of c's TLS; nothing for cleartext.
func (portCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	t, ok := c.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return c, nil, nil
	}
	return c, credentials.TLSInfo{State: t.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

// ClientHandshake is not for servers.
func (portCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a server's")
}

// Info implements credentials.TransportCredentials.
func (portCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (c portCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials; nothing here has a name.
func (portCredentials) OverrideServerName(string) error { return nil }
