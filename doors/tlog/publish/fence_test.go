package publish

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
)

// slowStore is a bucket that takes an upload of a checkpoint whole and applies it later, also without a waiting caller. It answers some
// uploads with 503.
type slowStore struct {
	t    *testing.T
	key  *tiles.Verifier
	next http.Handler

	mu    sync.Mutex
	delay func() time.Duration // guarded by mu; of a checkpoint
	fail  int                  // guarded by mu: percent of uploads
	seed  *rand.Rand           // guarded by mu
	sizes []uint64             // guarded by mu: of the checkpoints, as they were applied
	puts  int                  // guarded by mu: tiles and bundles that were taken
}

func newSlowStore(t *testing.T, key *tiles.Verifier) *slowStore {
	t.Helper()
	back := s3mem.New()
	if err := back.CreateBucket("logs"); err != nil {
		t.Fatal(err)
	}
	s := &slowStore{t: t, key: key, next: gofakes3.New(back).Server(), seed: rand.New(rand.NewPCG(1, 2)),
		delay: func() time.Duration { return 0 }}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	for name, v := range map[string]string{"AWS_ENDPOINT_URL_S3": srv.URL, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_SESSION_TOKEN": "", "AWS_REGION": ""} {
		t.Setenv(name, v)
	}
	return s
}

func (s *slowStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		s.next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it never arrived
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	refuse, checkpoint, delay := s.seed.IntN(100) < s.fail, strings.HasSuffix(r.URL.Path, "/checkpoint"), time.Duration(0)
	if checkpoint {
		delay = s.delay()
	} else if !refuse {
		s.puts++
	}
	s.mu.Unlock()
	if refuse {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	time.Sleep(delay)
	r = r.WithContext(context.WithoutCancel(r.Context()))
	if !checkpoint {
		s.next.ServeHTTP(w, r)
		return
	}
	s.mu.Lock() // what is applied is noted in the order in which it is
	defer s.mu.Unlock()
	rec := httptest.NewRecorder()
	s.next.ServeHTTP(rec, r)
	if rec.Code == http.StatusOK {
		get := httptest.NewRecorder()
		q := httptest.NewRequest(http.MethodGet, r.URL.Path, nil)
		s.next.ServeHTTP(get, q)
		if c, _, err := tiles.OpenCheckpoint(get.Body.Bytes(), s.key); err != nil {
			s.t.Errorf("the published checkpoint: %v", err)
		} else {
			s.sizes = append(s.sizes, c.Size)
		}
	}
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes()) // the caller may be gone
}

func (s *slowStore) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *slowStore) place() *Objects {
	s.t.Helper()
	store, err := objstore.Open("s3://logs/x")
	if err != nil {
		s.t.Fatal(err)
	}
	return NewObjects(store, 0)
}

// TestNoPublishedCheckpointGoesBack: a hundred leaders in turn, each cut off while the store may still hold its upload. That is applied
// after the next leader, or the one after it, has published.
func TestNoPublishedCheckpointGoesBack(t *testing.T) {
	m := newAlone(t, 1)
	s := newSlowStore(t, m.key.Verifier())
	s.delay = func() time.Duration { // every other one is late
		if s.seed.IntN(2) == 0 {
			return time.Duration(s.seed.IntN(250)) * time.Millisecond
		}
		return 0
	}
	l := m.logs.Find("default")
	published := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.sizes)
	}
	for leaders, end := 0, time.Now().Add(wait.Limit(t)); leaders < 100 || published() < 30 && time.Now().Before(end); leaders++ {
		m.grow(1+rand.IntN(40), "entry")
		w := m.worker(s.place()) // a new leader knows nothing
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Millisecond)
		for ctx.Err() == nil {
			if err := w.publish(ctx, l, l.Checkpoint()); err == nil {
				break
			} else if errors.Is(err, ErrRefused) {
				t.Fatal(err)
			}
		}
		cancel()
	}
	time.Sleep(300 * time.Millisecond) // the last of the late
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 1; i < len(s.sizes); i++ {
		if s.sizes[i] < s.sizes[i-1] {
			t.Errorf("the published checkpoint went from %d to %d", s.sizes[i-1], s.sizes[i])
		}
	}
	if len(s.sizes) < 30 {
		t.Errorf("only %d checkpoints were published", len(s.sizes))
	}
}

// TestACatchUpGoesOnWhereItFailed: 50,000 entries behind, every second upload is answered 503.
func TestACatchUpGoesOnWhereItFailed(t *testing.T) {
	m := newAlone(t, 1)
	s := newSlowStore(t, m.key.Verifier())
	m.grow(300, "entry")
	p := s.place()
	if err := m.publish(p); err != nil {
		t.Fatal(err)
	}
	m.grow(50000, "entry")
	s.set(func() { s.fail, s.puts = 50, 0 })
	w := m.worker(p)
	var wg sync.WaitGroup
	began := time.Now()
	wg.Go(w.Run)
	defer wg.Wait()
	defer m.Stop()
	l := m.logs.Find("default")
	wait.Until(t, "it is published", func() bool {
		there, err := p.Held(context.Background(), l)
		return err == nil && there.Size == 50300
	})
	s.set(func() { s.fail = 0 })
	m.complete(p.store)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.puts > 2*2*(50000/256)+100 { // what has arrived is not sent again
		t.Errorf("%d uploads were taken", s.puts)
	}
	t.Logf("%d uploads taken in %v", s.puts, time.Since(began))
}

// TestAClonePublishesNothing: two copies of a log go on apart and publish to one place. The first one wins; the second finds out with its
// first publication, and says that the place is ahead of it.
func TestAClonePublishesNothing(t *testing.T) {
	for name, store := range map[string]objstore.Store{"memory": objstore.NewMemory(), "files": objstore.NewFile(filepath.Join(t.TempDir(), "www"))} {
		t.Run(name, func(t *testing.T) {
			a, b := newAlone(t, 1), newAlone(t, 1)
			a.grow(300, "entry")
			b.grow(300, "entry")
			of := func(m *alone) *Worker {
				w := m.worker(NewObjects(store, 0))
				if err := w.publish(context.Background(), m.logs.Find("default"), m.logs.Find("default").Checkpoint()); err != nil {
					t.Fatal(err)
				}
				return w
			}
			wa, wb := of(a), of(b)
			a.grow(10, "one history")
			b.grow(20, "another")
			if err := wa.publish(context.Background(), a.logs.Find("default"), a.logs.Find("default").Checkpoint()); err != nil {
				t.Fatal(err)
			}
			if err := wb.publish(context.Background(), b.logs.Find("default"), b.logs.Find("default").Checkpoint()); !errors.Is(err, ErrAhead) {
				t.Errorf("the second: %v", err)
			}
			if note, err := store.Get(context.Background(), "checkpoint"); err != nil || !bytes.Equal(note, a.logs.Find("default").Checkpoint().Note) {
				t.Errorf("published: %s, %v", note, err)
			}
		})
	}
}

// TestAPlaceIsLookedAtAtRest: what another copy published there is found although this log does not grow.
func TestAPlaceIsLookedAtAtRest(t *testing.T) {
	a, b, store := newAlone(t, 1), newAlone(t, 1), objstore.NewMemory()
	a.grow(300, "entry")
	b.grow(300, "entry")
	ahead := make(chan string, 10)
	w := a.worker(NewObjects(store, 0))
	w.look, w.target.Ahead = 20*time.Millisecond, func(log string) { ahead <- log }
	var wg sync.WaitGroup
	wg.Go(w.Run)
	defer wg.Wait()
	defer a.Stop()
	wait.Until(t, "it is published", func() bool {
		there, err := w.target.Place.Held(context.Background(), a.logs.Find("default"))
		return err == nil && there.Size == 300
	})
	b.grow(10, "another history")
	if err := b.publish(NewObjects(store, 0)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ahead:
	case <-time.After(wait.Limit(t)):
		t.Fatal("nobody looked")
	}
}
