package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// bucket is a bucket on a server of S3 in this process. Reading over plain HTTP is public, as of a published log.
type bucket struct {
	back *s3mem.Backend
	srv  *http.Server
	url  string // of the server
}

const bucketName = "logs"

// newBucket starts the server and sets the variables that lead servers started from here to it.
func newBucket() (*bucket, error) {
	b := &bucket{back: s3mem.New()}
	if err := b.back.CreateBucket(bucketName); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b.url = "http://" + l.Addr().String()
	b.srv = &http.Server{Handler: gofakes3.New(b.back).Server()}
	go b.srv.Serve(l) // ends with close
	for name, v := range map[string]string{"AWS_ENDPOINT_URL_S3": b.url, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_SESSION_TOKEN": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": ""} { // any order: each is set once
		if err := os.Setenv(name, v); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *bucket) close() { b.srv.Close() }

func (b *bucket) place(prefix string) place {
	return place{name: "bucket", url: b.url + "/" + bucketName + "/" + prefix, target: "s3://" + bucketName + "/" + prefix}
}

// objects is everything below a prefix, which is taken off the names. Types are those a reader is told.
func (b *bucket) objects(prefix string) (data map[string][]byte, types map[string]string, err error) {
	list, err := b.back.ListBucket(bucketName, nil, gofakes3.ListBucketPage{})
	if err != nil {
		return nil, nil, err
	}
	data, types = map[string][]byte{}, map[string]string{}
	for _, c := range list.Contents {
		name, ok := strings.CutPrefix(c.Key, prefix+"/")
		if !ok {
			continue
		}
		o, err := b.back.GetObject(bucketName, c.Key, nil)
		if err != nil {
			return nil, nil, err
		}
		if data[name], err = io.ReadAll(o.Contents); err != nil {
			return nil, nil, err
		}
		types[name] = o.Metadata["Content-Type"]
	}
	return data, types, nil
}

// compare compares both byte for byte. If the log grew while it was published, the bucket, which is updated less often, lacks some partial
// tiles that the files had. With exact that is no excuse.
func (s *suite) compare(b *bucket, prefix, dir string, exact bool) (string, error) {
	for _, p := range []place{{name: "files", url: "file://" + dir}, b.place(prefix)} {
		if _, err := s.caughtUp(p); err != nil {
			return "", fmt.Errorf("%s: %w", p.name, err)
		}
	}
	tree, err := files(dir)
	if err != nil {
		return "", err
	}
	objects, types, err := b.objects(prefix)
	if err != nil {
		return "", err
	}
	size, partial := 0, 0
	names := maps.Clone(tree)
	maps.Copy(names, objects)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		f, inTree := tree[name]
		o, inBucket := objects[name]
		switch {
		case inTree && inBucket && bytes.Equal(f, o):
			size += len(f)
		case inTree && inBucket:
			return "", fmt.Errorf("%s: %d bytes in the files, other %d in the bucket", name, len(f), len(o))
		case exact || !strings.Contains(name, ".p/"):
			return "", fmt.Errorf("%s: in the files %t, in the bucket %t", name, inTree, inBucket)
		default:
			partial++
		}
		if want := typeOf(name); inBucket && types[name] != want {
			return "", fmt.Errorf("%s has type %q, want %q", name, types[name], want)
		}
	}
	if len(objects) < 10 || size == 0 {
		return "", errors.New("there is nothing to compare")
	}
	if !exact {
		return fmt.Sprintf("%d paths and %d bytes the same, %d old partial tiles on one side only", len(names)-partial, size, partial), nil
	}
	return fmt.Sprintf("%d paths and %d bytes, all the same", len(names), size), nil
}

// typeOf is the content type that tlog-tiles wants for a path.
func typeOf(name string) string {
	if name == "checkpoint" {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// files is everything below a directory.
func files(dir string) (map[string][]byte, error) {
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir+"/")] = b
		return err
	})
	return out, err
}
