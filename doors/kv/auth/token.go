package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
)

// tokens are a client's credentials instead of a password.
type tokens interface {
	// issue gives out a token for a user whose password was compared under st; again reports that the password was changed
	// meanwhile.
	issue(ctx context.Context, st *mident.State, u *mident.User) (token string, again bool, err error)
	// owner returns who a token was given to. revision is that of the catalogue when it was given out, 0 if that does not
	// matter.
	owner(ctx context.Context, token string) (name string, revision uint64, ok bool)
}

// errAuthOptions refuses an --auth-token that makes no sense.
var errAuthOptions = errors.New("auth: invalid auth options")

// newTokens reads an --auth-token: "simple", or "jwt" with its signing options.
func newTokens(u *Users, spec string, ttl time.Duration, readFile func(string) ([]byte, error)) (tokens, error) {
	words := strings.Split(spec, ",")
	opts := map[string]string{}
	for _, w := range words[1:] {
		k, v, ok := strings.Cut(w, "=")
		if _, twice := opts[k]; !ok || twice || strings.Contains(v, "=") {
			return nil, fmt.Errorf("%w: %q", errAuthOptions, w)
		}
		opts[k] = v
	}
	switch words[0] {
	case "simple":
		if ttl <= 0 {
			ttl = 300 * time.Second
		}
		return &simpleTokens{u: u, ttl: ttl, touches: make(chan struct{}, maxTouches)}, nil
	case "jwt":
		return newSignedTokens(opts, readFile)
	}
	return nil, fmt.Errorf("%w: token type %q is neither simple nor jwt", errAuthOptions, words[0])
}

// CheckToken returns the fault of an Options.Token, so that a server can refuse it before it starts anything.
func CheckToken(spec string, readFile func(name string) ([]byte, error)) error {
	_, err := newTokens(nil, spec, 0, readFile)
	return err
}

const (
	// tokenLetters is how many letters a token's secret has: 125 bits.
	tokenLetters = 22
	letters      = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	// maxTouches is how many renewals of tokens may be under way. A token beyond that is renewed by a later request.
	maxTouches = 16
)

// simpleTokens are random words whose hashes are in the log. So every member knows each of them, also after a restart or a snapshot. In
// etcd they live in the memory of the members that were up. The text is etcd's: letters, a dot, and the log index from which on it is good.
// A member behind that index asks for the log's state first.
//
// A token ends when it was not used for its time to live. The time is counted by the cluster tick, the same on all members. Each use could
// move a token's end by a command, which would make reads as dear as writes. So a command is sent only once an eighth of the time is over,
// and an unused token lives for at least seven eighths. Rejected: a token that carries its owner and end under a key from the log. It needs
// no command, but a reader of a snapshot could make tokens for root, while a hash is useless to him.
type simpleTokens struct {
	u       *Users
	ttl     time.Duration
	touches chan struct{} // one for each renewal under way
}

func hashToken(secret string) [eident.TokenBytes]byte { return sha256.Sum256([]byte(secret)) }

func newSecret() string {
	b := make([]byte, 0, tokenLetters)
	var random [64]byte
	for len(b) < tokenLetters {
		_, _ = rand.Read(random[:]) // never fails: it stops the program instead
		for _, r := range random {
			// 208 is the greatest multiple of 52 in a byte: higher values would make some letters likelier.
			if r < 208 && len(b) < tokenLetters {
				b = append(b, letters[int(r)%len(letters)])
			}
		}
	}
	return string(b)
}

func (t *simpleTokens) issue(ctx context.Context, _ *mident.State, u *mident.User) (string, bool, error) {
	secret := newSecret()
	part := Part(&eident.Part{TokenIssue: &eident.TokenIssue{
		User: u.Name, Generation: u.Generation, Token: hashToken(secret), TTLMs: uint64(max(1, t.ttl.Milliseconds()))}})
	res, err := t.u.opts.Member.Propose(t.u.opts.Bounded(ctx), node.LaneSystem, part)
	if err != nil {
		return "", false, etcderr.Of(err)
	}
	if r := res.Rejection; r != nil {
		// The user or the password is another one now: the caller looks at them again.
		if r.Code == eident.OldRevision || r.Code == eident.UserNotFound {
			return "", true, nil
		}
		return "", false, etcderr.Rejected(r)
	}
	return fmt.Sprintf("%s.%d", secret, res.Pos.Index), false, nil
}

func (t *simpleTokens) owner(ctx context.Context, token string) (string, uint64, bool) {
	secret, at, ok := strings.Cut(token, ".")
	index, err := strconv.ParseUint(at, 10, 64)
	if !ok || err != nil {
		return "", 0, false
	}
	hash := hashToken(secret)
	known, ok := t.u.machine.Token(hash)
	if !ok && index > t.u.opts.Member.Status().Applied {
		// It was given out by a member that is ahead of this one, or is forged.
		if t.u.opts.Member.Linearize(t.u.opts.Bounded(ctx)) != nil {
			return "", 0, false
		}
		known, ok = t.u.machine.Token(hash)
	}
	if !ok {
		return "", 0, false
	}
	left := known.DeadlineMs - t.u.opts.Member.Tick()
	if left <= 0 {
		return "", 0, false
	}
	if left < known.TTLMs-known.TTLMs/8 && known.Touching.CompareAndSwap(false, true) {
		t.touch(hash, known)
	}
	return known.User, 0, true
}

// touch moves the token's end, in the background: the request that uses it does not wait for the log.
func (t *simpleTokens) touch(hash [eident.TokenBytes]byte, known *mident.Token) {
	select {
	case t.touches <- struct{}{}:
	default:
		known.Touching.Store(false)
		return
	}
	go func() {
		defer func() { <-t.touches }()
		ctx, cancel := context.WithTimeout(t.u.opts.Life, t.u.opts.RequestTimeout)
		defer cancel()
		var res *entry.Result
		res, err := t.u.opts.Member.Propose(ctx, node.LaneSystem, Part(&eident.Part{TokenTouch: &eident.TokenTouch{Token: hash}}))
		if err != nil || res.Rejection != nil {
			known.Touching.Store(false) // the next request tries again; after success there is another Token
		}
	}()
}
