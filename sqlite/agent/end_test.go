package agent

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/gate"
)

// slowLevels is a store where the file of a level takes as long as its caller waits for it.
type slowLevels struct {
	objstore.Store
	once  sync.Once
	begun chan struct{}
}

func (s *slowLevels) stand(ctx context.Context, name string) error {
	if !strings.HasPrefix(name, "0001/") {
		return nil
	}
	s.once.Do(func() { close(s.begun) })
	<-ctx.Done()
	return ctx.Err()
}

func (s *slowLevels) PutIfAbsent(ctx context.Context, o objstore.Object) error {
	if err := s.stand(ctx, o.Name); err != nil {
		return err
	}
	return s.Store.PutIfAbsent(ctx, o)
}

func (s *slowLevels) PutFrom(ctx context.Context, name string, size int64, r io.Reader, ifAbsent bool) error {
	if err := s.stand(ctx, name); err != nil {
		return err
	}
	return s.Store.PutFrom(ctx, name, size, r, ifAbsent)
}

// TestCommitsAreStoredBeforeALevel: an agent that ends while the file of a level is in flight stores its commits all the same, within its
// caller's patience.
func TestCommitsAreStoredBeforeALevel(t *testing.T) {
	r := newRig(t)
	slow := &slowLevels{Store: r.store.Store, begun: make(chan struct{})}
	r.store.Store = slow
	r.cfg.Levels = []time.Duration{20 * time.Millisecond}
	r.cfg.Interval = time.Hour // nothing is captured but for a caller
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (x)")
	e := r.extension()
	if code := e.commit(); code != gate.Done {
		t.Fatal(code)
	}
	wait.Until(t, "a level's file is on its way", func() bool {
		a.all()[0].wake() // it is due, and nothing else wakes the loop
		select {
		case <-slow.begun:
			return true
		default:
			return false
		}
	})
	r.exec(db, "insert into t values (1)")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := a.Close(ctx); err != nil {
		t.Errorf("the agent ends with %v", err)
	}
	slow.Store, r.store.Store = nil, slow.Store
	if n := count(t, r.restored()); n != 1 {
		t.Errorf("%d of 1 rows are in the bucket", n)
	}
}
