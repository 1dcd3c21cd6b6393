package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"runtime"
	"sync"

	"golang.org/x/crypto/bcrypt"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mident "github.com/holdfastdb/holdfast/core/machine/ident"
)

// passwords makes and compares bcrypt hashes. A hash takes a processor for tens of milliseconds, by design. So only half of the processors
// make one at a time and other requests wait. Otherwise any client could stop the server by guessing. See guesses for the order.
type passwords struct {
	cost    int
	guesses *guesses
	dummy   func() []byte

	// Basic authentication sends the password with every request. known remembers, under a hash with a secret of this process,
	// which passwords have matched which generation of a user.
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
	p := &passwords{cost: cost, guesses: newGuesses(max(1, runtime.GOMAXPROCS(0)/2)), known: map[[sha256.Size]byte]uint64{}}
	p.dummy = sync.OnceValue(func() []byte {
		hash, _ := bcrypt.GenerateFromPassword(nil, cost) // cannot fail: the cost is in range and nothing is not too long
		return hash
	})
	_, _ = rand.Read(p.secret[:]) // never fails: it stops the program instead
	return p
}

// hash derives the verifier of a password for a user that may set it.
func (p *passwords) hash(ctx context.Context, password string) ([]byte, error) {
	end, err := p.guesses.enterExempt(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), p.cost)
	if err != nil { // longer than bcrypt can tell apart
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return hash, nil
}

// matches compares the password that host gave for a user with a verifier. A nil verifier, of a user that does not exist or has no
// password, takes as long and matches nothing. After too many wrong ones, from this host or for this user, it waits and then fails.
func (p *passwords) matches(ctx context.Context, host, user string, hash []byte, password string) (right bool, err error) {
	end, err := p.guesses.enter(ctx, host, user)
	if err != nil {
		return false, err
	}
	defer func() { end(right) }()
	if len(hash) == 0 {
		_ = bcrypt.CompareHashAndPassword(p.dummy(), []byte(password+"x")) // for the time it takes
		return false, nil
	}
	return bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil, nil
}

// matched reports whether this password of Basic authentication, which comes with every request, was a user's before and still is.
func (p *passwords) matched(u *mident.User, password string) bool {
	key := p.keyOf(u, password)
	p.mu.Lock()
	defer p.mu.Unlock()
	generation, ok := p.known[key]
	return ok && generation == u.Generation
}

// remember makes matched report true for this password from now on.
func (p *passwords) remember(u *mident.User, password string) {
	key := p.keyOf(u, password)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= maxKnown {
		clear(p.known)
	}
	p.known[key] = u.Generation
}

func (p *passwords) keyOf(u *mident.User, password string) [sha256.Size]byte {
	text := append(p.secret[:len(p.secret):len(p.secret)], u.Name...)
	// The name needs no separator, because no two users have a generation in common.
	return sha256.Sum256(append(append(text, 0), password...))
}
