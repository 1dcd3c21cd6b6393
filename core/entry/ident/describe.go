package ident

import (
	"bytes"
	"fmt"
)

// Describe prints an encoded part on one line: "ident.user-add alice by root". Verifiers and tokens are not printed: even
// hashes should not appear on a terminal.
func Describe(body []byte) string {
	p, err := DecodePart(body)
	if err != nil {
		return fmt.Sprintf("ident.? (%d bytes: %v)", len(body), err)
	}
	return p.String()
}

// String prints the part as Describe does.
func (p *Part) String() string {
	by := ""
	if p.Actor != "" {
		by = fmt.Sprintf(" by %q", p.Actor)
	}
	switch {
	case p.Pass != nil:
		return fmt.Sprintf("ident.pass revision=%d", p.Pass.Revision)
	case p.Enable != nil:
		return "ident.enable" + by
	case p.Disable != nil:
		return "ident.disable" + by
	case p.UserAdd != nil:
		if p.UserAdd.NoPassword {
			by = " without password" + by
		}
		return fmt.Sprintf("ident.user-add %q%s", p.UserAdd.Name, by)
	case p.UserDelete != nil:
		return fmt.Sprintf("ident.user-delete %q%s", p.UserDelete.Name, by)
	case p.UserPassword != nil:
		return fmt.Sprintf("ident.user-password %q%s", p.UserPassword.Name, by)
	case p.UserGrant != nil:
		return fmt.Sprintf("ident.user-grant %q role %q%s", p.UserGrant.Name, p.UserGrant.Role, by)
	case p.UserRevoke != nil:
		return fmt.Sprintf("ident.user-revoke %q role %q%s", p.UserRevoke.Name, p.UserRevoke.Role, by)
	case p.RoleAdd != nil:
		return fmt.Sprintf("ident.role-add %q%s", p.RoleAdd.Name, by)
	case p.RoleDelete != nil:
		return fmt.Sprintf("ident.role-delete %q%s", p.RoleDelete.Name, by)
	case p.RoleGrant != nil:
		return fmt.Sprintf("ident.role-grant %q %s%s", p.RoleGrant.Name, &p.RoleGrant.Permission, by)
	case p.RoleRevoke != nil:
		return fmt.Sprintf("ident.role-revoke %q %s%s", p.RoleRevoke.Name, interval(p.RoleRevoke.Key, p.RoleRevoke.End), by)
	case p.TokenIssue != nil:
		return fmt.Sprintf("ident.token-issue %q for %d ms", p.TokenIssue.User, p.TokenIssue.TTLMs)
	case p.TokenTouch != nil:
		return "ident.token-touch"
	}
	if text := describeAccountPart(p); text != "" {
		return text
	}
	return "ident.nothing"
}

// String prints a permission: "read [a, b)".
func (p *Permission) String() string {
	verb := [...]string{"read", "write", "read and write"}[min(p.Access, ReadWrite)]
	return verb + " " + interval(p.Key, p.End)
}

func interval(key, end []byte) string {
	switch {
	case len(end) == 0:
		return fmt.Sprintf("%q", key)
	case bytes.Equal(end, []byte{0}):
		return fmt.Sprintf("[%q, …)", key)
	}
	return fmt.Sprintf("[%q, %q)", key, end)
}
