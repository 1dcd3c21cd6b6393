package account

import (
	"context"
	"fmt"
	"strings"

	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// show answers SHOW GRANTS with its heading and lines.
func (u *Users) show(ctx context.Context, c *Client, st *Statement) (header string, lines []string, err error) {
	if u.opt.Confirm != nil {
		if err := u.opt.Confirm(ctx); err != nil {
			return "", nil, unavailable(err)
		}
	}
	s := u.opt.State()
	n := c.Name
	if len(st.Users) > 0 {
		n = c.nameOf(s, &st.Users[0])
	}
	if n != c.Name && !s.Account(c.Name).MayManage() {
		return "", nil, wire.Errorf(1044, "Access denied for user %s to database 'mysql'", c)
	}
	a := s.Account(n)
	if a == nil {
		return "", nil, noGrant(n)
	}
	return "Grants for " + n.User + "@" + n.Host, grantsOf(a), nil
}

// grantsOf are the statements that would give an account what it has.
func grantsOf(a *mident.Account) []string {
	to := quote(a.Name.User) + "@" + quote(a.Name.Host)
	what, option := "USAGE", ""
	if a.All {
		what = "ALL PRIVILEGES"
	}
	if a.Option {
		option = " WITH GRANT OPTION"
	}
	lines := []string{fmt.Sprintf("GRANT %s ON *.* TO %s%s", what, to, option)}
	for _, d := range a.Databases {
		lines = append(lines, fmt.Sprintf("GRANT ALL PRIVILEGES ON %s.* TO %s", quote(d), to))
	}
	return lines
}

// quote is a name in backticks.
func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
