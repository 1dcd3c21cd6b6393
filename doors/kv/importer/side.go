package importer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Endpoint says how to reach one of the two sides.
type Endpoint struct {
	Addresses      []string    // host:port or URLs, all of the same cluster
	User, Password string      // "" without authentication
	TLS            *tls.Config // nil for plain text
}

const (
	// messageLimit bounds one answer. etcd's largest value is 1.5 MiB unless its operator allowed more.
	messageLimit = 16 << 20
	callPatience = 15 * time.Second
	// outage is how long a side may be without an answer before the import gives up: longer than any election.
	outage = 2 * time.Minute
)

// side is one cluster, the source or the target. Safe for concurrent use.
type side struct {
	name string // "source" or "target", for errors
	*clientv3.Client
	waiting atomic.Bool // no answer at present; the progress line says so
}

func dial(ctx context.Context, name string, e Endpoint) (*side, error) {
	conf := clientv3.Config{
		Context: ctx, Endpoints: e.Addresses, TLS: e.TLS,
		DialTimeout: callPatience, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 10 * time.Second,
		MaxCallRecvMsgSize: messageLimit, MaxCallSendMsgSize: messageLimit, Logger: zap.NewNop(),
	}
	if e.User != "" {
		conf.DialOptions = (&login{user: e.User, password: e.Password}).options()
	}
	c, err := clientv3.New(conf)
	if err != nil {
		return nil, fmt.Errorf("connect to the %s %v: %w", name, e.Addresses, err)
	}
	return &side{name: name, Client: c}, nil
}

// insist repeats a call while the side is unavailable, and gives up after an outage. Every call here may be repeated: it is a
// read, or a put of the same value. Other errors are returned.
func (s *side) insist(ctx context.Context, what string, call func(context.Context) error) error {
	began, wait := time.Now(), 50*time.Millisecond
	defer s.waiting.Store(false)
	for {
		attempt, cancel := context.WithTimeout(ctx, callPatience)
		err := rpctypes.Error(call(attempt))
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !unavailable(err):
			return fmt.Errorf("%s at the %s: %w", what, s.name, err)
		case time.Since(began) > outage:
			return fmt.Errorf("%s at the %s: no answer for %s: %w", what, s.name, outage, err)
		}
		s.waiting.Store(time.Since(began) > time.Second)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, 2*time.Second)
	}
}

// unavailable reports whether an error may be gone later, or with a new token.
func unavailable(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var e rpctypes.EtcdError
	code := status.Code(err)
	if errors.As(err, &e) {
		code = e.Code()
	}
	switch {
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return true
	case errors.Is(err, rpctypes.ErrInvalidAuthToken), errors.Is(err, rpctypes.ErrAuthOldRevision):
		return true // login gets a new token
	case code == codes.Unavailable, code == codes.DeadlineExceeded, code == codes.Aborted:
		return true
	}
	return false
}

// position asks for the present revision and how many keys there are.
func (s *side) position(ctx context.Context) (revision, keys int64, cluster uint64, err error) {
	err = s.insist(ctx, "read the revision", func(ctx context.Context) error {
		r, err := s.Get(ctx, firstKey, clientv3.WithRange(allKeys), clientv3.WithCountOnly())
		if err == nil {
			revision, keys, cluster = r.Header.Revision, r.Count, r.Header.ClusterId
		}
		return err
	})
	return revision, keys, cluster, err
}
