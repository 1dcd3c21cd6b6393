// Package ident defines the command parts of the identity machine. They carry users with their verifiers, roles with the key ranges they
// open, tokens, the authentication switch, and the accounts of the sql door. It is one catalogue for all doors; each maps its protocol's
// words to it.
//
// No part has room for a password. A door derives a verifier from the password (for etcd's clients a bcrypt hash) and forgets the password.
// So neither the log nor a snapshot can give it away.
package ident

import "github.com/holdfastdb/holdfast/core/entry"

// Root is the name of the user that must exist, with the role of the same name, before authentication can be enabled. A user with that role
// may do everything.
const Root = "root"

// Scheme is how a verifier is compared. One user may have several: one for each way in which a protocol proves knowledge of a password. All
// of them are replaced together, when the password is set.
type Scheme uint8

// The schemes of this build. The numbers are part of the log's format and never reused.
const (
	Bcrypt Scheme = 1 // the hash that etcd keeps
	// 2 is reserved for SCRAM-SHA-256, of a door to come.
	CachingSHA2 Scheme = 3 // MySQL's caching_sha2_password: "$A$005$", a salt of 20 bytes and 43 digits
	MySQLNative Scheme = 4 // MySQL's mysql_native_password: SHA1(SHA1(password))
)

// Verifier is the stored value that a password is compared with.
type Verifier struct {
	Scheme Scheme
	Data   []byte
}

// Access is the kind of access that a permission allows, in etcd's numbering.
type Access uint8

// The kinds of access.
const (
	Read      Access = 0
	Write     Access = 1
	ReadWrite Access = 2
)

// Permission opens the keys in [Key, End): End empty = the one key, End "\0" = everything from Key on.
type Permission struct {
	Access   Access
	Key, End []byte
}

// TokenBytes is the length of a token in the log: the SHA-256 of its secret.
const TokenBytes = 32

// Pass goes beside a part of another machine and says at which revision of the catalogue its door found it permitted. It is refused at any
// other, so that no write passes on a permission that was taken back. While authentication is off, every revision passes.
type Pass struct{ Revision uint64 }

// Enable and Disable switch authentication. Disabling also ends all tokens.
type (
	Enable  struct{}
	Disable struct{}
)

// Parts about users. NoPassword users are known by certificates alone.
type (
	UserAdd struct {
		Name       string
		NoPassword bool
		Verifiers  []Verifier
	}
	UserDelete struct{ Name string }
	// UserPassword exchanges the verifiers, which ends the user's tokens.
	UserPassword struct {
		Name      string
		Verifiers []Verifier
	}
	UserGrant  struct{ Name, Role string }
	UserRevoke struct{ Name, Role string }
)

// Parts about roles.
type (
	RoleAdd    struct{ Name string }
	RoleDelete struct{ Name string }
	// RoleGrant adds a permission, or changes the access of one with the same range.
	RoleGrant struct {
		Name       string
		Permission Permission
	}
	RoleRevoke struct {
		Name     string
		Key, End []byte
	}
)

// TokenIssue makes a token known to every member. Generation is the user's when the password was compared: a password
// that was changed in the meantime gets no token.
type TokenIssue struct {
	User       string
	Generation uint64
	Token      [TokenBytes]byte
	// TTLMs is how long the token lives without being used, in milliseconds of the cluster tick.
	TTLMs uint64
}

// TokenTouch gives a token its time to live again.
type TokenTouch struct{ Token [TokenBytes]byte }

// Part is one command part; exactly one pointer is set. Actor is the user that asks for it, "" while no user had to be named. The parts
// about users and roles and the two switches need an actor with the role root. Pass and the tokens' parts have none, and those about
// accounts name an account instead.
type Part struct {
	Actor string

	Pass         *Pass
	Enable       *Enable
	Disable      *Disable
	UserAdd      *UserAdd
	UserDelete   *UserDelete
	UserPassword *UserPassword
	UserGrant    *UserGrant
	UserRevoke   *UserRevoke
	RoleAdd      *RoleAdd
	RoleDelete   *RoleDelete
	RoleGrant    *RoleGrant
	RoleRevoke   *RoleRevoke
	TokenIssue   *TokenIssue
	TokenTouch   *TokenTouch

	AccountCreate *AccountCreate
	AccountAlter  *AccountAlter
	AccountDrop   *AccountDrop
	AccountGrant  *AccountGrant
	AccountRevoke *AccountRevoke
}

// Rejection codes of the identity machine.
const (
	Malformed            entry.Code = 300 + iota // no door of ours writes such a part
	UserEmpty                                    // no user given, or an empty name
	UserNotFound                                 // no such user
	UserExists                                   //
	RoleEmpty                                    // an empty name
	RoleNotFound                                 //
	RoleExists                                   //
	RoleNotGranted                               // the user does not have it
	PermissionNotGranted                         // the role does not have it
	RootUserMissing                              // no user could administer
	RootRoleMissing                              // likewise
	ManagementRefused                            // a change that would leave no user to administer, or an empty range
	Denied                                       // the actor lacks the role root
	OldRevision                                  // the catalogue has changed since the door looked
	PassMissing                                  // authentication is on and no Pass vouches for the command
	NotEnabled                                   // authentication is off
	TokenNotFound                                // it has ended
	Full                                         // the catalogue may not grow further
)

// Outdated reports whether a command was refused only because users and roles are not those that it was judged by: a door judges it again.
func Outdated(r *entry.Rejection) bool {
	return r != nil && r.Machine == entry.MachineIdent && (r.Code == OldRevision || r.Code == PassMissing)
}
