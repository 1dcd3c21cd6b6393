// Package auth judges permissions on the kv door. It identifies a request's user by a token, a password or a certificate, and applies the
// catalogue of users and roles. It also serves etcd's Auth service, which changes the catalogue. A write that was permitted goes through
// the log with a pass, which is refused there if the catalogue has changed since.
//
// The catalogue is the identity machine's (core/machine/ident), and so is the last word on every write. The door decides the effect and the
// cost of a request.
package auth

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
)

// Member is what Users need of their node. *node.Node is one.
type Member interface {
	Propose(ctx context.Context, lane node.Lane, parts ...entry.Part) (*entry.Result, error)
	Linearize(ctx context.Context) error
	Status() node.Status
	Tick() int64
}

// Options of Users. None but Token, TokenTTL, BcryptCost, ReadFile, ClientCertAuth and RefuseEnable may be left out.
type Options struct {
	Member  Member
	Machine *mident.Machine
	// Token is an etcd's --auth-token; TokenTTL the time to live of simple ones, 0 = 300 s. ReadFile reads a signed token's keys; nil:
	// there are none.
	Token    string
	TokenTTL time.Duration
	ReadFile func(name string) ([]byte, error)
	// BcryptCost of passwords; an invalid one means bcrypt's default.
	BcryptCost int
	// ClientCertAuth takes the common name of a client's certificate for a user, where no token is sent.
	ClientCertAuth bool
	// RefuseEnable says why authentication cannot be enabled, "" if it can.
	RefuseEnable string
	// MaxBytes bounds the rows of users and roles: additions beyond it are refused here, so members may differ. nil: only the machine's own
	// bound holds.
	MaxBytes func() int64

	// Bounded returns the context that a request may wait under, Life ends with the door. RequestTimeout bounds what waits under Life.
	Bounded func(ctx context.Context) context.Context
	// Written holds back the result of a change until it is as durable as its client asked for. bound is the context that the request waits
	// under. nil: only for the wait of Propose itself.
	Written        func(ctx, bound context.Context, res *entry.Result) error
	Life           context.Context
	RequestTimeout time.Duration
	// LeaseKeys calls fn with every key of a lease until it returns false.
	LeaseKeys func(lease int64, fn func(key []byte) bool) error
	// Header is that of an answer at the current revision.
	Header func() *pb.ResponseHeader
}

// Users are the users of a door. Their methods may be called from any goroutine.
type Users struct {
	opts      Options
	machine   *mident.Machine
	tokens    tokens
	passwords *passwords
}

// New returns the users that opts tells of. The error names the fault of Options.Token.
func New(opts Options) (*Users, error) {
	u := &Users{opts: opts, machine: opts.Machine, passwords: newPasswords(opts.BcryptCost)}
	var err error
	u.tokens, err = newTokens(u, opts.Token, opts.TokenTTL, opts.ReadFile)
	return u, err
}

// Access finds out who asks. It is one atomic load while authentication is off.
func (u *Users) Access(ctx context.Context) (*Access, error) {
	if !u.machine.State().Enabled {
		return nil, nil
	}
	a := &Access{}
	if token, ok := tokenOf(ctx); ok {
		if a.name, a.revision, a.given = u.tokens.owner(ctx, token); !a.given {
			if !u.machine.State().Enabled {
				return nil, nil // authentication was switched off meanwhile
			}
			return nil, rpctypes.ErrGRPCInvalidAuthToken
		}
	} else if u.opts.ClientCertAuth {
		a.name, a.given = commonName(ctx)
	}
	// Taken only now, because this member may have learned of the user while it looked for the token.
	if a.st = u.machine.State(); !a.st.Enabled {
		return nil, nil
	}
	if a.revision == 0 && a.given {
		a.revision = a.st.Revision
	}
	if a.given && a.revision < a.st.Revision {
		return nil, rpctypes.ErrGRPCAuthOldRevision // for every request: the user may have been removed or replaced since
	}
	return a, nil
}

// accessNow is Access by a catalogue that has everything acknowledged before. A signed token is good for one revision only, and a member
// that is behind would judge it by an older one. It is for calls that administer, of which there are few.
func (u *Users) accessNow(ctx context.Context) (*Access, error) {
	if _, signed := u.tokens.(*signedTokens); signed && u.machine.State().Enabled {
		if err := u.opts.Member.Linearize(u.opts.Bounded(ctx)); err != nil {
			return nil, etcderr.Of(err)
		}
	}
	return u.Access(ctx)
}

// Stands reports whether a request judged by a would be judged the same way now. A nil a means that authentication was off.
func (u *Users) Stands(a *Access) bool {
	now := u.machine.State()
	if a == nil {
		return !now.Enabled
	}
	return now == a.st || !now.Enabled || now.Revision == a.st.Revision
}

// Reading runs read, which looks at the state. before judges the request, after judges what was read; both may be nil, and
// neither is called while authentication is off. If the catalogue has changed by the end, all is done again.
func (u *Users) Reading(ctx context.Context, before func(*Access) error, read func() error, after func(*Access) error) error {
	for {
		a, err := u.Access(ctx)
		if err == nil && a != nil && before != nil {
			err = before(a)
		}
		if err == nil && read != nil {
			err = read()
		}
		if err == nil && a != nil && after != nil {
			err = after(a)
		}
		if err != nil || u.Stands(a) {
			return err
		}
	}
}

// MayAsk refuses requests without a user, for questions open to every user.
func (u *Users) MayAsk(ctx context.Context) error {
	a, err := u.Access(ctx)
	if err != nil {
		return err
	}
	return a.Named()
}

// MayAdminister refuses users without the role root. A change of members or of leadership that was permitted just before the role was taken
// away takes effect, as in etcd. Only root could arrange that.
func (u *Users) MayAdminister(ctx context.Context) error {
	a, err := u.accessNow(ctx)
	if err != nil {
		return err
	}
	return a.Admin()
}

// MayLease refuses users who lack permission for one of the lease's keys. For a user with all permissions the keys are not
// read.
func (u *Users) MayLease(a *Access, what eident.Access, lease int64) error {
	if a == nil || a.Admin() == nil {
		return nil
	}
	if err := a.Named(); err != nil {
		return err
	}
	var refusal error
	err := u.opts.LeaseKeys(lease, func(key []byte) bool {
		refusal = a.May(what, key, nil)
		return refusal == nil
	})
	if err != nil {
		return etcderr.Of(err)
	}
	return refusal
}

// Catalogue reports whether clients must say who they are, and the revision of users and roles by which that is judged. Other
// protocols on this port ask it per request: it is one atomic load.
func (u *Users) Catalogue() (authEnabled bool, revision uint64) {
	st := u.machine.State()
	return st.Enabled, st.Revision
}

// RootBasic reports whether user has the role root and this password, for HTTP Basic authentication. host is where the request
// came from (port.Host). revision is that of the catalogue that says so, for the pass of a write (Access.Permitted). It takes as
// long as comparing a password does, for every name, but for a user and a password that have matched before. Safe for
// concurrent use.
func (u *Users) RootBasic(host, user, password string) (revision uint64, ok bool) {
	st := u.machine.State()
	who := st.User(user)
	if who != nil && u.passwords.matched(who, password) {
		return st.Revision, who.Has(eident.Root)
	}
	var hash []byte
	if who != nil && !who.NoPassword {
		hash = who.Verifier(eident.Bcrypt)
	}
	if right, err := u.matches(u.opts.Life, host, user, hash, password); err != nil || !right {
		return 0, false
	}
	u.passwords.remember(who, password)
	return st.Revision, who.Has(eident.Root)
}

// matches is passwords.matches for a request. It waits under the request's own context, not under a shared one (Options.Bounded). A client
// that went away must give up its place, or its guess would be compared in vain.
func (u *Users) matches(ctx context.Context, host, user string, hash []byte, password string) (right bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, u.opts.RequestTimeout)
	defer cancel()
	return u.passwords.matches(ctx, host, user, hash, password)
}

// Stop refuses the passwords that wait for their turn, and all that come later, so that a door can end its calls.
func (u *Users) Stop() { u.passwords.guesses.stop() }
