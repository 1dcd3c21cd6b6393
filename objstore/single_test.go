package objstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/objstore"
)

// careless is a store that writes without checks.
type careless struct{ *objstore.Memory }

func (s careless) PutIfAbsent(ctx context.Context, o objstore.Object) error { return s.Put(ctx, o) }

// TestOneWriterLooksBeforeItWrites: on a store without conditions one writer gets the answers that it needs, and nothing of it is written over.
func TestOneWriterLooksBeforeItWrites(t *testing.T) {
	ctx, s := t.Context(), objstore.SingleWriter(careless{objstore.NewMemory()})
	one, two := objstore.Object{Name: "a/b", Data: []byte("one")}, objstore.Object{Name: "a/b", Data: []byte("two")}
	if err := s.PutIfAbsent(ctx, one); err != nil {
		t.Fatal(err)
	}
	if err := s.PutIfAbsent(ctx, two); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("a second object of the name: %v", err)
	}
	if err := s.PutFrom(ctx, "a/b", 3, strings.NewReader("two"), true); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("a second object of the name, streamed: %v", err)
	}
	b, version, err := s.GetVersion(ctx, "a/b")
	if string(b) != "one" || err != nil {
		t.Fatalf("%q, %v", b, err)
	}
	next, err := s.PutIfMatch(ctx, two, version)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutIfMatch(ctx, one, version); !errors.Is(err, objstore.ErrChanged) {
		t.Errorf("as a version that is gone: %v", err)
	}
	if _, is, err := s.GetVersion(ctx, "a/b"); is != next || err != nil {
		t.Errorf("the version is %q, and was told as %q, %v", is, next, err)
	}
	if _, err := s.PutIfMatch(ctx, one, objstore.Absent); !errors.Is(err, objstore.ErrChanged) {
		t.Errorf("as if it were not there: %v", err)
	}
}
