package ident

import (
	"math/rand/v2"
	"testing"

	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"go.etcd.io/etcd/pkg/v3/adt"
)

func TestPermits(t *testing.T) {
	r := newRig(t)
	r.must(addUser("alice"), addRole("a"), addRole("b"), grantRole("alice", "a"), grantRole("alice", "b"),
		open("a", eident.Read, "b", "d"), open("a", eident.ReadWrite, "k", ""), open("b", eident.Read, "d", "f"), open("b", eident.Write, "x", "\x00"))
	s := r.m.State()
	for _, c := range []struct {
		access   eident.Access
		key, end string
		want     bool
	}{
		{eident.Read, "b", "", true}, {eident.Read, "a", "", false}, {eident.Read, "b", "d", true},
		{eident.Read, "b", "f", true},                                 // two roles together
		{eident.Read, "c", "e", true},                                 //
		{eident.Read, "b", "g", false}, {eident.Read, "f", "", false}, // the end does not belong to it
		{eident.Read, "b", "\x00", false}, {eident.Write, "b", "", false}, //
		{eident.Read, "k", "", true}, {eident.Write, "k", "", true}, //
		{eident.Write, "k", "k\x00", true}, {eident.Write, "k", "l", false}, // the one key, written both ways
		{eident.Write, "x", "\x00", true}, {eident.Write, "y", "\x00", true}, {eident.Write, "zz", "", true}, {eident.Write, "w", "\x00", false},
		{eident.Read, "x", "", false},
		{eident.Read, "c", "a", true}, {eident.Read, "g", "a", false}, // no key at all: by its first
	} {
		if got := s.Permits("alice", c.access, []byte(c.key), []byte(c.end)); got != c.want {
			t.Errorf("%v of [%q, %q): %v", c.access, c.key, c.end, got)
		}
	}
	if s.Permits("bob", eident.Read, []byte("b"), nil) {
		t.Error("bob, who does not exist, may read")
	}
	r.must(grantRole("alice", "root"))
	if !r.m.State().Permits("alice", eident.Write, []byte("a"), []byte{0}) {
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
