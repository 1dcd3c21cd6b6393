package kv

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/holdfastdb/holdfast/serve/port"
)

// inTurn is a stream of the gateway's: one message at a time is on its way to the HTTP client, and has room (port.Streamed). The window of the
// gateway's connection would let hundreds of each stream be on their way. It belongs to the goroutine that sends.
type inTurn struct {
	grpc.ServerStream
	out  *port.Streamed
	mine bool // the next message may be sent
}

// inTurnKey finds the *inTurn of a stream in its context.
type inTurnKey struct{}

// streamed returns that of a stream, nil if its client speaks gRPC.
func streamed(ctx context.Context) *inTurn {
	s, _ := ctx.Value(inTurnKey{}).(*inTurn)
	return s
}

// copies is the number of copies of a gateway's message in memory on its way. They are the events, encoded, in the gateway's connection,
// decoded, as JSON (a third longer), and as a part of the answer.
const copies = 6

// ready waits until a message of n bytes may be made, and has room for it and for no more. Nil is ready at once.
func (s *inTurn) ready(ctx context.Context, n int64) error {
	if s == nil {
		return nil
	}
	if !s.mine {
		if err := s.out.Turn(ctx); err != nil {
			return err
		}
		s.mine = true
	}
	cost := copies * n
	if n <= freeAnswer {
		cost = 0
	}
	if held := s.out.Held(); held >= cost {
		s.out.Keep(cost)
		return nil
	}
	s.out.Keep(0) // while it waits for room it holds none
	return s.out.Take(ctx, cost)
}

// SendMsg implements grpc.ServerStream.
func (s *inTurn) SendMsg(m any) error {
	if !s.mine {
		n := 0
		switch m := m.(type) {
		case prepared:
			n = m.parts.Len()
		case proto.Message:
			n = proto.Size(m)
		}
		if err := s.ready(s.Context(), int64(n)); err != nil {
			return err
		}
	}
	s.mine = false
	return s.ServerStream.SendMsg(m)
}
