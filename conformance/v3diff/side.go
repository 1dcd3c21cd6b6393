package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// patience is how long anything may take that must happen.
const patience = 15 * time.Second

// side is one of the two clusters. It belongs to the goroutine that plays the script, but for its ears' receivers.
type side struct {
	*frame
	original bool
	cluster  *proctest.Cluster
	conns    []*grpc.ClientConn
	home     int // the member this script talks to
	ears     []*ear
	packed   bool // its calls have their messages in gzip
	// torn are connections whose messages in gzip tear changes before they are sent, of a call with one message.
	torn []*grpc.ClientConn
	tear func(packed []byte) []byte
}

// options are those of the next call.
func (x *side) options() []grpc.CallOption {
	if x.packed {
		return []grpc.CallOption{grpc.UseCompressor(gzip.Name)}
	}
	return nil
}

func newSide(c *proctest.Cluster, original bool) (*side, error) {
	x := &side{cluster: c, original: original}
	for _, n := range c.Nodes {
		conn, err := grpc.NewClient(n.KV, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)), grpc.WithDisableRetry())
		if err != nil {
			return nil, err
		}
		x.conns = append(x.conns, conn)
		//lint:ignore SA1019 a registered compressor would be that of all calls
		torn, err := grpc.NewClient(n.KV, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(), grpc.WithCompressor(tearing{x}))
		if err != nil {
			return nil, err
		}
		x.torn = append(x.torn, torn)
	}
	return x, nil
}

// answer is what came back, as text that can be compared.
type answer struct {
	text     string
	in       *frame // of the side it comes from
	code     codes.Code
	message  proto.Message // nil if code is not OK
	revision int64         // of the header, relative to the script's first; 0 if there was none
}

// begin notes the revision a script starts at and chooses the member it talks to.
func (x *side) begin(script int) error {
	x.home = script % len(x.conns)
	x.frame, x.ears = &frame{}, nil
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := pb.NewKVClient(x.conns[x.home]).Range(ctx, &pb.RangeRequest{Key: []byte{0}})
	if err != nil {
		return err
	}
	x.first = res.Header.Revision
	return nil
}

// call makes one unary call. Its error is only that there was no answer.
func (x *side) call(st *step) (*answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res := st.method.answer()
	err := x.conns[(x.home+st.elsewhere)%len(x.conns)].Invoke(ctx, st.method.path, x.fill(st.req), res, x.options()...)
	if err := x.alive(err); err != nil {
		return nil, err
	}
	if grant, ok := st.req.(*pb.LeaseGrantRequest); ok && grant.ID == 0 {
		id := int64(0)
		if err == nil {
			id = res.(*pb.LeaseGrantResponse).ID
		}
		x.granted(id)
	}
	if st.elsewhere != 0 && len(x.conns) > 1 {
		if err := x.catchUp(); err != nil {
			return nil, err
		}
	}
	return x.judge(res, err), nil
}

// catchUp waits until the script's own member has applied what another has acknowledged: a linearizable read does.
func (x *side) catchUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := pb.NewKVClient(x.conns[x.home]).Range(ctx, &pb.RangeRequest{Key: []byte{0}})
	return err
}

// judge turns an answer or a refusal into text.
func (x *side) judge(res proto.Message, err error) *answer {
	if err != nil {
		s := status.Convert(err)
		return &answer{text: fmt.Sprintf("%s: %s", s.Code(), s.Message()), code: s.Code()}
	}
	timeless(res)
	a := &answer{text: x.text(res), in: x.frame, message: res}
	if h, ok := res.(interface{ GetHeader() *pb.ResponseHeader }); ok && h.GetHeader() != nil {
		a.revision = h.GetHeader().Revision - x.first
	}
	return a
}

// alive returns an error if err means that the server is gone or does not answer, nil if err is an answer of it.
func (x *side) alive(err error) error {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		for _, n := range x.cluster.Nodes {
			if !n.Running() {
				return fmt.Errorf("%w; %s has ended, its last lines:\n%s", err, n.Name, n.LogTail(20))
			}
		}
		return err
	}
	return nil
}

// stream makes one RangeStream and puts its pieces together: how it is cut is the server's own affair.
func (x *side) stream(st *step) (*answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := pb.NewKVClient(x.conns[x.home]).RangeStream(ctx, x.fill(st.req).(*pb.RangeRequest), x.options()...)
	if err != nil {
		return nil, err
	}
	whole, last := &pb.RangeResponse{}, false
	for {
		piece, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return x.judge(whole, nil), nil
		case err != nil:
			if err := x.alive(err); err != nil {
				return nil, err
			}
			return x.judge(nil, err), nil
		case last || piece.RangeResponse == nil:
			return &answer{text: "a piece after the last, or without content"}, nil
		}
		r := piece.RangeResponse
		last = r.Header != nil
		if !last && (r.More || r.Count != 0) {
			return &answer{text: "a piece that is not the last says more or count: " + x.text(r)}, nil
		}
		whole.Header, whole.More, whole.Count = r.Header, r.More, r.Count
		whole.Kvs = append(whole.Kvs, r.Kvs...)
	}
}

// keepAlive renews the leases of a request one after another on one stream.
func (x *side) keepAlive(ids []int64) (*answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := pb.NewLeaseClient(x.conns[x.home]).LeaseKeepAlive(ctx, x.options()...)
	if err != nil {
		return nil, err
	}
	all := &answer{}
	for _, id := range ids {
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: x.number(id)}); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		res, err := stream.Recv()
		if err := x.alive(err); err != nil {
			return nil, err
		}
		one := x.judge(res, err)
		all.text += one.text + "\n"
		if err != nil {
			return all, nil
		}
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		all.text += fmt.Sprintf("ends with %v", err)
	}
	return all, nil
}
