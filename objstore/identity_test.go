package objstore

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/holdfastdb/holdfast/internal/golden"
)

// TestAnIdentityIsMadeOnce: of many that make it, all are answered the same, and so is every later reader.
func TestAnIdentityIsMadeOnce(t *testing.T) {
	for kind, s := range everyStore(t) {
		t.Run(kind, func(t *testing.T) {
			ctx := t.Context()
			if _, err := Identity(ctx, s, "a/identity", false); !errors.Is(err, ErrAbsent) {
				t.Fatalf("before it is made: %v", err)
			}
			ids := make([]string, 8)
			var wg sync.WaitGroup
			for i := range ids {
				wg.Go(func() {
					var err error
					if ids[i], err = Identity(ctx, s, "a/identity", true); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for _, id := range ids {
				if id != ids[0] || len(id) != 32 {
					t.Fatalf("%q", ids)
				}
			}
			if id, err := Identity(ctx, s, "a/identity", false); err != nil || id != ids[0] {
				t.Errorf("%s, %v", id, err)
			}
			if id, err := Identity(ctx, s, "b/identity", true); err != nil || id == ids[0] {
				t.Errorf("two of one name: %s, %v", id, err)
			}
		})
	}
}

// TestADamagedIdentityIsNoOther: it is neither replaced nor taken for a missing one, unless it was only begun.
func TestADamagedIdentityIsNoOther(t *testing.T) {
	_, body := newIdentity()
	for name, c := range map[string]struct {
		body []byte
		cut  bool
	}{
		"empty": {nil, true}, "head": {[]byte("holdfast id"), true}, "digits": {body[:len(body)-9], true}, "no newline": {body[:len(body)-1], true},
		"other form": {bytes.Replace(body, []byte("1\n"), []byte("2\n"), 1), false}, "longer": {append(bytes.Clone(body), 'x'), false},
		"capitals": {bytes.ToUpper(body), false}, "not hex": {append(bytes.Clone(body[:len(body)-2]), "g\n"...), false},
		"other text": {[]byte("<html>"), false}, "cut and wrong": {append(bytes.Clone(body[:30]), 'z'), false},
	} {
		t.Run(name, func(t *testing.T) {
			s, ctx := NewMemory(), t.Context()
			if err := s.Put(ctx, Object{Name: "i", Data: c.body}); err != nil {
				t.Fatal(err)
			}
			if _, err := Identity(ctx, s, "i", false); !errors.Is(err, ErrNoIdentity) || strings.Contains(err.Error(), "\n") {
				t.Errorf("read: %v", err)
			}
			id, err := Identity(ctx, s, "i", true)
			if c.cut != (err == nil) || err != nil && !errors.Is(err, ErrNoIdentity) {
				t.Errorf("made: %v", err)
			}
			if again, _ := Identity(ctx, s, "i", false); again != id {
				t.Errorf("%q is read, %q was made", again, id)
			}
		})
	}
}

// TestIdentityFormat pins the bytes of docs/formats/identity.md.
func TestIdentityFormat(t *testing.T) {
	const id = "00112233445566778899aabbccddeeff"
	text := identityHead + id + "\n"
	golden.Check(t, "testdata/identity", text)
	if got, err := parseIdentity([]byte(text)); err != nil || got != id || len(text) != identityBytes {
		t.Errorf("%s, %v", got, err)
	}
	if made, body := newIdentity(); string(body) != strings.Replace(text, id, made, 1) {
		t.Errorf("%q", body)
	}
}
