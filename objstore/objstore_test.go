package objstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func object(name, data string) Object { return Object{Name: name, Data: []byte(data)} }

// TestAllKeepTheSamePromises runs the same story over files, a bucket and memory.
func TestAllKeepTheSamePromises(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "below")
	file, err := Open("file://" + dir)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := Open(serveS3(t, "bucket") + "/deep/below")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Store{"file": file, "s3": bucket, "memory": NewMemory()} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			if _, err := s.Get(ctx, "a/b"); !errors.Is(err, ErrAbsent) {
				t.Errorf("before anything was put: %v", err)
			}
			if err := s.DeleteAll(ctx, "a"); err != nil {
				t.Errorf("delete nothing: %v", err)
			}
			if err := s.Put(ctx, object("a/b", "1"), object("a/c/d", ""), object("ab", "3"), object("a/b", "2")); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"a/b": "2", "a/c/d": "", "ab": "3"} {
				if b, err := s.Get(ctx, name); err != nil || string(b) != want {
					t.Errorf("%s: %q, %v", name, b, err)
				}
			}
			if err := s.DeleteAll(ctx, "a"); err != nil {
				t.Fatal(err)
			}
			for name, gone := range map[string]bool{"a/b": true, "a/c/d": true, "ab": false} {
				if _, err := s.Get(ctx, name); errors.Is(err, ErrAbsent) != gone {
					t.Errorf("%s after the deletion: %v", name, err)
				}
			}
			for _, name := range []string{"", "/a", "a/", "a//b", "../a", "a/./b", "a/.new-b"} {
				if err := s.Put(ctx, Object{Name: name}); err == nil {
					t.Errorf("%q is taken for a name", name)
				}
			}
		})
	}
	info, err := os.Stat(filepath.Join(dir, "ab"))
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("a published file: %v, %v", info, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	serveS3(t)
	for _, text := range []string{"", "dir", "file://dir", "file://dir/x", "http://a/b", "s3://", "s3:///prefix",
		"s3://user@bucket", "s3://bucket:80", "s3://bucket/a//b", "s3://bucket/../b", "s3://bucket?x=y", "s3://B_", "file:relative", "%"} {
		if _, err := Open(text); err == nil {
			t.Errorf("%q is taken for a place", text)
		}
	}
}
