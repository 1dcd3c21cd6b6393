package rig

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfastdb/holdfast/internal/bucket"
)

// Kind is a store and what becomes of it.
type Kind string

// The kinds.
const (
	FileWell    Kind = "a directory, well"
	BucketWell  Kind = "a bucket, well"
	Denied      Kind = "a bucket, refusing (403)"
	Unavailable Kind = "a bucket, refusing (503)"
	Frozen      Kind = "a bucket, frozen"
	Emptied     Kind = "a directory, swapped (an empty one)"
	Other       Kind = "a directory, swapped (another replica)"
	Gone        Kind = "a directory, swapped (it is gone)"
	Bared       Kind = "a bucket, swapped (emptied)"
)

// Kinds are all.
var Kinds = []Kind{FileWell, BucketWell, Denied, Unavailable, Frozen, Emptied, Other, Gone, Bared}

// Well reports whether nothing becomes of it.
func (k Kind) Well() bool { return k == FileWell || k == BucketWell }

// Swapped reports whether what was stored is not there any more.
func (k Kind) Swapped() bool { return k == Emptied || k == Other || k == Gone || k == Bared }

// Mends reports whether Mend brings back what was stored.
func (k Kind) Mends() bool { return k != Bared }

// Store is a place for a replica. Its methods belong to one goroutine.
type Store struct {
	kind    Kind
	dir     string // of a file store
	foreign string // a directory with another replica, for Other
	bucket  *bucket.Bucket
}

// NewStore makes one; dir is where a file store is to be. foreign is a directory with the replica of another database.
func NewStore(kind Kind, dir, foreign string) (*Store, error) {
	s := &Store{kind: kind, dir: dir, foreign: foreign}
	if !strings.HasPrefix(string(kind), "a bucket") {
		return s, nil
	}
	var err error
	s.bucket, err = bucket.Start()
	return s, err
}

// Close ends it; a directory stays.
func (s *Store) Close() error {
	if s.bucket == nil {
		return nil
	}
	return s.bucket.Close()
}

// URL is the place of the replica as `holdfast sqlite` takes it; Env has what leads there.
func (s *Store) URL() string {
	if s.bucket == nil {
		return "file://" + s.dir
	}
	return s.bucket.URL("app")
}

// LitestreamURL is the place of the replica as Litestream takes it, with all that leads there.
func (s *Store) LitestreamURL() string {
	if s.bucket == nil {
		return s.URL()
	}
	return s.URL() + "?endpoint=" + s.endpoint() + "&forcePathStyle=true&region=us-east-1"
}

func (s *Store) endpoint() string {
	for _, v := range s.bucket.Env() {
		if url, ok := strings.CutPrefix(v, "AWS_ENDPOINT_URL="); ok {
			return url
		}
	}
	return ""
}

// Env is what processes that use it have in their environment.
func (s *Store) Env() []string {
	if s.bucket == nil {
		return nil
	}
	return append(s.bucket.Env(), "AWS_CA_BUNDLE=")
}

// Began reports whether anything was stored: a group is in level 0.
func (s *Store) Began() bool {
	if s.bucket != nil {
		return s.bucket.Counts().Puts > 1 // the first may be one that only looks what the store can do
	}
	names, err := filepath.Glob(filepath.Join(s.dir, "ltx", "0", "*.ltx"))
	return err == nil && len(names) > 0
}

// Spoil makes of it what its kind says.
func (s *Store) Spoil() error {
	all := func(f bucket.Fault) error {
		s.bucket.Fail(func(*http.Request) bucket.Fault { return f })
		return nil
	}
	switch s.kind {
	case Denied:
		return all(bucket.Denied)
	case Unavailable:
		return all(bucket.Unavailable)
	case Frozen:
		return all(bucket.Hang)
	case Bared:
		return s.bucket.Empty()
	case Emptied, Other, Gone:
		if err := os.Rename(s.dir, s.away()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	switch s.kind {
	case Emptied:
		return os.Mkdir(s.dir, 0o755)
	case Other:
		if out, err := exec.Command("cp", "-a", s.foreign, s.dir).CombinedOutput(); err != nil {
			return fmt.Errorf("copy %s: %w: %s", s.foreign, err, out)
		}
	}
	return nil
}

func (s *Store) away() string { return s.dir + ".away" }

// Mend restores the store. Files that a program put into a directory in its place are kept beside it.
func (s *Store) Mend() error {
	if s.bucket != nil {
		s.bucket.Fail(nil)
		return nil
	}
	if !isThere(s.away()) {
		return nil
	}
	if isThere(s.dir) {
		if err := os.Rename(s.dir, s.dir+".swapped"); err != nil {
			return err
		}
	}
	return os.Rename(s.away(), s.dir)
}
