package objstore

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// serveBucket runs a server with TLS and a bucket; key takes the access key of each request. No variable leads there.
func serveBucket(t *testing.T, key func(string)) string {
	t.Helper()
	b := s3mem.New()
	if err := b.CreateBucket("bkt"); err != nil {
		t.Fatal(err)
	}
	h := gofakes3.New(b).Server()
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, of, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		of, _, _ = strings.Cut(of, "/")
		key(of)
		h.ServeHTTP(w, r)
	}))
	srv.Config.ErrorLog = nil
	t.Cleanup(srv.Close)
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION",
		"AWS_DEFAULT_REGION", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	return srv.URL
}

func TestABucketIsReachedByWhatTheCallerKnows(t *testing.T) {
	var key string
	url := serveBucket(t, func(k string) { key = k })
	ctx := context.Background()
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = shared\naws_secret_access_key = x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	b := Bucket{Name: "bkt", Prefix: "a/b", Endpoint: url, SkipVerify: true}
	put := func(want string) {
		t.Helper()
		s, err := OpenBucket(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(ctx, Object{Name: "x", Data: []byte(want)}); err != nil {
			t.Fatal(err)
		}
		if key != want {
			t.Errorf("signed with the key %q, want %q", key, want)
		}
	}
	put("shared")
	t.Setenv("AWS_ACCESS_KEY_ID", "variable")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "y")
	put("variable")
	b.AccessKeyID, b.SecretAccessKey = "given", "z"
	put("given")

	whole := b
	whole.Prefix = ""
	s, err := OpenBucket(whole)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := s.Get(ctx, "a/b/x"); err != nil || string(data) != "given" {
		t.Errorf("below the prefix there is %q, %v", data, err)
	}
	b.SkipVerify = false
	if s, err = OpenBucket(b); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, "x"); err == nil || errors.Is(err, ErrAbsent) {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
}

func TestABucketThatCannotBeReachedIsRefused(t *testing.T) {
	serveBucket(t, func(string) {})
	for _, c := range []struct {
		b    Bucket
		want string
	}{
		{Bucket{Name: "b"}, "s3://b: "},
		{Bucket{Name: "Bkt"}, "s3://Bkt: "},
		{Bucket{Name: "bkt", Prefix: "a//b"}, "is not clean"},
		{Bucket{Name: "bkt", Prefix: "../b"}, "is not clean"},
		{Bucket{Name: "bkt", AccessKeyID: "k"}, "one is missing"},
		{Bucket{Name: "bkt", Endpoint: "host:9000"}, "is no address"},
		{Bucket{Name: "bkt", Endpoint: "https://host/path"}, "is no address"},
	} {
		if _, err := OpenBucket(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.b, err)
		}
	}
}
