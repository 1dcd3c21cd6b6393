package ident

import (
	"math/rand/v2"
	"testing"

	ei "github.com/holdfastdb/holdfast/entry/ident"
	"go.etcd.io/etcd/pkg/v3/adt"
)

func TestPermits(t *testing.T) {
	r := newRig(t)
	r.must(addUser("alice"), addRole("a"), addRole("b"), grantRole("alice", "a"), grantRole("alice", "b"),
		open("a", ei.Read, "b", "d"), open("a", ei.ReadWrite, "k", ""), open("b", ei.Read, "d", "f"), open("b", ei.Write, "x", "\x00"))
	s := r.m.State()
	for _, c := range []struct {
		access   ei.Access
		key, end string
		want     bool
	}{
		{ei.Read, "b", "", true}, {ei.Read, "a", "", false}, {ei.Read, "b", "d", true},
		{ei.Read, "b", "f", true},                             // two roles together
		{ei.Read, "c", "e", true},                             //
		{ei.Read, "b", "g", false}, {ei.Read, "f", "", false}, // the end does not belong to it
		{ei.Read, "b", "\x00", false}, {ei.Write, "b", "", false}, //
		{ei.Read, "k", "", true}, {ei.Write, "k", "", true}, //
		{ei.Write, "k", "k\x00", true}, {ei.Write, "k", "l", false}, // the one key, written both ways
		{ei.Write, "x", "\x00", true}, {ei.Write, "y", "\x00", true}, {ei.Write, "zz", "", true}, {ei.Write, "w", "\x00", false},
		{ei.Read, "x", "", false},
		{ei.Read, "c", "a", true}, {ei.Read, "g", "a", false}, // no key at all: by its first
	} {
		if got := s.Permits("alice", c.access, []byte(c.key), []byte(c.end)); got != c.want {
			t.Errorf("%v of [%q, %q): %v", c.access, c.key, c.end, got)
		}
	}
	if s.Permits("bob", ei.Read, []byte("b"), nil) {
		t.Error("bob, who does not exist, may read")
	}
	r.must(grantRole("alice", "root"))
	if !r.m.State().Permits("alice", ei.Write, []byte("a"), []byte{0}) {
		t.Error("the role root does not open everything")
	}
	if _, all := r.m.State().Writable("alice"); !all {
		t.Error("the role root does not open everything to write")
	}
}

// etcd's own interval tree is asked the same random questions.
func TestCoverAgainstEtcd(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		b := make([]byte, 1+rnd.IntN(2))
		for i := range b {
			b[i] = byte('a' + rnd.IntN(4))
		}
		return string(b)
	}
	end := func() string {
		switch rnd.IntN(4) {
		case 0:
			return ""
		case 1:
			return "\x00"
		}
		return word()
	}
	interval := func(key, end string) adt.Interval {
		switch end {
		case "":
			return adt.NewBytesAffinePoint([]byte(key))
		case "\x00":
			return adt.NewBytesAffineInterval([]byte(key), nil)
		}
		return adt.NewBytesAffineInterval([]byte(key), []byte(end))
	}
	yes := 0
	for range 20_000 {
		tree := adt.NewIntervalTree()
		var all []Span
		for range rnd.IntN(5) {
			k, e := word(), end()
			if e != "" && e != "\x00" && e <= k {
				continue // cannot be granted
			}
			tree.Insert(interval(k, e), struct{}{})
			all = append(all, spanOf([]byte(k), []byte(e)))
		}
		k, e := word(), end()
		if e != "" && e != "\x00" && e <= k {
			continue // holds no key; etcd's answer depends on the shape of its tree
		}
		want := false
		if e == "" {
			want = tree.Intersects(interval(k, e))
		} else {
			want = tree.Contains(interval(k, e))
		}
		if got := merge(all).cover([]byte(k), []byte(e)); got != want {
			t.Fatalf("[%q, %q) in %q: %v, etcd %v", k, e, all, got, want)
		}
		if want {
			yes++
		}
	}
	if yes < 1000 {
		t.Fatalf("only %d of the questions were answered with yes", yes)
	}
}
