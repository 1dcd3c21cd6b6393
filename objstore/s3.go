package objstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

const (
	// uploads is how many objects are uploaded at a time. One takes about 50 ms, so hundreds of a publication, one after the other, would
	// take seconds.
	uploads = 8
	// attempts is how often one request is made. It is small because the publisher repeats a failed publication anyway.
	attempts = 3
)

// S3 is a Store in a bucket of S3, or of a server with the same API. Each object is one of the bucket's, its name prefixed. The bucket must
// exist. Read permissions are set at the bucket, not here.
type S3 struct {
	client *minio.Client
	bucket string
	prefix string // "" or ends with a slash
}

// openS3 reads s3://bucket/prefix, and from the environment what AWS's own tools read there: AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL. Nothing is
// sent yet.
func openS3(u *url.URL) (*S3, error) {
	s := &S3{bucket: u.Host}
	if s3utils.CheckValidBucketNameStrict(u.Host) != nil || u.User != nil || u.Port() != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%s is not a bucket; write s3://bucket/prefix, credentials are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
			u.Redacted())
	}
	if prefix := strings.Trim(u.Path, "/"); prefix != "" {
		if err := checkName(prefix); err != nil {
			return nil, fmt.Errorf("%s: %w; write s3://bucket/prefix", u, err)
		}
		s.prefix = prefix + "/"
	}
	if os.Getenv("AWS_ACCESS_KEY_ID") == "" || os.Getenv("AWS_SECRET_ACCESS_KEY") == "" {
		return nil, fmt.Errorf("%s: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", u)
	}
	o := &minio.Options{Creds: credentials.NewEnvAWS(), Secure: true, Region: firstOf("AWS_REGION", "AWS_DEFAULT_REGION"), MaxRetries: attempts}
	endpoint := "s3.amazonaws.com"
	if text := firstOf("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"); text != "" {
		e, err := url.Parse(text)
		if err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "" || strings.Trim(e.Path, "/") != "" {
			return nil, fmt.Errorf("endpoint %s is no address; set AWS_ENDPOINT_URL to http://host:port or https://host", text)
		}
		endpoint, o.Secure = e.Host, e.Scheme == "https"
		if o.Region == "" {
			o.Region = "us-east-1" // other S3 servers take it for none given; not all of them answer where a bucket is
		}
		if !strings.HasSuffix(e.Hostname(), ".amazonaws.com") {
			o.BucketLookup = minio.BucketLookupPath // a bucket's own host name is often not there
		}
	}
	var err error
	if s.client, err = newClient(endpoint, o, false); err != nil {
		return nil, fmt.Errorf("%s: %w; see AWS_ENDPOINT_URL", u, err)
	}
	return s, nil
}

// firstOf is the first of the variables that is set.
func firstOf(names ...string) string {
	for _, n := range names {
		if v := os.Getenv(n); v != "" {
			return v
		}
	}
	return ""
}

// Get implements Store.
func (s *S3) Get(ctx context.Context, name string) ([]byte, error) {
	b, _, err := s.GetVersion(ctx, name)
	return b, err
}

// GetVersion implements Store.
func (s *S3) GetVersion(ctx context.Context, name string) ([]byte, string, error) {
	if err := checkName(name); err != nil {
		return nil, Absent, err
	}
	o, err := s.client.GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, Absent, s.failed("get", name, err)
	}
	defer o.Close() // nothing was written through it
	b, err := io.ReadAll(io.LimitReader(o, MaxGet+1))
	switch {
	case err != nil && minio.ToErrorResponse(err).Code == minio.NoSuchKey:
		return nil, Absent, fmt.Errorf("%s: %w", name, ErrAbsent)
	case err != nil: // also if the bucket does not exist, which is not the same as an empty one
		return nil, Absent, s.failed("get", name, err)
	case len(b) > MaxGet:
		return nil, Absent, tooLarge(name, MaxGet)
	}
	info, err := o.Stat() // of the answer that was read
	if err != nil {
		return nil, Absent, s.failed("get", name, err)
	}
	return b, info.ETag, nil
}

// PutIfMatch implements Store, with If-Match, or If-None-Match where there must be no object.
func (s *S3) PutIfMatch(ctx context.Context, o Object, was string) (string, error) {
	if err := checkName(o.Name); err != nil {
		return Absent, err
	}
	opt := putOptions(&o)
	if was == Absent {
		opt.SetMatchETagExcept("*")
	} else {
		opt.SetMatchETag(was)
	}
	info, err := s.client.PutObject(ctx, s.bucket, s.prefix+o.Name, bytes.NewReader(o.Data), int64(len(o.Data)), opt)
	if err != nil {
		switch r := minio.ToErrorResponse(err); {
		case r.StatusCode == http.StatusPreconditionFailed, r.StatusCode == http.StatusConflict, // two at a time
			r.Code == minio.NoSuchKey && was != Absent: // it was removed
			return Absent, fmt.Errorf("put %s: %w", o.Name, ErrChanged)
		case r.StatusCode == http.StatusNotImplemented:
			return Absent, fmt.Errorf("put %s: %w: %w", o.Name, ErrUnconditional, err)
		}
		return Absent, s.failed("put", o.Name, err)
	}
	return info.ETag, nil
}

// PutIfAbsent implements Store, with If-None-Match.
func (s *S3) PutIfAbsent(ctx context.Context, o Object) error {
	if err := checkName(o.Name); err != nil {
		return err
	}
	opt := putOptions(&o)
	opt.SetMatchETagExcept("*")
	_, err := s.client.PutObject(ctx, s.bucket, s.prefix+o.Name, bytes.NewReader(o.Data), int64(len(o.Data)), opt)
	if err == nil {
		return nil
	}
	switch minio.ToErrorResponse(err).StatusCode {
	case http.StatusPreconditionFailed:
		return fmt.Errorf("put %s: %w", o.Name, ErrExists)
	case http.StatusNotImplemented:
		return fmt.Errorf("put %s: %w: %w", o.Name, ErrUnconditional, err)
	}
	// Also 409 Conflict: it says that there is another upload or a removal at the same time, and not that there is an object.
	return s.failed("put", o.Name, err)
}

// transient reports whether an upload that failed so might succeed later.
func transient(err error) bool {
	switch code := minio.ToErrorResponse(err).StatusCode; code {
	case 0, http.StatusRequestTimeout, http.StatusTooManyRequests: // 0: there was no answer
		return true
	default:
		return code >= 500
	}
}

// putOptions is how an object is uploaded.
func putOptions(o *Object) minio.PutObjectOptions {
	return minio.PutObjectOptions{
		ContentType:      o.Type, // "" is sent as application/octet-stream
		CacheControl:     o.Cache,
		DisableMultipart: true,
		// Without TLS the client signs a body in chunks, and would send an empty one without its length.
		DisableContentSha256: len(o.Data) == 0,
	}
}

// Put implements Store. S3 shows an object when it is whole and durable, and readers find it from then on. An upload that fails
// with a transient error does not end the others. As many such failures in a row as there are uploads at a time do, and so does
// a single upload that is refused.
func (s *S3) Put(ctx context.Context, objects ...Object) error {
	last := map[string]int{} // of each name; two requests for one would end in any order
	for i, o := range objects {
		if err := checkName(o.Name); err != nil {
			return err
		}
		last[o.Name] = i
	}
	room := make(chan struct{}, uploads)
	var wg sync.WaitGroup
	var mu sync.Mutex
	p := &Partial{Done: make([]bool, len(objects))} // guarded by mu
	row := 0                                        // failures in a row, without a success between; guarded by mu
	refused := false                                // guarded by mu
	hopeless := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return refused || row >= uploads
	}
	for i, o := range objects {
		if last[o.Name] != i {
			continue
		}
		room <- struct{}{}
		if ctx.Err() != nil || hopeless() {
			break
		}
		wg.Go(func() {
			defer func() { <-room }()
			_, err := s.client.PutObject(ctx, s.bucket, s.prefix+o.Name, bytes.NewReader(o.Data), int64(len(o.Data)), putOptions(&o))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				p.Done[i], row = true, 0
				return
			}
			refused = refused || !transient(err)
			if row++; p.Err == nil {
				p.Err = s.failed("put", o.Name, err) // the first is the one people are told
			}
		})
	}
	wg.Wait()
	if p.Err == nil {
		p.Err = ctx.Err()
	}
	if p.Err == nil {
		return nil
	}
	for i, o := range objects { // a later object of the same name replaces it
		p.Done[i] = p.Done[last[o.Name]]
	}
	return p
}
