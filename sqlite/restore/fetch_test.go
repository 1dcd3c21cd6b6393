package restore

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// moody is a store that answers the first readings as answers say, and all others as they should be.
type moody struct {
	objstore.Store
	answers []func(in io.ReadCloser) (io.ReadCloser, error)
	asked   int
}

func (s *moody) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	in, err := s.Store.Open(ctx, name, off, n)
	if s.asked++; err == nil && s.asked <= len(s.answers) {
		return s.answers[s.asked-1](in)
	}
	return in, err
}

var errDown = errors.New("the store is down")

func refused(io.ReadCloser) (io.ReadCloser, error) { return nil, errDown }

func short(in io.ReadCloser) (io.ReadCloser, error) {
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(in, 5), in}, nil
}

// TestAPartIsAskedForSeveralTimes: a store that fails is asked five times, one whose answer was short twice, and one that lacks the file once.
func TestAPartIsAskedForSeveralTimes(t *testing.T) {
	times := func(n int, do func(io.ReadCloser) (io.ReadCloser, error)) (all []func(io.ReadCloser) (io.ReadCloser, error)) {
		for range n {
			all = append(all, do)
		}
		return all
	}
	f := replica.File{Min: 1, Max: 1, Size: 10}
	for _, c := range []struct {
		name    string
		answers []func(io.ReadCloser) (io.ReadCloser, error)
		absent  bool
		ended   bool // the caller has gone
		asked   int
		err     string // "": it is read
	}{
		{name: "all is well", asked: 1},
		{name: "refused once", answers: times(1, refused), asked: 2},
		{name: "refused four times", answers: times(4, refused), asked: 5},
		{name: "refused again and again", answers: times(9, refused), asked: 5, err: "down"},
		{name: "short once", answers: times(1, short), asked: 2},
		{name: "short again and again", answers: times(9, short), asked: 2, err: "ends at byte 5 of 10"},
		{name: "refused, then short", answers: append(times(1, refused), short), asked: 2, err: "ends at byte 5 of 10"},
		{name: "not there", absent: true, asked: 1, err: "not there"},
		{name: "refused, and nobody waits", answers: times(9, refused), ended: true, asked: 1, err: "down"},
	} {
		memory := objstore.NewMemory()
		store := &moody{Store: memory, answers: c.answers}
		r := replica.New(store, replica.Bucket)
		if !c.absent {
			must(t, memory.Put(context.Background(), objstore.Object{Name: r.Name(f), Data: []byte("0123456789")}))
		}
		ctx, cancel := context.WithCancel(context.Background())
		if c.ended {
			cancel()
		}
		p := (&fetch{ctx: ctx, r: r, retry: time.Microsecond}).one(ctx, 0, f, 0, nil)
		cancel()
		if store.asked != c.asked || (p.err == nil) != (c.err == "") || p.err != nil && !strings.Contains(p.err.Error(), c.err) {
			t.Errorf("%s: asked %d times, want %d: %v", c.name, store.asked, c.asked, p.err)
		}
		var fault *replica.Fault
		if isFault := errors.As(p.err, &fault); isFault != (c.err != "" && c.err != "down") || isFault && fault.Absent != c.absent {
			t.Errorf("%s: %v, a fault of the file %t", c.name, p.err, isFault)
		}
		if p.err == nil && string(p.buf[:p.n]) != "0123456789" {
			t.Errorf("%s: %q", c.name, p.buf[:p.n])
		}
	}
}
