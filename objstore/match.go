package objstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// ErrChanged: the object is not what it was when it was read. Nothing was written.
var ErrChanged = errors.New("somebody else has written it")

// ErrUnconditional: the store writes whatever it is told, condition or not.
var ErrUnconditional = errors.New("the store does not keep to the condition of a conditional upload (If-Match, If-None-Match)")

// Absent is the version of an object that is not there.
const Absent = ""

// Partial is an error of Put after which some of the objects are there.
type Partial struct {
	Done []bool // in the order of the call
	Err  error
}

func (p *Partial) Error() string { return p.Err.Error() }
func (p *Partial) Unwrap() error { return p.Err }

// Probe finds out whether a store keeps the promise of PutIfMatch, on an object of its own that it removes. It returns
// ErrUnconditional if the store does not keep it; after any other error nothing is known.
func Probe(ctx context.Context, s Store) error {
	return probe(ctx, s, func(o Object) error {
		for _, was := range []string{Absent, hashVersion([]byte("something else"))[:32]} {
			if _, err := s.PutIfMatch(ctx, o, was); !errors.Is(err, ErrChanged) {
				return unkept(err)
			}
		}
		return nil
	})
}

// probe puts an object under a name that nobody else has, asks about it, and removes it.
func probe(ctx context.Context, s Store, ask func(o Object) error) error {
	unique := make([]byte, 8)
	if _, err := rand.Read(unique); err != nil {
		return err
	}
	dir := "probe-" + hex.EncodeToString(unique)
	o := Object{Name: dir + "/conditional", Data: []byte("This object is a question to the store and may be removed.\n"), Type: "text/plain; charset=utf-8"}
	defer func() { _ = s.DeleteAll(context.WithoutCancel(ctx), dir) }() // what stays does not matter
	if err := s.Put(ctx, o); err != nil {
		return err
	}
	return ask(o)
}

// unkept is the error of a probe where a conditional upload that had to be refused ended so.
func unkept(err error) error {
	if err == nil || errors.Is(err, ErrUnconditional) {
		return ErrUnconditional
	}
	return fmt.Errorf("ask for a conditional upload: %w", err)
}

// hashVersion is the version of an object where a store has no name for it.
func hashVersion(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
