package bucket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
)

// TestAClientMeetsWhatTheBucketWasTold: each fault as package objstore sees it over the wire, and what is in the bucket afterwards.
func TestAClientMeetsWhatTheBucketWasTold(t *testing.T) {
	b, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	for _, v := range b.Env() {
		t.Setenv(v[:bytes.IndexByte([]byte(v), '=')], v[bytes.IndexByte([]byte(v), '=')+1:])
	}
	s, err := objstore.Open(b.URL("here"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	put := func(name string) error {
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		return s.PutIfAbsent(ctx, objstore.Object{Name: name, Data: []byte(name)})
	}
	there := func(name string) bool {
		got, err := s.Get(ctx, name)
		if err != nil && !errors.Is(err, objstore.ErrAbsent) {
			t.Fatal(err)
		}
		return err == nil && string(got) == name
	}
	for _, c := range []struct {
		name  string
		fault Fault
		done  bool
	}{{"refused", Refused, false}, {"failed", Failed, false}, {"lost", Lost, true}, {"twice", Twice, true}, {"full", Full, false}, {"hang", Hang, false},
		{"denied", Denied, false}, {"unavailable", Unavailable, false}, {"no conditions", NoConditions, false}} {
		b.Fail(func(*http.Request) Fault { return c.fault })
		if err := put(c.name); err == nil {
			t.Errorf("%s: it went well", c.name)
		} else if c.fault == Twice && !errors.Is(err, objstore.ErrExists) {
			t.Errorf("%s: %v", c.name, err)
		}
		b.Fail(nil)
		if got := there(c.name); got != c.done {
			t.Errorf("%s: there %v, want %v", c.name, got, c.done)
		}
	}
	b.Fail(func(*http.Request) Fault { return Cut })
	if _, err := s.Get(ctx, "lost"); err == nil {
		t.Error("half an object was taken for one")
	}
	b.Fail(nil)
	if err := put("lost"); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("again: %v", err)
	}
	// Streams: in parts, and read over connections that break.
	large := bytes.Repeat([]byte("0123456789abcdef"), 6<<16)
	if err := s.PutFrom(ctx, "large", int64(len(large)), io.MultiReader(bytes.NewReader(large)), false); err != nil {
		t.Error(err)
	}
	if got := b.Counts(); got.Others < 2 {
		t.Errorf("it did not come in parts: %+v", got)
	}
	cuts := 3
	b.Fail(func(*http.Request) Fault {
		if cuts--; cuts >= 0 {
			return Cut
		}
		return None
	})
	r, err := s.Open(ctx, "large", 17, -1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, large[17:]) || cuts >= 0 {
		t.Errorf("%d bytes after cuts, %d are left: %v", len(got), cuts, err)
	}
	r.Close()
	b.Fail(nil)
	before := b.Counts()
	b.Slow(40 * time.Millisecond)
	began := time.Now()
	if err := put("slow"); err != nil || time.Since(began) < 40*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if got := b.Counts().Minus(before); got.Puts != 1 || got.All() != 1 || got.PutBytes < 4 {
		t.Errorf("counted %+v", got)
	}
	b.Fail(func(*http.Request) Fault { return Unconditional })
	if err := put("slow"); err != nil {
		t.Errorf("without conditions, over what is there: %v", err)
	}
	b.Fail(nil)
	if err := b.Empty(); err != nil || there("slow") || there("large") {
		t.Errorf("emptied, and something is there: %v", err)
	}
}
