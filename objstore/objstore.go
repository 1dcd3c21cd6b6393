// Package objstore is where things are put for others to read without asking this server: named objects that are written as
// a whole and read as a whole. It knows nothing of what they mean. There is a directory of plain files, for any web server to
// serve, a bucket of S3, and memory, for tests.
//
// It is not for the server's own state: that goes through packages disk and store, where a test can make every call fail.
package objstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// ErrAbsent: there is no object of that name.
var ErrAbsent = errors.New("no such object")

// Object is a name and what it holds. A name is a relative path with slashes, without empty parts, "." and "..".
type Object struct {
	Name string
	Data []byte
	// Type and Cache are the Content-Type and Cache-Control that a bucket answers with. A directory keeps neither: the web
	// server in front of it has its own settings.
	Type, Cache string
}

// Store keeps objects. Implementations are safe for concurrent use. An error other than ErrAbsent, ErrChanged and
// ErrUnconditional may be transient: the call may be repeated.
type Store interface {
	// Get returns an object's data, or ErrAbsent.
	Get(ctx context.Context, name string) ([]byte, error)
	// GetVersion is Get with the version of the object for PutIfMatch: Absent with ErrAbsent.
	GetVersion(ctx context.Context, name string) (data []byte, version string, err error)
	// PutIfMatch is Put of an object that is still of the version was, judged when the store writes it: an upload that was long
	// on its way is refused if others have written meanwhile. It returns the new version, or ErrChanged.
	PutIfMatch(ctx context.Context, o Object, was string) (version string, err error)
	// Put writes objects, replacing those of the same names. A reader sees each one whole, as it was or as it is. All are
	// durable when Put returns without an error, and those that a *Partial names when it returns one; in which order they
	// appear is not said.
	Put(ctx context.Context, objects ...Object) error
	// DeleteAll removes every object whose name begins with prefix and a slash. It is no error if there is none.
	DeleteAll(ctx context.Context, prefix string) error
}

// Open returns the store a URL names: file:///dir, or s3://bucket/prefix with what AWS's variables say. The directory is made
// when something is put there; the bucket must exist. Nothing is read or written yet.
func Open(text string) (Store, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s is no URL; write file:///dir or s3://bucket/prefix", text)
	}
	switch u.Scheme {
	case "s3":
		return openS3(u)
	case "file":
		if u.Host != "" || !filepath.IsAbs(u.Path) {
			return nil, fmt.Errorf("%s has no absolute path; write file:///dir, with three slashes", text)
		}
		return NewFile(filepath.Clean(u.Path)), nil
	}
	return nil, fmt.Errorf("%s is neither a directory nor a bucket; write file:///dir or s3://bucket/prefix", text)
}

// checkName keeps a name inside the store.
func checkName(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || strings.HasPrefix(part, tempPrefix) {
			return fmt.Errorf("object name %q is not clean", name)
		}
	}
	return nil
}
