package account

import (
	"context"
	"fmt"
	"net"

	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Client is a client that has logged in. Its rights are those of its account at the moment of each question: an account that was dropped has
// none.
type Client struct {
	users *Users
	Name  eident.AccountName // of the account
	Host  string             // that the client comes from
}

// Client returns the client of a login.
func (u *Users) Client(c *wire.Client) *Client {
	return &Client{users: u, Name: eident.AccountName{User: c.User, Host: c.AccountHost}, Host: wire.HostOf(c.Addr)}
}

func (c *Client) account() *mident.Account { return c.users.opt.State().Account(c.Name) }

// MayUse reports whether the client may do everything in a database.
func (c *Client) MayUse(database string) bool { return c.account().MayUse(database) }

// MayManage reports whether the client may manage accounts, and see and end what others do.
func (c *Client) MayManage() bool { return c.account().MayManage() }

// String is the client in the words of MySQL's errors.
func (c *Client) String() string { return fmt.Sprintf("'%s'@'%s'", c.Name.User, c.Host) }

// Account implements wire.Accounts. An account without a password is there for clients from loopback alone.
func (u *Users) Account(ctx context.Context, user string, from net.Addr) (wire.Account, bool, error) {
	if u.opt.Confirm != nil {
		if err := u.opt.Confirm(ctx); err != nil {
			return wire.Account{}, false, wire.Errorf(wire.ErrShutdown, "Nobody can log in: this member cannot confirm that it knows all accounts (%v); try it again", err)
		}
	}
	local := wire.HostOf(from) == eident.Localhost
	a := u.opt.State().AccountFor(user, local)
	if a == nil || len(a.Verifier.Data) == 0 && !local {
		return wire.Account{}, false, nil
	}
	plugin := wire.CachingSHA2
	if a.Verifier.Scheme == eident.MySQLNative {
		plugin = wire.NativePassword
	}
	return wire.Account{Plugin: plugin, Verifier: a.Verifier.Data, Host: a.Name.Host}, true, nil
}

// RootHasPassword reports whether root needs one to log in.
func (u *Users) RootHasPassword() bool {
	return len(u.opt.State().Account(eident.RootAccount).Verifier.Data) > 0
}
