package ident

import (
	"fmt"
	"strings"
)

// DescribeRow prints one of the machine's rows on one line, for people who look into a store. Verifiers are counted, not shown.
func DescribeRow(key, value []byte) string {
	s, tokens := fresh(), map[[32]byte]*Token{}
	if len(key) < 2 || s.take(key[1:], value, tokens) != nil {
		return fmt.Sprintf("%q: damaged row of %d bytes", key, len(value))
	}
	switch name := string(key[2:]); key[1] {
	case spaceUser:
		u := s.User(name)
		return fmt.Sprintf("user %q roles=%s verifiers=%d set at %d", name, strings.Join(u.Roles, ","), len(u.Verifiers), u.Generation)
	case spaceRole:
		var all []string
		for i := range s.Role(name).Permissions {
			all = append(all, s.Role(name).Permissions[i].String())
		}
		return fmt.Sprintf("role %q: %s", name, strings.Join(all, "; "))
	case spaceAccount:
		n, _ := accountOf(key[2:]) // take has read it
		a := s.Account(n)
		return fmt.Sprintf("sql account %s all=%v option=%v databases=%s password=%v", n, a.All, a.Option, strings.Join(a.Databases, ","), len(a.Verifier.Data) > 0)
	case spaceToken:
		t := tokens[[32]byte(key[2:])]
		return fmt.Sprintf("token of %q, lives %d ms unused, until tick %d", t.User, t.TTLMs, t.DeadlineMs)
	}
	return fmt.Sprintf("identities: enabled=%v revision=%d", s.Enabled, s.Revision)
}
