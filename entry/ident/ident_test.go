package ident

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/golden"
)

// parts holds one of every kind with every field in use, and the smallest of some.
func parts() []Part {
	token := [TokenBytes]byte{0: 1, 31: 0xff}
	hash := []Verifier{{Scheme: Bcrypt, Data: []byte("$2a$04$…")}, {Scheme: 9, Data: nil}}
	return []Part{
		{Pass: &Pass{Revision: 300}},
		{Pass: &Pass{}},
		{Enable: &Enable{}},
		{Actor: "root", Disable: &Disable{}},
		{Actor: "root", UserAdd: &UserAdd{Name: "alice", Verifiers: hash}},
		{UserAdd: &UserAdd{Name: "cert", NoPassword: true}},
		{Actor: "root", UserDelete: &UserDelete{Name: "alice"}},
		{Actor: "root", UserPassword: &UserPassword{Name: "alice", Verifiers: hash}},
		{Actor: "root", UserPassword: &UserPassword{Name: "alice"}},
		{Actor: "root", UserGrant: &UserGrant{Name: "alice", Role: "reader"}},
		{Actor: "root", UserRevoke: &UserRevoke{Name: "alice", Role: "reader"}},
		{Actor: "root", RoleAdd: &RoleAdd{Name: "reader"}},
		{Actor: "root", RoleDelete: &RoleDelete{Name: "reader"}},
		{Actor: "root", RoleGrant: &RoleGrant{Name: "reader", Permission: Permission{Access: ReadWrite, Key: []byte("a"), End: []byte("b")}}},
		{RoleGrant: &RoleGrant{Name: "reader", Permission: Permission{Key: []byte("a"), End: []byte{0}}}},
		{Actor: "root", RoleRevoke: &RoleRevoke{Name: "reader", Key: []byte("a")}},
		{TokenIssue: &TokenIssue{User: "alice", Generation: 1 << 40, Token: token, TTLMs: 300_000}},
		{TokenTouch: &TokenTouch{Token: token}},
	}
}

// The golden file pins the bytes: what one build logs every later one reads.
func TestGolden(t *testing.T) {
	var b strings.Builder
	for _, p := range parts() {
		enc := AppendPart(nil, &p)
		fmt.Fprintf(&b, "%s\n%s\n", Describe(enc), hex.Dump(enc))
	}
	golden.Check(t, "testdata/parts.txt", b.String())
}

func TestRoundTrip(t *testing.T) {
	for _, p := range parts() {
		b := AppendPart([]byte("before"), &p)[len("before"):]
		got, err := DecodePart(b)
		if err != nil || !bytes.Equal(AppendPart(nil, got), b) || got.String() != p.String() {
			t.Errorf("%s came back as %v, %v", &p, got, err)
		}
		for n := range b {
			if got, err := DecodePart(b[:n]); err == nil {
				t.Fatalf("%s cut at %d: %v", &p, n, got)
			}
		}
		if _, err := DecodePart(append(b, 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s with a byte too many: %v", &p, err)
		}
	}
}

// A kind or flag of a later build stops the node; bytes that no build writes are one member's nonsense and are rejected.
func TestNewerIsToldFromMalformed(t *testing.T) {
	noPassword := AppendPart(nil, &Part{UserAdd: &UserAdd{Name: "a"}})
	noPassword[4] = 2
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"kind 0", []byte{0, 0}, ErrKind},
		{"the next kind", []byte{kindTokenTouch + 1}, ErrKind},
		{"an unknown flag", noPassword, ErrKind},
		{"nothing", nil, ErrMalformed},
		{"a long form of a short number", []byte{kindPass, 0x80, 0}, ErrMalformed},
		{"a name longer than the part", []byte{kindRoleAdd, 0, 9, 'a'}, ErrMalformed},
		{"access 3", AppendPart(nil, &Part{RoleGrant: &RoleGrant{Name: "r", Permission: Permission{Access: 3}}}), ErrMalformed},
		{"many verifiers", AppendPart(nil, &Part{UserPassword: &UserPassword{Verifiers: make([]Verifier, MaxVerifiers+1)}}), ErrMalformed},
		{"a long verifier", AppendPart(nil, &Part{UserPassword: &UserPassword{
			Verifiers: []Verifier{{Data: make([]byte, MaxVerifierBytes+1)}}}}), ErrMalformed},
	} {
		if p, err := DecodePart(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, p, err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, p := range parts() {
		f.Add(AppendPart(nil, &p))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodePart(b)
		if err != nil {
			return
		}
		if ours := AppendPart(nil, p); !bytes.Equal(ours, b) {
			t.Fatalf("%x came back as %x", b, ours)
		}
		if again, err := DecodePart(b); err != nil || !reflect.DeepEqual(again, p) {
			t.Fatalf("%x decodes differently the second time: %v, %v", b, again, err)
		}
	})
}
