package growth

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// quiet is the number of resuming watches of an unchanged key.
const quiet = 1000

func resumeExperiments() []experiment {
	return []experiment{
		{name: "resume of 1,000 quiet keys", nodes: 1, run: func(ctx context.Context, b *bed) ([]Figure, error) {
			return b.resumeQuiet(ctx, "1,000 quiet keys resume over 300,000 changes", nil)
		}},
		{name: "resume of 1,000 quiet prefixes", nodes: 1, run: func(ctx context.Context, b *bed) ([]Figure, error) {
			return b.resumeQuiet(ctx, "1,000 quiet prefixes resume over 300,000 changes", []byte{0xff})
		}},
		{name: "resume over 500,000 events", nodes: 1, run: resumeBusy},
	}
}

// stream is a client's stream of watches.
type stream struct {
	pb.Watch_WatchClient
	end context.CancelFunc
}

func watch(ctx context.Context, c *grpc.ClientConn) (*stream, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	w, err := pb.NewWatchClient(c).Watch(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return &stream{w, cancel}, nil
}

func (s *stream) create(k, to []byte, from int64) error {
	return s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: k, RangeEnd: to, StartRevision: from}}})
}

// await reads until so many watches were created and so many events came.
func (s *stream) await(created, events int) error {
	for created > 0 || events > 0 {
		res, err := s.Recv()
		if err != nil {
			return fmt.Errorf("watch: %d watches not created, %d events missing: %w", created, events, err)
		}
		if res.Canceled {
			return fmt.Errorf("watch %d was canceled: %s", res.WatchId, res.CancelReason)
		}
		if res.Created {
			created--
		}
		events -= len(res.Events)
	}
	if created < 0 || events < 0 {
		return fmt.Errorf("%d watches and %d events too many", -created, -events)
	}
	return nil
}

// resumeQuiet has watches of keys that do not change begin before 300,000 changes of others. It is over when each has had the one event of its own
// that comes last. behind is what follows a key in the interval that is watched; nil: the key alone.
func (b *bed) resumeQuiet(ctx context.Context, row string, behind []byte) ([]Figure, error) {
	if err := b.fill(ctx, "quiet/", quiet, 64); err != nil {
		return nil, err
	}
	rev, err := b.put(ctx, []byte("now"), nil)
	if err != nil {
		return nil, err
	}
	if err := b.overwrite(ctx, "other/", 10_000, 300_000, 64); err != nil {
		return nil, err
	}
	if err := b.fill(ctx, "quiet/", quiet, 64); err != nil {
		return nil, err
	}
	s, err := watch(ctx, b.conns[0])
	if err != nil {
		return nil, err
	}
	defer s.end()
	f, err := b.times(row, 1, func() error {
		sent := make(chan error, 1)
		go func() {
			for i := range quiet {
				k := key("quiet/", i)
				var to []byte
				if behind != nil {
					to = append(k[:len(k):len(k)], behind...)
				}
				if err := s.create(k, to, rev+1); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		if err := s.await(quiet, quiet); err != nil {
			return err
		}
		return <-sent
	})
	return []Figure{f}, err
}

// resumeBusy has one watch of a prefix begin before 500,000 events of its own.
func resumeBusy(ctx context.Context, b *bed) ([]Figure, error) {
	const events = 500_000
	rev, err := b.put(ctx, []byte("now"), nil)
	if err != nil {
		return nil, err
	}
	// As many as there are keys in all, so that none comes twice in a Txn and is left out.
	for range 10 {
		if err := b.fill(ctx, "busy/", events/10, 64); err != nil {
			return nil, err
		}
	}
	s, err := watch(ctx, b.conns[0])
	if err != nil {
		return nil, err
	}
	defer s.end()
	f, err := b.times("one prefix resumes over 500,000 events", 1, func() error {
		if err := s.create([]byte("busy/"), end("busy/"), rev+1); err != nil {
			return err
		}
		return s.await(1, events)
	})
	return []Figure{f}, err
}
