package objstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// identityHead begins an identity object (docs/formats/identity.md).
const identityHead = "holdfast identity 1\n"

// identityBytes is the size of an identity object: its head, 32 hexadecimal digits and the end of their line.
const identityBytes = len(identityHead) + 2*16 + 1

// ErrNoIdentity: an object under an identity's name is none.
var ErrNoIdentity = errors.New("no identity of a store")

// Identity returns the identity under a name: 32 hexadecimal digits, drawn at random when it was made. Two stores with the same identity
// are one, or copies of one. ErrAbsent says that there is none. If make is set it makes one then, by PutIfAbsent, so that several callers
// get the same answer. An object that was cut short is replaced: no complete upload leaves one and no call has answered it. Any other
// object is ErrNoIdentity, and stays. A server that ignores conditions may answer two callers differently: see ProbeAbsent.
func Identity(ctx context.Context, s Store, name string, make bool) (id string, err error) {
	for range 3 { // a second time after another caller's was found; a third if that one was cut short
		b, version, err := s.GetVersion(ctx, name)
		if err != nil && !errors.Is(err, ErrAbsent) {
			return "", err
		}
		if err == nil {
			id, err := parseIdentity(b)
			if err == nil || !make || !isCutIdentity(b) {
				return id, named(name, err)
			}
		} else if !make {
			return "", err
		}
		id, body := newIdentity()
		o := Object{Name: name, Data: body, Type: "text/plain; charset=utf-8", Cache: "no-cache"}
		if version == Absent {
			err = s.PutIfAbsent(ctx, o)
		} else {
			_, err = s.PutIfMatch(ctx, o, version)
		}
		switch {
		case err == nil:
			return id, nil
		case !errors.Is(err, ErrExists) && !errors.Is(err, ErrChanged):
			return "", err
		}
	}
	return "", fmt.Errorf("%s: others replace it again and again: %w", name, ErrChanged)
}

func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// newIdentity draws an identity and returns the object that holds it.
func newIdentity() (id string, body []byte) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	id = hex.EncodeToString(b[:])
	return id, []byte(identityHead + id + "\n")
}

// parseIdentity reads an identity object.
func parseIdentity(b []byte) (id string, err error) {
	id, ok := strings.CutPrefix(string(b), identityHead)
	id, line := strings.CutSuffix(id, "\n")
	if !ok || !line || len(id) != 2*16 || strings.Trim(id, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%w: %q; restore the object from a copy, or name another place", ErrNoIdentity, b[:min(len(b), 80)])
	}
	return id, nil
}

// isCutIdentity reports whether b is how an identity object begins, without its end.
func isCutIdentity(b []byte) bool {
	if len(b) >= identityBytes {
		return false
	}
	n := min(len(b), len(identityHead))
	return bytes.Equal(b[:n], []byte(identityHead[:n])) && len(bytes.Trim(b[n:], "0123456789abcdef")) == 0
}
