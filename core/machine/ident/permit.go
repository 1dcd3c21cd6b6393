package ident

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
	"strings"

	eident "github.com/holdfastdb/holdfast/core/entry/ident"
)

// permits is the union of a user's roles.
type permits struct{ read, write Spans }

// permits works out a user's ranges once. Two may do it at the same time and come to the same: a user whose roles change is
// another *User.
func (s *State) permits(u *User) *permits {
	if p := u.merged.Load(); p != nil {
		return p
	}
	var read, write []Span
	for _, name := range u.Roles {
		r := s.roles[name]
		if r == nil {
			continue
		}
		for i := range r.Permissions {
			p := &r.Permissions[i]
			sp := spanOf(p.Key, p.End)
			if p.Access != eident.Write {
				read = append(read, sp)
			}
			if p.Access != eident.Read {
				write = append(write, sp)
			}
		}
	}
	p := &permits{read: merge(read), write: merge(write)}
	u.merged.Store(p)
	return p
}

// Span is the keys in [From, To); To empty means to the last key.
type Span struct{ From, To string }

// Spans is a set of keys: disjoint spans in order, with a gap between each and the next.
type Spans []Span

// spanOf reads a range as requests and permissions write it: end empty = the one key, "\0" = to the last.
func spanOf(key, end []byte) Span {
	switch {
	case len(end) == 0:
		return Span{string(key), string(key) + "\x00"}
	case bytes.Equal(end, []byte{0}):
		return Span{string(key), ""}
	}
	return Span{string(key), string(end)}
}

// compareEnds orders ends of spans.
func compareEnds(a, b string) int {
	switch {
	case a == "" || b == "":
		return cmp.Compare(len(b), len(a)) // at least one is "", and that is the greatest
	}
	return strings.Compare(a, b)
}

// merge orders spans and joins those that touch: a range that two permissions cover together is covered.
func merge(all []Span) Spans {
	slices.SortFunc(all, func(a, b Span) int { return strings.Compare(a.From, b.From) })
	var out Spans
	for _, s := range all {
		if n := len(out); n > 0 && (out[n-1].To == "" || s.From <= out[n-1].To) {
			if compareEnds(s.To, out[n-1].To) > 0 {
				out[n-1].To = s.To
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// cover reports whether all keys of a range are in the set. A range that ends before it begins holds no key; a client that asks
// for it needs permission for the first key.
func (s Spans) cover(key, end []byte) bool {
	want := spanOf(key, end)
	if want.To != "" && want.To <= want.From {
		want = spanOf(key, nil)
	}
	i := sort.Search(len(s), func(i int) bool { return s[i].From > want.From })
	return i > 0 && compareEnds(s[i-1].To, want.To) >= 0 // the last span that begins at or below want.From
}
