package ident

import (
	"encoding/binary"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
)

func token(n uint32) (t [eident.TokenBytes]byte) {
	binary.BigEndian.PutUint32(t[:], n)
	return t
}

func (r *rig) issue(user string, n uint32, ttl uint64) entry.Code {
	var generation uint64
	if u := r.m.State().User(user); u != nil {
		generation = u.Generation
	}
	return r.apply(eident.Part{TokenIssue: &eident.TokenIssue{User: user, Generation: generation, Token: token(n), TTLMs: ttl}})[0]
}

func (r *rig) has(n uint32) bool {
	t, ok := r.m.Token(token(n))
	return ok && t.DeadlineMs > r.Tick
}

func TestTokenLives(t *testing.T) {
	r := enabled(t)
	if c := r.issue("alice", 1, 1000); c != 0 || !r.has(1) {
		t.Fatalf("code %d", c)
	}
	r.Tick = 900
	if c := r.apply(eident.Part{TokenTouch: &eident.TokenTouch{Token: token(1)}})[0]; c != 0 {
		t.Fatalf("code %d", c)
	}
	if r.Tick = 1899; !r.has(1) {
		t.Fatal("ended although it was used")
	}
	if r.Tick = 1900; r.has(1) {
		t.Fatal("lives on unused")
	}
	// Touching what has ended does not bring it back, and the next token clears it away.
	if r.apply(eident.Part{TokenTouch: &eident.TokenTouch{Token: token(1)}}); r.has(1) {
		t.Fatal("came back")
	}
	r.issue("alice", 2, 1000)
	if _, ok := r.m.Token(token(1)); ok {
		t.Fatal("still lies around")
	}
	if c := r.apply(eident.Part{TokenTouch: &eident.TokenTouch{Token: token(1)}})[0]; c != eident.TokenNotFound {
		t.Fatalf("code %d", c)
	}
}

func TestTokenEndsWith(t *testing.T) {
	for _, c := range []struct {
		name string
		part eident.Part
		ends bool
	}{
		{"its password", eident.Part{UserPassword: &eident.UserPassword{Name: "alice", Verifiers: hash("other")}}, true},
		{"its user", eident.Part{UserDelete: &eident.UserDelete{Name: "alice"}}, true},
		{"authentication", disable, true},
		{"a role", eident.Part{UserRevoke: &eident.UserRevoke{Name: "alice", Role: "r"}}, false},
		{"somebody else's password", eident.Part{UserPassword: &eident.UserPassword{Name: "root", Verifiers: hash("other")}}, false},
	} {
		r := enabled(t)
		r.issue("alice", 1, 1000)
		r.must(c.part)
		if r.has(1) == c.ends {
			t.Errorf("with %s: lives: %v", c.name, r.has(1))
		}
		if openRig(t, r.Store).has(1) == c.ends {
			t.Errorf("with %s: not so in the store", c.name)
		}
	}
}

// Between comparing a password and giving out a token lies the log.
func TestNoTokenForAnOldPassword(t *testing.T) {
	r := enabled(t)
	old := r.m.State().User("alice").Generation
	r.must(eident.Part{UserPassword: &eident.UserPassword{Name: "alice", Verifiers: hash("other")}})
	issue := func(u string, g uint64) entry.Code {
		return r.apply(eident.Part{TokenIssue: &eident.TokenIssue{User: u, Generation: g, Token: token(1), TTLMs: 1000}})[0]
	}
	if c := issue("alice", old); c != eident.OldRevision {
		t.Errorf("for an old password: code %d", c)
	}
	if c := issue("bob", 1); c != eident.UserNotFound {
		t.Errorf("for nobody: code %d", c)
	}
	now := r.m.State().User("alice").Generation
	if c := r.apply(eident.Part{TokenIssue: &eident.TokenIssue{User: "alice", Generation: now, Token: token(1)}})[0]; c != eident.Malformed {
		t.Errorf("for no time: code %d", c)
	}
	r.must(disable)
	if c := issue("alice", now); c != eident.NotEnabled {
		t.Errorf("while authentication is off: code %d", c)
	}
}

// Members that were restarted in between, or started from a snapshot, take away the same tokens in the same entries.
func TestTokensAreBoundedAlike(t *testing.T) {
	r := enabled(t)
	for n := range uint32(200) {
		r.Tick = int64(n)
		r.issue("alice", n, 1000)
		if n%3 == 0 {
			r.Tick++
			r.apply(eident.Part{TokenTouch: &eident.TokenTouch{Token: token(n / 2)}})
		}
	}
	again := openRig(t, r.Store)
	again.Tick = r.Tick
	for n := uint32(1000); n < 1010; n++ {
		for _, m := range []*rig{r, again} {
			m.Tick = 1100
			// The second member works on the same store; only its memory is new.
			m.Index = m.Store.Applied()
		}
		a, b := len(r.m.tokens.byHash), len(again.m.tokens.byHash)
		ea, _ := r.m.tokens.first()
		eb, _ := again.m.tokens.first()
		if a != b || ea != eb {
			t.Fatalf("%d tokens, first %x; after a restart %d, first %x", a, ea.hash[:4], b, eb.hash[:4])
		}
		r.issue("alice", n, 1000)
		again = openRig(t, r.Store)
	}
	if got := len(r.m.tokens.byHash); got > 150 {
		t.Fatalf("%d tokens are left", got)
	}
}

func TestTheOldestTokenMakesRoom(t *testing.T) {
	r := enabled(t)
	b := r.Store.NewBatch()
	for n := range uint32(MaxTokens) {
		r.m.tokens.set(token(n), &Token{User: "alice", TTLMs: 1000, DeadlineMs: int64(5000 + n)}, b)
	}
	r.issue("alice", MaxTokens, 9000)
	if got := len(r.m.tokens.byHash); got != MaxTokens || r.has(0) || !r.has(1) || !r.has(MaxTokens) {
		t.Fatalf("%d tokens", got)
	}
}
