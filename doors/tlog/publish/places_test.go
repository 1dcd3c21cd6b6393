package publish

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/holdfastdb/holdfast/objstore"
)

// bucket is a bucket on a server of S3 in this process.
type bucket struct {
	t    *testing.T
	back *s3mem.Backend
	left atomic.Int64 // uploads that are taken before all are refused
}

func newBucket(t *testing.T) *bucket {
	b := &bucket{t: t, back: s3mem.New()}
	b.left.Store(1 << 40)
	if err := b.back.CreateBucket("logs"); err != nil {
		t.Fatal(err)
	}
	server := gofakes3.New(b.back).Server()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && b.left.Add(-1) < 0 {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	for name, v := range map[string]string{"AWS_ENDPOINT_URL_S3": srv.URL, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_SESSION_TOKEN": "", "AWS_REGION": ""} {
		t.Setenv(name, v)
	}
	return b
}

func (b *bucket) store(prefix string) objstore.Store {
	b.t.Helper()
	s, err := objstore.Open("s3://logs/" + prefix)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// objects is everything in the bucket; all names must begin with prefix, which they lose.
func (b *bucket) objects(prefix string) map[string][]byte {
	b.t.Helper()
	out := map[string][]byte{}
	list, err := b.back.ListBucket("logs", nil, gofakes3.ListBucketPage{})
	if err != nil || list.IsTruncated {
		b.t.Fatal(err, list)
	}
	for _, c := range list.Contents {
		o, err := b.back.GetObject("logs", c.Key, nil)
		if err != nil {
			b.t.Fatal(err)
		}
		name, ok := strings.CutPrefix(c.Key, prefix)
		if out[name], err = io.ReadAll(o.Contents); err != nil || !ok {
			b.t.Errorf("%s: %v", c.Key, err)
		}
	}
	return out
}

// files is everything below a directory.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[filepath.ToSlash(strings.TrimPrefix(path, dir+string(filepath.Separator)))] = b
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestABucketThatRefusesHalfway keeps the old checkpoint with all it promises, and is brought up to date by the next worker.
func TestABucketThatRefusesHalfway(t *testing.T) {
	m, b := newAlone(t, 1), newBucket(t)
	s := b.store("x")
	m.grow(300, "entry")
	if err := m.publish(objects(s)); err != nil {
		t.Fatal(err)
	}
	before := b.objects("x/")["checkpoint"]
	m.grow(20000, "entry")
	for _, uploads := range []int64{0, 1, 70, 120} {
		b.left.Store(uploads)
		if err := m.publish(objects(s)); err == nil {
			t.Fatalf("published with %d uploads", uploads)
		}
		if now := b.objects("x/")["checkpoint"]; !bytes.Equal(now, before) {
			t.Fatalf("after %d uploads the checkpoint is %s", uploads, now)
		}
	}
	b.left.Store(1 << 40)
	if err := m.publish(objects(s)); err != nil {
		t.Fatal(err)
	}
	m.complete(s)

	// Another log's bucket is left alone.
	other := newAlone(t, 2)
	other.grow(30000, "entry")
	held := b.objects("x/")
	if err := other.publish(objects(s)); !errors.Is(err, ErrRefused) {
		t.Errorf("another log was published there: %v", err)
	}
	if now := b.objects("x/"); len(now) != len(held) {
		t.Errorf("%d objects, before %d", len(now), len(held))
	}
	if there, err := objects(s).Held(context.Background(), m.logs.Find("default")); err != nil || there.Size != 20300 {
		t.Error(there, err)
	}
}
