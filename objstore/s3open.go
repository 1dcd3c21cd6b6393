package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	// resumes is how often in a row the reading of an object goes on over a new connection without much progress.
	resumes = 5
	// progress is how many bytes of one connection make the next failure count as a first one.
	progress = 1 << 20
)

// Open implements Store. A connection that is lost on the way is replaced by one that asks for the rest of the same version.
func (s *S3) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if err := checkStream(name, off); err != nil {
		return nil, err
	}
	d := &download{ctx: ctx, s: s, name: name, off: off, left: n}
	if err := d.open(); err != nil {
		return nil, s.failed("get", name, err)
	}
	return d, nil
}

var errRanges = errors.New("it does not serve ranges")

// download is an object that is being read.
type download struct {
	ctx  context.Context
	s    *S3
	name string

	body    io.ReadCloser // nil: it is lost, or not needed
	etag    string        // of the first answer
	off     int64         // of the next byte
	left    int64         // still to be had; negative: to the end, and the store has not said where that is
	missing bool          // the object ends before what was asked for
	failed  int           // connections lost in a row
	got     int64         // bytes of this connection
	err     error         // the error that ended it
}

// open asks for the rest.
func (d *download) open() error {
	if d.left == 0 {
		return d.look()
	}
	var opt minio.GetObjectOptions
	switch {
	case d.left > 0:
		if err := opt.SetRange(d.off, d.off+d.left-1); err != nil {
			return err
		}
	case d.off > 0:
		if err := opt.SetRange(d.off, 0); err != nil {
			return err
		}
	}
	if d.etag != "" {
		if err := opt.SetMatchETag(d.etag); err != nil {
			return err
		}
	}
	body, info, header, err := minio.Core{Client: d.s.client}.GetObject(d.ctx, d.s.bucket, d.s.prefix+d.name, opt)
	if err != nil {
		return d.refused(err)
	}
	if err := d.take(info, header); err != nil {
		_ = body.Close() // nothing was written through it
		return err
	}
	d.body, d.got = body, 0
	return nil
}

// take judges an answer by its header.
func (d *download) take(info minio.ObjectInfo, header http.Header) error {
	if d.etag != "" && info.ETag != d.etag {
		return ErrChanged // by a server that takes no notice of If-Match
	}
	if at := header.Get("Content-Range"); d.off > 0 && !strings.HasPrefix(at, fmt.Sprintf("bytes %d-", d.off)) {
		return fmt.Errorf("asked for what is from byte %d on, the store gives %q: %w", d.off, at, errRanges)
	}
	d.etag = info.ETag
	if header.Get("Content-Length") == "" {
		return nil
	}
	switch {
	case d.left >= 0 && info.Size < d.left:
		d.missing = true
		d.left = info.Size
	case d.left < 0:
		d.left = info.Size
	}
	return nil
}

// refused translates an error that came in place of the bytes.
func (d *download) refused(err error) error {
	switch r := minio.ToErrorResponse(err); {
	case d.etag != "" && (r.StatusCode == http.StatusPreconditionFailed || r.StatusCode == http.StatusRequestedRangeNotSatisfiable ||
		r.Code == minio.NoSuchKey):
		return ErrChanged
	case r.Code == minio.NoSuchKey:
		return ErrAbsent
	case r.StatusCode == http.StatusRequestedRangeNotSatisfiable && d.left > 0:
		return io.ErrUnexpectedEOF
	case r.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		d.left = 0 // to the end, from the end or from behind it
		return d.look()
	}
	return err
}

// look finds out, where no bytes are needed, whether there is an object and whether it is long enough.
func (d *download) look() error {
	info, err := d.s.client.StatObject(d.ctx, d.s.bucket, d.s.prefix+d.name, minio.StatObjectOptions{})
	switch {
	case err != nil && minio.ToErrorResponse(err).Code == minio.NoSuchKey:
		return ErrAbsent
	case err != nil:
		return err
	case info.Size < d.off:
		return io.ErrUnexpectedEOF
	}
	return nil
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (n int, err error) {
	if d.err != nil {
		return 0, d.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if n, err = d.read(p); err != nil {
		if d.err = err; err != io.EOF && err != io.ErrUnexpectedEOF {
			d.err = d.s.failed("get", d.name, err)
		}
	}
	return n, d.err
}

func (d *download) read(p []byte) (int, error) {
	for {
		if err := d.ctx.Err(); err != nil {
			return 0, err
		}
		if d.left == 0 {
			if d.missing {
				return 0, io.ErrUnexpectedEOF
			}
			return 0, io.EOF
		}
		if d.left > 0 {
			p = p[:min(int64(len(p)), d.left)]
		}
		n, err := d.body.Read(p)
		d.off, d.got = d.off+int64(n), d.got+int64(n)
		if d.left > 0 {
			d.left -= int64(n)
		}
		switch {
		case n > 0: // an error comes again
			return n, nil
		case err == io.EOF && d.left < 0:
			return 0, io.EOF
		case err == nil:
			continue
		}
		if err := d.resume(err); err != nil {
			return 0, err
		}
	}
}

// resume replaces a connection that was lost by lost.
func (d *download) resume(lost error) error {
	if d.got >= progress {
		d.failed = 0
	}
	for pause := firstPause; ; pause *= 2 {
		if d.failed++; d.failed > resumes || d.etag == "" {
			return fmt.Errorf("the connection was lost at byte %d: %w", d.off, errors.Join(lost, d.ctx.Err()))
		}
		_ = d.body.Close() // it is lost
		err := d.open()
		if err == nil || !transient(err) || errors.Is(err, ErrChanged) || errors.Is(err, errRanges) || d.ctx.Err() != nil {
			return err
		}
		lost = err
		select {
		case <-d.ctx.Done():
			return d.ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Close implements io.Closer.
func (d *download) Close() error {
	if d.err == nil {
		d.err = errors.New("read after it was closed")
	}
	if d.body == nil {
		return nil
	}
	return d.body.Close()
}
