package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// How many passwords may be compared. A host and a user's name each have a token bucket: a comparison takes a token of both, and a right
// password gives them back. A host that has sent the right password of a user takes no tokens of that user. So guesses from elsewhere
// cannot lock users out.
const (
	hostBurst, hostPerSecond = 20, 1
	userBurst, userPerSecond = 100, 4
	// maxGuesses bounds how many wait, maxBuckets each kind of bucket and the pairs of host and user with a right password.
	maxGuesses = 1024
	maxBuckets = 4096
)

// guesses picks the next password to compare among those whose buckets have a token. It picks one from the host with the most tokens left,
// and among equals the last to come. In a flood the oldest are about to give up. So a right password waits only for the comparisons under
// way, however many guesses come from other hosts.
//
// Names and hosts are kept as hashes with a secret of this process: they are the clients' to choose, at any length. A name without a user
// gets a bucket too; otherwise the wait would show which names exist.
type guesses struct {
	now    func() time.Time
	secret [32]byte

	mu      sync.Mutex
	stopped bool
	free    int // comparisons that may begin
	seq     uint64
	waiting []*guess
	hosts   map[uint64]*bucket
	users   map[uint64]*bucket
	right   map[uint64]struct{} // host and user of passwords that matched
	wake    *time.Timer         // nil: no guess waits for a token
}

// guess is one that waits. guesses.mu guards it until ready is closed.
type guess struct {
	host, user, both uint64
	exempt           bool // an administrator sets a new password, which is no guess
	seq              uint64
	ready            chan struct{}
	refused          error
}

// bucket is a token bucket; tokens are as of at.
type bucket struct {
	tokens float64
	at     time.Time
}

func newGuesses(slots int) *guesses {
	g := &guesses{now: time.Now, free: slots, hosts: map[uint64]*bucket{}, users: map[uint64]*bucket{}, right: map[uint64]struct{}{}}
	_, _ = rand.Read(g.secret[:]) // never fails: it stops the program instead
	return g
}

// enter waits for a turn to compare a password of user that came from host, an address without its port. end gives the turn back and tells
// whether the password was right. Exactly one of end and err is nil.
func (g *guesses) enter(ctx context.Context, host, user string) (end func(right bool), err error) {
	host = network(host)
	w := &guess{host: g.key(host), user: g.key(user), both: g.key(host, user)}
	if err := g.wait(ctx, w); err != nil {
		return nil, err
	}
	return func(right bool) { g.end(w, right) }, nil
}

// enterExempt is enter for an administrator who sets a password.
func (g *guesses) enterExempt(ctx context.Context) (end func(), err error) {
	w := &guess{exempt: true}
	if err := g.wait(ctx, w); err != nil {
		return nil, err
	}
	return func() { g.end(w, false) }, nil
}

func (g *guesses) wait(ctx context.Context, w *guess) error {
	g.mu.Lock()
	if g.stopped {
		g.mu.Unlock()
		return rpctypes.ErrGRPCStopped
	}
	g.seq++
	w.seq, w.ready = g.seq, make(chan struct{})
	g.waiting = append(g.waiting, w)
	g.begin()
	if len(g.waiting) > maxGuesses {
		g.take(g.worst()).refuse(rpctypes.ErrGRPCRequestTooManyRequests)
	}
	g.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
		g.mu.Lock()
		for i, other := range g.waiting {
			if other == w {
				g.take(i).refuse(rpctypes.ErrGRPCRequestTooManyRequests)
				break
			}
		}
		g.mu.Unlock()
		<-w.ready // its turn has just come, or it is refused
	}
	return w.refused
}

// stop refuses the waiting guesses and all later ones. Comparisons under way go on to their end.
func (g *guesses) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	for _, w := range g.waiting {
		w.refuse(rpctypes.ErrGRPCStopped)
	}
	g.waiting = nil
	g.beginIn(0)
}

func (w *guess) refuse(with error) {
	w.refused = with
	close(w.ready)
}

// begin gives free turns to the waiting guesses. The caller holds mu.
func (g *guesses) begin() {
	now := g.now()
	for g.free > 0 {
		best, soonest := -1, time.Duration(0)
		var most float64
		for i, w := range g.waiting {
			left, until := g.left(w, now)
			if until > 0 {
				if soonest == 0 || until < soonest {
					soonest = until
				}
				continue
			}
			if best < 0 || left > most || left == most && w.seq > g.waiting[best].seq {
				best, most = i, left
			}
		}
		if best < 0 {
			g.beginIn(soonest)
			return
		}
		w := g.take(best)
		if !w.exempt {
			g.bucket(g.hosts, w.host, now, hostBurst, hostPerSecond).tokens--
			if !g.trusted(w) {
				g.bucket(g.users, w.user, now, userBurst, userPerSecond).tokens--
			}
		}
		g.free--
		close(w.ready)
	}
}

// beginIn calls begin when the next waiting guess has a token; 0: none waits for one. The caller holds mu.
func (g *guesses) beginIn(d time.Duration) {
	if g.wake != nil {
		g.wake.Stop()
		g.wake = nil
	}
	if d > 0 {
		g.wake = time.AfterFunc(d, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.begin()
		})
	}
}

// left returns what counts for w, and how long it still has to wait for a token. The caller holds mu.
func (g *guesses) left(w *guess, now time.Time) (tokens float64, until time.Duration) {
	if w.exempt {
		return 3 * hostBurst, 0
	}
	host := g.bucket(g.hosts, w.host, now, hostBurst, hostPerSecond)
	until = host.until(hostPerSecond)
	if g.trusted(w) {
		return host.tokens + hostBurst, until
	}
	user := g.bucket(g.users, w.user, now, userBurst, userPerSecond)
	return host.tokens, max(until, user.until(userPerSecond))
}

func (g *guesses) trusted(w *guess) bool {
	_, ok := g.right[w.both]
	return ok
}

// worst is the place of the guess that would have its turn last. The caller holds mu.
func (g *guesses) worst() int {
	now, worst := g.now(), 0
	var least float64
	for i, w := range g.waiting {
		if left, _ := g.left(w, now); i == 0 || left < least {
			worst, least = i, left
		}
	}
	return worst
}

// take removes the waiting guess at a place. The caller holds mu.
func (g *guesses) take(i int) *guess {
	w, last := g.waiting[i], len(g.waiting)-1
	g.waiting[i] = g.waiting[last]
	g.waiting[last] = nil
	g.waiting = g.waiting[:last]
	return w
}

func (g *guesses) end(w *guess, right bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free++
	if right {
		now := g.now()
		g.bucket(g.hosts, w.host, now, hostBurst, hostPerSecond).tokens++
		if !g.trusted(w) {
			g.bucket(g.users, w.user, now, userBurst, userPerSecond).tokens++
			if len(g.right) >= maxBuckets {
				clear(g.right)
			}
			g.right[w.both] = struct{}{}
		}
	}
	g.begin()
}

// bucket returns one as of now. The caller holds mu.
func (g *guesses) bucket(of map[uint64]*bucket, key uint64, now time.Time, burst, perSecond float64) *bucket {
	b := of[key]
	if b == nil {
		if len(of) >= maxBuckets {
			forget(of, now, burst, perSecond)
		}
		b = &bucket{tokens: burst, at: now}
		of[key] = b
	}
	b.fill(now, burst, perSecond)
	return b
}

// forget drops the buckets that are full again, or all if none is: filling the table takes more addresses than it gains
// guesses.
func forget(of map[uint64]*bucket, now time.Time, burst, perSecond float64) {
	for key, b := range of {
		if b.fill(now, burst, perSecond); b.tokens >= burst {
			delete(of, key)
		}
	}
	if len(of) >= maxBuckets {
		clear(of)
	}
}

func (b *bucket) fill(now time.Time, burst, perSecond float64) {
	b.tokens = min(burst, b.tokens+perSecond*now.Sub(b.at).Seconds())
	b.at = now
}

// until is how long it takes to the next whole token, 0 if there is one.
func (b *bucket) until(perSecond float64) time.Duration {
	if b.tokens >= 1 {
		return 0
	}
	return max(time.Duration((1-b.tokens)/perSecond*float64(time.Second)), time.Millisecond)
}

func (g *guesses) key(parts ...string) uint64 {
	h := sha256.New()
	h.Write(g.secret[:])
	for _, p := range parts {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// network is the network that a host's guesses are counted for: its address, or of IPv6 the /64, which is usually one customer's.
func network(host string) string {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return host // a socket file, or a connection in this process
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	p, _ := a.Prefix(64) // never fails for 64 bits of IPv6
	return p.String()
}
