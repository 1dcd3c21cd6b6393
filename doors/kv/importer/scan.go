package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// All keys: from the smallest one on. A range end of one zero byte has no end.
const firstKey, allKeys = "\x00", "\x00"

// pageBytes is the target size of a page, estimated from the previous page.
const pageBytes = 1 << 20

// scanner reads all keys of a side at one revision, in order. It streams where the side offers that (etcd 3.7, Holdfast) and
// reads pages where it does not. A connection that breaks costs nothing but a new call: the revision is pinned. One goroutine.
type scanner struct {
	side     *side
	revision int64

	from   string // where the next call begins
	page   []*mvccpb.KeyValue
	limit  int64 // of the next page
	ended  bool
	paged  bool // streams are not offered
	stream etcdserverpb.KV_RangeStreamClient
	cancel context.CancelFunc // of stream
	broken time.Time          // since when streams break without a key; zero while they work
}

func scan(s *side, revision int64) *scanner {
	return &scanner{side: s, revision: revision, from: firstKey, limit: 100}
}

// next returns the next key, or nil after the last one. The revision may have been compacted: rpctypes.ErrCompacted.
func (s *scanner) next(ctx context.Context) (*mvccpb.KeyValue, error) {
	for len(s.page) == 0 {
		if s.ended {
			return nil, nil
		}
		var err error
		if s.paged {
			err = s.readPage(ctx)
		} else {
			err = s.readStream(ctx)
		}
		if err != nil {
			return nil, err
		}
		if n := len(s.page); n > 0 {
			s.from = string(s.page[n-1].Key) + "\x00"
		}
	}
	kv := s.page[0]
	s.page = s.page[1:]
	return kv, nil
}

// close ends what is open. The scanner must not be used after it.
func (s *scanner) close() {
	if s.cancel != nil {
		s.cancel()
		s.cancel, s.stream = nil, nil
	}
}

func (s *scanner) readStream(ctx context.Context) error {
	if s.stream == nil {
		open, cancel := context.WithCancel(ctx)
		stream, err := etcdserverpb.NewKVClient(s.side.ActiveConnection()).RangeStream(open,
			&etcdserverpb.RangeRequest{Key: []byte(s.from), RangeEnd: []byte(allKeys), Revision: s.revision})
		if err != nil {
			cancel()
			return s.streamBroke(ctx, err)
		}
		s.stream, s.cancel = stream, cancel
	}
	r, err := s.stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		s.close()
		s.ended = true
		return nil
	case err != nil:
		s.close()
		return s.streamBroke(ctx, err)
	}
	s.page = r.GetRangeResponse().GetKvs()
	s.broken = time.Time{}
	return nil
}

// streamBroke decides how to go on: by pages where streams are unknown, by another stream after an outage.
func (s *scanner) streamBroke(ctx context.Context, err error) error {
	if status.Code(err) == codes.Unimplemented {
		s.paged = true
		return nil
	}
	err = rpctypes.Error(err)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !unavailable(err) {
		return fmt.Errorf("read keys of the %s: %w", s.side.name, err)
	}
	if s.broken.IsZero() {
		s.broken = time.Now()
	}
	if time.Since(s.broken) > outage {
		return fmt.Errorf("read keys of the %s: no answer for %s: %w", s.side.name, outage, err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(200 * time.Millisecond):
		return nil
	}
}

func (s *scanner) readPage(ctx context.Context) error {
	return s.side.insist(ctx, "read keys", func(ctx context.Context) error {
		r, err := s.side.Get(ctx, s.from, clientv3.WithRange(allKeys), clientv3.WithRev(s.revision), clientv3.WithLimit(s.limit))
		if code(err) == codes.ResourceExhausted && s.limit > 1 {
			s.limit = max(1, s.limit/4) // too large for one message: values grew since the last page
			return nil
		}
		if err != nil {
			return err
		}
		s.page, s.ended = r.Kvs, !r.More
		bytes := 0
		for _, kv := range r.Kvs {
			bytes += len(kv.Key) + len(kv.Value)
		}
		if n := len(r.Kvs); n > 0 {
			s.limit = min(max(1, int64(pageBytes/(bytes/n+1))), 4*s.limit, 10000)
		}
		return nil
	})
}

// code is the status code of an error of the client library or of gRPC itself.
func code(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

// join walks two scanners in key order and calls fn once for each key that either has; the side without it gives nil. A nil
// scanner is an empty side.
func join(ctx context.Context, a, b *scanner, fn func(a, b *mvccpb.KeyValue) error) error {
	read := func(s *scanner) (*mvccpb.KeyValue, error) {
		if s == nil {
			return nil, nil
		}
		return s.next(ctx)
	}
	x, err := read(a)
	if err != nil {
		return err
	}
	y, err := read(b)
	if err != nil {
		return err
	}
	for x != nil || y != nil {
		u, v := x, y
		switch {
		case x != nil && (y == nil || string(x.Key) < string(y.Key)):
			v = nil
		case y != nil && (x == nil || string(y.Key) < string(x.Key)):
			u = nil
		}
		if err := fn(u, v); err != nil {
			return err
		}
		if u != nil {
			if x, err = read(a); err != nil {
				return err
			}
		}
		if v != nil {
			if y, err = read(b); err != nil {
				return err
			}
		}
	}
	return nil
}
