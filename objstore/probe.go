package objstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
)

// Condition is one of the two conditions of an upload.
type Condition int

// The conditions: that there is no object of the name, and that there is one of a version.
const (
	IfNoneMatch Condition = 1 << iota // of PutIfAbsent
	IfMatch                           // of PutIfMatch
)

// Conditional finds out whether a store keeps to conditions, on an object of its own that it removes: ErrUnconditional if it does not.
// After any other error nothing is known. It sends some ten requests the first time in this process. It sends none when the answer is known
// for the same bucket at the same endpoint, or the same directory. It is safe for concurrent use: of several callers one asks, and the
// others wait for its answer.
func Conditional(ctx context.Context, s Store, c Condition) error {
	key := placeKey(s, c)
	if key == "" {
		return ask(ctx, s, c)
	}
	proofs.Lock()
	p := proofs.of[key]
	if p == nil {
		p = &proof{busy: make(chan struct{}, 1)}
		proofs.of[key] = p
	}
	proofs.Unlock()
	select {
	case p.busy <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("ask for a conditional upload: %w", ctx.Err())
	}
	defer func() { <-p.busy }()
	if p.known {
		return p.err
	}
	err := ask(ctx, s, c)
	if err == nil || errors.Is(err, ErrUnconditional) {
		p.known, p.err = true, err
	}
	return err
}

// proofs are the answers of Conditional in this process, one for each place and condition.
var proofs = struct {
	sync.Mutex
	of map[string]*proof // guarded by the mutex
}{of: map[string]*proof{}}

// proof is the knowledge of one place. Its fields belong to the caller that has put something into busy.
type proof struct {
	busy  chan struct{}
	known bool
	err   error
}

// placeKey names what a store's answer holds for: "" if nothing tells one store from another.
func placeKey(s Store, c Condition) string {
	switch s := s.(type) {
	case *S3:
		return fmt.Sprintf("%d %s/%s", c, s.client.EndpointURL(), s.bucket)
	case *File:
		return fmt.Sprintf("%d %s", c, s.dir)
	}
	return ""
}

// Probe finds out whether a store keeps the promise of PutIfMatch, as Conditional does, and asks each time.
func Probe(ctx context.Context, s Store) error { return ask(ctx, s, IfMatch) }

// ProbeAbsent is Probe for PutIfAbsent. There are stores that know the one condition and not the other.
func ProbeAbsent(ctx context.Context, s Store) error { return ask(ctx, s, IfNoneMatch) }

// ask makes an object under a name that no other caller has, asks about it, and removes it.
func ask(ctx context.Context, s Store, c Condition) error {
	unique := make([]byte, 8)
	_, _ = rand.Read(unique) // it never fails
	dir := "probe-" + hex.EncodeToString(unique)
	q := question{s, Object{Name: dir + "/conditional", Data: []byte("This object is a question to the store and may be removed.\n"), Type: "text/plain; charset=utf-8"}}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
		defer cancel()
		_ = s.DeleteAll(ctx, dir) // leftovers do not matter
	}()
	if c&IfNoneMatch != 0 {
		if err := q.absent(ctx); err != nil {
			return err
		}
	} else if err := s.Put(ctx, q.o); err != nil {
		return err
	}
	if c&IfMatch != 0 {
		return q.match(ctx)
	}
	return nil
}

// otherBytes must not be there after a conditional upload that was refused.
var otherBytes = []byte("This object shows that the store takes no notice of conditions.\n")

// question is an object that a store is asked about.
type question struct {
	s Store
	o Object
}

// absent creates the object and then tries to create another one in its place.
func (q *question) absent(ctx context.Context) error {
	switch err := q.s.PutIfAbsent(ctx, q.o); {
	case errors.Is(err, ErrExists): // by an earlier attempt of the client, or by a store that says so of everything: it is looked at below
	case errors.Is(err, ErrUnconditional):
		return ErrUnconditional
	case err != nil:
		return err
	}
	other := q.o
	other.Data = otherBytes
	if err := q.s.PutIfAbsent(ctx, other); !errors.Is(err, ErrExists) {
		return unkept(err)
	}
	return q.unchanged(ctx) // a store may say that there is an object, and replace it all the same
}

// match tries to replace the object under a wrong version, and under the right one.
func (q *question) match(ctx context.Context) error {
	other := q.o
	other.Data = otherBytes
	for _, was := range []string{Absent, hashVersion([]byte("something else"))[:32]} {
		if _, err := q.s.PutIfMatch(ctx, other, was); !errors.Is(err, ErrChanged) {
			return unkept(err)
		}
		if err := q.unchanged(ctx); err != nil {
			return err
		}
	}
	_, version, err := q.s.GetVersion(ctx, q.o.Name)
	if err != nil {
		return fmt.Errorf("read after a conditional upload: %w", err)
	}
	again := q.o
	again.Data = []byte("This object was replaced as the version that it was.\n")
	switch _, err := q.s.PutIfMatch(ctx, again, version); {
	case err == nil:
		return nil
	case !errors.Is(err, ErrChanged):
		return unkept(err)
	}
	// An earlier attempt of the client may have replaced it.
	switch b, err := q.s.Get(ctx, q.o.Name); {
	case err != nil:
		return fmt.Errorf("read after a conditional upload: %w", err)
	case !bytes.Equal(b, again.Data):
		return fmt.Errorf("%w: it refuses every one", ErrUnconditional)
	}
	return nil
}

// unchanged finds out whether the object is there as it was put.
func (q *question) unchanged(ctx context.Context) error {
	switch b, err := q.s.Get(ctx, q.o.Name); {
	case errors.Is(err, ErrAbsent):
		return fmt.Errorf("%w: it says of an object that is not there that it is", ErrUnconditional)
	case err != nil:
		return fmt.Errorf("read after a conditional upload: %w", err)
	case !bytes.Equal(b, q.o.Data):
		return ErrUnconditional
	}
	return nil
}

// unkept is the error of a probe where a conditional upload that had to be refused ended so.
func unkept(err error) error {
	if err == nil || errors.Is(err, ErrUnconditional) {
		return ErrUnconditional
	}
	return fmt.Errorf("ask for a conditional upload: %w", err)
}
