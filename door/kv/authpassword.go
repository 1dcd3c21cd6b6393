package kv

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"runtime"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ei "github.com/holdfastdb/holdfast/entry/ident"
	mident "github.com/holdfastdb/holdfast/machine/ident"
)

// passwords makes and compares bcrypt hashes. One of them takes a processor for tens of milliseconds, by design; so only half
// of the processors do it at a time and the others wait, or anybody could stop the server by guessing.
type passwords struct {
	cost  int
	slots chan struct{}
	dummy func() []byte

	// Basic authentication sends the password with every request. known remembers, under a hash with a secret of this
	// process, which have matched which generation of a user.
	secret [32]byte
	mu     sync.Mutex
	known  map[[sha256.Size]byte]uint64 // guarded by mu
}

// maxKnown bounds what is remembered; beyond it all is forgotten, which costs one comparison each.
const maxKnown = 1024

func newPasswords(cost int) *passwords {
	if cost < bcrypt.MinCost || cost > bcrypt.MaxCost {
		cost = bcrypt.DefaultCost
	}
	p := &passwords{cost: cost, slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), known: map[[sha256.Size]byte]uint64{}}
	p.dummy = sync.OnceValue(func() []byte {
		hash, _ := bcrypt.GenerateFromPassword(nil, cost) // cannot fail: the cost is in range and nothing is not too long
		return hash
	})
	_, _ = rand.Read(p.secret[:]) // never fails: it stops the program instead
	return p
}

func (p *passwords) enter(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return rpctypes.ErrGRPCRequestTooManyRequests
	}
}

// hash derives the verifier of a password.
func (p *passwords) hash(ctx context.Context, password string) ([]byte, error) {
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	defer func() { <-p.slots }()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), p.cost)
	if err != nil { // longer than bcrypt can tell apart
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return hash, nil
}

// matches compares a password with a verifier; a nil one, of a user there is not, takes as long and matches nothing.
func (p *passwords) matches(ctx context.Context, hash []byte, password string) (bool, error) {
	if err := p.enter(ctx); err != nil {
		return false, err
	}
	defer func() { <-p.slots }()
	if len(hash) == 0 {
		_ = bcrypt.CompareHashAndPassword(p.dummy(), []byte(password+"x")) // for the time it takes
		return false, nil
	}
	return bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil, nil
}

// Catalogue reports whether clients must say who they are, and the revision of users and roles by which that is judged. Other
// protocols on this port ask it per request: it is one atomic load.
func (d *Door) Catalogue() (authEnabled bool, revision uint64) {
	st := d.users.State()
	return st.Enabled, st.Revision
}

// RootBasic reports whether user is one with the role root and password is his: what HTTP Basic proves. revision is that of the
// catalogue that says so, for the pass of a write (see propose). It may take as long as comparing a password does, once per
// user and password. Safe for concurrent use.
func (d *Door) RootBasic(user, password string) (revision uint64, ok bool) {
	st := d.users.State()
	u := st.User(user)
	if u == nil || u.NoPassword || !u.Has(ei.Root) {
		return 0, false
	}
	return st.Revision, d.knows(u, password)
}

// knows compares a password of Basic authentication, which comes with every request, with a user's.
func (d *Door) knows(u *mident.User, password string) bool {
	p := d.passwords
	text := append(p.secret[:len(p.secret):len(p.secret)], u.Name...)
	// Which part of it is the name does not matter: no two users have a generation in common.
	key := sha256.Sum256(append(append(text, 0), password...))
	p.mu.Lock()
	generation, ok := p.known[key]
	p.mu.Unlock()
	if ok && generation == u.Generation {
		return true
	}
	ctx, cancel := context.WithTimeout(d.life, d.opts.RequestTimeout)
	defer cancel()
	if ok, err := p.matches(ctx, u.Verifier(ei.Bcrypt), password); err != nil || !ok {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= maxKnown {
		clear(p.known)
	}
	p.known[key] = u.Generation
	return true
}
