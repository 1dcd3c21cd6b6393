// Package objstore is where objects are put for others to read without asking this server. Named objects are written and read as a whole,
// in memory or, if they are too large for that, as streams. It does not know their meaning.
//
// There is a directory of plain files, for any web server to serve, a bucket of S3, and memory, for tests. Faulty wraps any of them and
// fails by a seed. Other clouds are reached by the S3 interface they have (Google's by AWS_ENDPOINT_URL=https://storage.googleapis.com and
// an HMAC key); there is no client of their own here. Probe and ProbeAbsent find the parts of S3 that such an interface leaves out; no
// cloud is known by name.
//
// It is not for the server's own state: that goes through packages disk and store, where a test can make every call fail.
package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// ErrAbsent: there is no object of that name.
var ErrAbsent = errors.New("no such object")

// Object is a name and its content. A name is a relative path with slashes, without empty parts, "." and "..".
type Object struct {
	Name string
	Data []byte
	// Type and Cache are the Content-Type and Cache-Control that a bucket answers with. A directory keeps neither: the web
	// server in front of it has its own settings.
	Type, Cache string
}

// Listed is a list's entry for an object. Size is in bytes; Time is when the store took it, by the store's clock, zero if it does not say.
type Listed struct {
	Name string
	Size int64
	Time time.Time
}

// Store keeps objects. Implementations are safe for concurrent use. An error other than ErrAbsent, ErrChanged, ErrExists and
// ErrUnconditional may be transient: the call may be repeated. Final reports which of them will be answered again.
//
// No removal is on a condition: too many servers that speak S3 take no notice of one.
type Store interface {
	// Get returns an object's data, or ErrAbsent.
	Get(ctx context.Context, name string) ([]byte, error)
	// GetVersion is Get with the version of the object for PutIfMatch: Absent with ErrAbsent.
	GetVersion(ctx context.Context, name string) (data []byte, version string, err error)
	// PutIfMatch is Put of an object that is still of the version was, judged when the store writes it. A long upload is refused if another
	// caller has written meanwhile. It returns the new version, or ErrChanged.
	PutIfMatch(ctx context.Context, o Object, was string) (version string, err error)
	// Put writes objects, replacing those of the same names. A reader sees each one whole, as it was or as it is. All are durable when Put
	// returns without an error. After a *Partial only those it names are durable. They may appear in any order.
	Put(ctx context.Context, objects ...Object) error
	// PutIfAbsent is Put of an object whose name is free, judged by the store when it writes. Of all callers that ever put an object of one
	// name so, one gets nil. ErrExists says that there is an object, whole and durable, and it stays as it is.
	//
	// After any other error the object may be there, or may come to be there after the call has returned. Then a second attempt may meet
	// ErrExists for the caller's own bytes. So may the first, because a client of S3 repeats an upload whose answer was lost. So the caller
	// that gets ErrExists reads the object and compares.
	PutIfAbsent(ctx context.Context, o Object) error
	// PutFrom is Put of one object of size bytes read from r, or PutIfAbsent with ifAbsent set, with the same errors. It holds at most 8
	// MiB, for any size. A stream with fewer or more bytes is an error and leaves no object. So does a stream that fails, whose error is in
	// the returned one. If r is an io.ReaderAt, it is read so, from its position if it is an io.Seeker as well. Requests are then repeated
	// as those of Put are. It must not change meanwhile.
	//
	// Above OncePut a bucket judges ifAbsent when an upload in parts is completed, if its server knows the condition there. AWS documents
	// that, versitygw does it, gofakes3 does not. Without it, an object that was there before the end of the upload is not replaced. But
	// several callers that create one name in the same moment may all get nil, and the last one's object stays. A caller that cannot accept
	// this must decide by a small object and PutIfAbsent. A directory judges every size.
	PutFrom(ctx context.Context, name string, size int64, r io.Reader, ifAbsent bool) error
	// Open returns n bytes of an object from byte off on, to its end if n is negative, or ErrAbsent. They are all of one version of the
	// object. If it is replaced while they are read, reading continues in the old one or ends with ErrChanged. An object that ends before
	// them ends the reading, or the call, with io.ErrUnexpectedEOF. The end of ctx ends the reading. The caller closes the reader, which is
	// not safe for concurrent use.
	Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error)
	// List yields the objects whose names begin with prefix and a slash (all, if prefix is empty) and sort after the name after. They come
	// in the order of the names' bytes. An error is the last thing it yields; the caller goes on after the last name it was given. Objects
	// that are put or removed meanwhile may be there or not.
	List(ctx context.Context, prefix, after string) iter.Seq2[Listed, error]
	// Delete removes objects. It is no error if there is none of a name. After an error some of them may be gone; after a crash
	// of the machine that has the files, one may be back.
	Delete(ctx context.Context, names ...string) error
	// DeleteAll removes every object whose name begins with prefix and a slash. It is no error if there is none.
	DeleteAll(ctx context.Context, prefix string) error
}

// Open returns the store a URL names: file:///dir, or s3://bucket/prefix with what AWS's variables say. The directory is made when
// something is put there, unless an option keeps it from that; the bucket must exist. file:///dir?mode=0644 sets the permissions of new
// files, independent of the umask. Nothing is read or written yet.
func Open(text string, opts ...Option) (Store, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s is no URL; write file:///dir or s3://bucket/prefix", text)
	}
	switch u.Scheme {
	case "s3":
		return openS3(u)
	case "file":
		if u.Host != "" || !filepath.IsAbs(u.Path) || strings.ContainsRune(u.Path, 0) {
			return nil, fmt.Errorf("%s has no absolute path; write file:///dir, with three slashes", text)
		}
		said, err := fileOptions(u)
		if err != nil {
			return nil, err
		}
		return NewFile(filepath.Clean(u.Path), append(opts, said...)...), nil
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

// below is how the names begin that List yields for prefix.
func below(prefix string) (string, error) {
	if prefix == "" {
		return "", nil
	}
	return prefix + "/", checkName(prefix)
}
