package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Options of New.
type Options struct {
	// State returns the catalogue at the applied index. *mident.Machine's State is one.
	State func() *mident.State
	// Propose carries a part through the log.
	Propose func(ctx context.Context, parts ...entry.Part) (*entry.Result, error)
	// Confirm returns when this member has applied everything that was acknowledged before the call. nil: it always has.
	Confirm func(ctx context.Context) error
	// MaxBytes is what members have for the catalogue; nil: no bound.
	MaxBytes func() int64
}

// Users are the accounts of the cluster, as one member sees them. Any goroutine.
type Users struct{ opt Options }

// New returns the accounts.
func New(opt Options) *Users { return &Users{opt} }

// Note is a warning of level Note.
type Note struct {
	Code int
	Text string
}

// patience bounds the way of a statement through the log.
const patience = 10 * time.Second

// Answer is what a statement has come to.
type Answer struct {
	// Heading and Lines are those of ShowGrants.
	Heading string
	Lines   []string
	Notes   []Note
	// Wrote is the result of the command that took effect. Nil: there was none.
	Wrote *entry.Result
}

// Run runs a statement of a client whose default database is database. Errors are *wire.Error.
func (u *Users) Run(ctx context.Context, c *Client, st *Statement, database string) (a Answer, err error) {
	ctx, end := context.WithTimeout(ctx, patience)
	defer end()
	if st.Verb == ShowGrants {
		a.Heading, a.Lines, err = u.show(ctx, c, st)
		return a, err
	}
	if st.Verb == Flush {
		if !c.account().MayManage() {
			return a, needs("RELOAD")
		}
		return a, nil
	}
	part, err := u.part(c, st, database)
	if err != nil {
		return a, err
	}
	if u.opt.MaxBytes != nil && st.Verb != Drop && st.Verb != Revoke {
		if taken, room := u.opt.State().Bytes(), u.opt.MaxBytes(); taken >= room {
			return a, wire.Errorf(wire.ErrOutOfMemory, "Out of memory; users and accounts take %d bytes, and the least --memory of a member has room for %d", taken, room)
		}
	}
	notes := u.notes(c, st)
	res, err := u.opt.Propose(ctx, entry.Part{Machine: entry.MachineIdent, Body: eident.AppendPart(nil, part)})
	switch {
	case err != nil:
		return a, unavailable(err)
	case res.Rejection != nil:
		return a, c.rejected(st, res.Rejection)
	}
	return Answer{Notes: notes, Wrote: res}, nil
}

// part makes the command of a statement. What the machine would refuse by the client's rights is refused here, in the statement's own words.
func (u *Users) part(c *Client, st *Statement, database string) (*eident.Part, error) {
	state := u.opt.State()
	names := make([]eident.AccountName, len(st.Users))
	own := true
	for i := range st.Users {
		names[i] = c.nameOf(state, &st.Users[i])
		own = own && names[i] == c.Name
	}
	logins := func() []eident.AccountLogin {
		all := make([]eident.AccountLogin, len(names))
		for i, n := range names {
			all[i] = eident.AccountLogin{Name: n, Verifier: verifier(state, n, &st.Users[i])}
		}
		return all
	}
	if st.Scope == DefaultDatabase {
		if st.Database == "" && database == "" {
			return nil, wire.Errorf(1046, "No database selected")
		}
	}
	if st.Verb == Grant || st.Verb == Revoke {
		if on := st.database(database); !c.account().MayGrant() {
			if on == "" {
				return nil, wire.Errorf(wire.ErrAccessDenied, "Access denied for user %s (using password: YES)", c)
			}
			return nil, wire.Errorf(1044, "Access denied for user %s to database '%s'", c, on)
		}
	} else if !c.account().MayManage() && !(st.Verb == Alter && own) {
		return nil, needs("CREATE USER")
	}
	switch st.Verb {
	case Create:
		return &eident.Part{AccountCreate: &eident.AccountCreate{By: c.Name, IfNotExists: st.If, Accounts: logins()}}, nil
	case Alter:
		return &eident.Part{AccountAlter: &eident.AccountAlter{By: c.Name, IfExists: st.If, Accounts: logins()}}, nil
	case Drop:
		return &eident.Part{AccountDrop: &eident.AccountDrop{By: c.Name, IfExists: st.If, Names: names}}, nil
	case Grant:
		return &eident.Part{AccountGrant: &eident.AccountGrant{By: c.Name, Database: st.database(database), Option: st.Option, Names: names}}, nil
	}
	return &eident.Part{AccountRevoke: &eident.AccountRevoke{By: c.Name, Database: st.database(database), Everything: st.Everything, Names: names}}, nil
}

// database is the pattern that privileges are on; "": on everything. The name of a default database is no pattern.
func (st *Statement) database(def string) string {
	switch st.Scope {
	case OneDatabase:
		return st.Database
	case DefaultDatabase:
		return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(def)
	}
	return ""
}

// nameOf finds the account that a statement means. A user without a host is the one at every host; root, which has none there, is the one at
// localhost.
func (c *Client) nameOf(s *mident.State, u *User) eident.AccountName {
	switch n := (eident.AccountName{User: u.Name, Host: u.Host}); {
	case u.Self:
		return c.Name
	case u.Host != "":
		return n
	case u.Name == eident.Root && s.Account(eident.AccountName{User: u.Name, Host: eident.AnyHost}) == nil:
		return eident.RootAccount
	default:
		n.Host = eident.AnyHost
		return n
	}
}

// verifier makes what a new password is compared with. The account keeps its plugin where the statement names none.
func verifier(s *mident.State, n eident.AccountName, u *User) eident.Verifier {
	scheme := eident.CachingSHA2
	if a := s.Account(n); a != nil && u.Plugin == "" {
		scheme = a.Verifier.Scheme
	}
	if u.Plugin == wire.NativePassword {
		scheme = eident.MySQLNative
	}
	if scheme == eident.MySQLNative {
		return eident.Verifier{Scheme: scheme, Data: wire.NativeVerifier(u.Password)}
	}
	return eident.Verifier{Scheme: scheme, Data: wire.SHA2Verifier(u.Password)}
}

// notes are MySQL's for accounts that IF EXISTS or IF NOT EXISTS passes over.
func (u *Users) notes(c *Client, st *Statement) (notes []Note) {
	if !st.If {
		return nil
	}
	s := u.opt.State()
	for i := range st.Users {
		n := c.nameOf(s, &st.Users[i])
		switch there := s.Account(n) != nil; {
		case there && st.Verb == Create:
			notes = append(notes, Note{3163, fmt.Sprintf("Authorization ID %s already exists.", n)})
		case !there && st.Verb != Create:
			notes = append(notes, Note{3162, fmt.Sprintf("Authorization ID %s does not exist.", n)})
		}
	}
	return notes
}

// needs is MySQL's 1227.
func needs(privilege string) *wire.Error {
	return wire.Errorf(1227, "Access denied; you need (at least one of) the %s privilege(s) for this operation", privilege)
}

// verbs are the statements in the words of 1396.
var verbs = map[Verb]string{Create: "CREATE USER", Alter: "ALTER USER", Drop: "DROP USER", Grant: "GRANT", Revoke: "REVOKE"}

// rejected turns the machine's rejection into MySQL's words.
func (c *Client) rejected(st *Statement, r *entry.Rejection) error {
	if r.Machine != entry.MachineIdent {
		return wire.Errorf(wire.ErrUnknown, "%s", r.Detail)
	}
	switch r.Code {
	case eident.Denied:
		return needs("CREATE USER")
	case eident.UserExists, eident.ManagementRefused:
		return wire.Errorf(1396, "Operation %s failed for %s", verbs[st.Verb], r.Detail)
	case eident.UserNotFound:
		if st.Verb == Grant {
			return wire.Errorf(1410, "You are not allowed to create a user with GRANT")
		}
		return wire.Errorf(1396, "Operation %s failed for %s", verbs[st.Verb], r.Detail)
	case eident.PermissionNotGranted:
		if st.Everything {
			return wire.Errorf(1269, "Can't revoke all privileges for one or more of the requested users")
		}
		return noGrant(c.nameOf(c.users.opt.State(), &st.Users[0]))
	case eident.Full:
		return wire.Errorf(wire.ErrOutOfMemory, "Out of memory; %s", r.Detail)
	}
	return wire.Errorf(wire.ErrUnknown, "%s", r.Detail)
}

func noGrant(n eident.AccountName) *wire.Error {
	return wire.Errorf(1141, "There is no such grant defined for user '%s' on host '%s'", n.User, n.Host)
}

// unavailable turns an error of the log into MySQL's words.
func unavailable(err error) error {
	switch {
	case errors.Is(err, node.ErrLevel):
		return wire.Errorf(1235, "This version of Holdfast doesn't yet support 'accounts': not every member runs a build that knows them")
	case errors.Is(err, node.ErrOverloaded):
		return wire.Errorf(1203, "The log takes no more at present; the statement had no effect, try it again")
	case errors.Is(err, node.ErrNoLeader), errors.Is(err, node.ErrSuperseded):
		return wire.Errorf(1290, "The Holdfast server has no leader at present, so it cannot execute this statement; it had no effect, try it again")
	case errors.Is(err, context.Canceled):
		return wire.Errorf(wire.ErrInterrupted, "Query execution was interrupted: whether the statement has taken effect is not known")
	}
	return wire.Errorf(wire.ErrShutdown, "Whether the statement has taken effect is not known: %v", err)
}
