package kv

import (
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/doors/kv/ops"
)

// registrar puts services on a server with counters in front of every method, and the door's guard in front of streams. A
// method's counters are looked up here, once; an interceptor would look them up with every call.
type registrar struct {
	d      *Door
	server *grpc.Server
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	counted := *desc
	counted.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, m := range desc.Methods {
		counted.Methods[i] = grpc.MethodDesc{MethodName: m.MethodName,
			Handler: r.d.countUnary(r.d.calls.Add(desc.ServiceName, m.MethodName, ops.Unary), m.Handler)}
	}
	counted.Streams = make([]grpc.StreamDesc, len(desc.Streams))
	for i, s := range desc.Streams {
		kind := ops.ServerStream
		switch {
		case s.ClientStreams && s.ServerStreams:
			kind = ops.BidiStream
		case s.ClientStreams:
			kind = ops.ClientStream
		}
		info := &grpc.StreamServerInfo{FullMethod: "/" + desc.ServiceName + "/" + s.StreamName,
			IsClientStream: s.ClientStreams, IsServerStream: s.ServerStreams}
		r.d.stays[info.FullMethod] = true
		m, handler := r.d.calls.Add(desc.ServiceName, s.StreamName, kind), s.Handler
		s.Handler = func(srv any, stream grpc.ServerStream) error {
			began := m.Begin()
			r.d.counts.Versions.Stream(metadata.ValueFromIncomingContext(stream.Context(), rpctypes.MetadataClientAPIVersionKey))
			err := r.d.guardStream(srv, &countedStream{stream, m}, info, handler)
			m.End(began, codeOf(err))
			return err
		}
		counted.Streams[i] = s
	}
	r.server.RegisterService(&counted, impl)
}

// unaryHandler is how grpc calls a unary method.
type unaryHandler = func(srv any, ctx context.Context, dec func(any) error, guard grpc.UnaryServerInterceptor) (any, error)

func (d *Door) countUnary(m *ops.Method, handler unaryHandler) unaryHandler {
	return func(srv any, ctx context.Context, dec func(any) error, guard grpc.UnaryServerInterceptor) (any, error) {
		began := m.Begin()
		d.counts.Versions.Unary(metadata.ValueFromIncomingContext(ctx, rpctypes.MetadataClientAPIVersionKey))
		var answer any
		var err error
		if isCompressed(ctx) {
			answer, err = d.inflateUnary(srv, ctx, dec, guard, handler)
		} else {
			answer, err = handler(srv, ctx, dec, guard)
		}
		if err != nil {
			if err = refused(err); err == errTurnedAway {
				d.pauses.wait(ctx, d.stopping)
			}
		}
		m.End(began, codeOf(err))
		return answer, err
	}
}

// codeOf is the code a client sees of err.
func codeOf(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return status.FromContextError(err).Code()
}

// countedStream counts the messages of one stream.
type countedStream struct {
	grpc.ServerStream
	method *ops.Method
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.method.Received()
	}
	return err
}

func (s *countedStream) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.method.Sent()
	}
	return err
}
