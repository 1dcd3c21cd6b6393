package objstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	// OncePut is the size in bytes up to which a stream becomes an object by one request. It applies to streams that can be repeated or
	// must be judged by the store. Larger ones go in parts.
	OncePut = 64 << 20
	// smallPart is the buffer of a stream that can be read only once, so that a part can be sent again: S3's least part.
	smallPart = 5 << 20
	// mostParts is what S3 takes of one object.
	mostParts = 10_000
	// abortWithin is how long the removal of a failed upload's parts may take.
	abortWithin = 10 * time.Second
	// firstPause is between the first two attempts of a request; it doubles.
	firstPause = 100 * time.Millisecond
)

// PutFrom implements Store. A stream that can be read anywhere is sent as it is, again if need be; one that cannot is held part by part.
// If that one must be judged as a whole, it is sent in one attempt, which is not repeated.
func (s *S3) PutFrom(ctx context.Context, name string, size int64, r io.Reader, ifAbsent bool) error {
	if err := checkStream(name, size); err != nil {
		return err
	}
	if err := s.putFrom(ctx, name, size, r, ifAbsent); err != nil {
		return s.failed("put", name, err)
	}
	return nil
}

func (s *S3) putFrom(ctx context.Context, name string, size int64, r io.Reader, ifAbsent bool) error {
	from, again := placeOf(r)
	if !again && size <= smallPart {
		b := make([]byte, size)
		if err := fill(newExact(ctx, r, size), b, true); err != nil {
			return err
		}
		from, again = place{ReaderAt: bytes.NewReader(b)}, true
	}
	part := int64(smallPart)
	if again {
		if err := from.measure(size); err != nil {
			return err
		}
		part = OncePut
	}
	switch {
	case again && size <= OncePut:
		return s.repeat(ctx, func() error {
			return s.putOnce(ctx, name, size, io.NewSectionReader(from, from.at, size), ifAbsent)
		})
	case ifAbsent && size <= OncePut:
		return s.putOnce(ctx, name, size, r, true)
	case size > mostParts*part:
		return fmt.Errorf("%d bytes are more than the %d that a bucket takes of such a stream, %d parts of %d; put several objects", size,
			mostParts*part, mostParts, part)
	}
	u := &upload{s: s, name: name, size: size, part: part, ifAbsent: ifAbsent}
	if again {
		u.body = func(n int64) (io.ReaderAt, error) { return io.NewSectionReader(from, from.at+u.sent, n), nil }
	} else {
		all, held := newExact(ctx, r, size), make([]byte, part)
		u.body = func(n int64) (io.ReaderAt, error) {
			return bytes.NewReader(held[:n]), fill(all, held[:n], u.sent+n == size)
		}
	}
	return u.run(ctx)
}

// fill reads b whole, and the end of the stream if it is the last of it.
func fill(e *exact, b []byte, last bool) error {
	if _, err := io.ReadFull(e, b); err != nil {
		return err
	}
	if last {
		if _, err := e.Read(make([]byte, 1)); err != io.EOF {
			return err
		}
	}
	return nil
}

// putOnce makes one attempt to put an object by one request.
func (s *S3) putOnce(ctx context.Context, name string, size int64, r io.Reader, ifAbsent bool) error {
	body := newExact(ctx, r, size)
	opt := putOptions(&Object{})
	opt.DisableContentSha256 = size == 0
	if ifAbsent {
		opt.SetMatchETagExcept("*")
	}
	_, err := minio.Core{Client: s.client}.PutObject(ctx, s.bucket, s.prefix+name, body, size, "", "", opt)
	ended := body.close()
	switch {
	case err == nil:
		return nil
	case ended != nil: // why the request failed
		return ended
	case ifAbsent && minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed:
		return ErrExists
	case ifAbsent && minio.ToErrorResponse(err).StatusCode == http.StatusNotImplemented:
		return fmt.Errorf("%w: %w", ErrUnconditional, err)
	}
	return err
}

// repeat makes attempts until one does not fail with a transient error. The client makes none by itself for a body that it cannot rewind,
// and it is not given one. It would rewind while the connection of a failed attempt may still read it.
func (s *S3) repeat(ctx context.Context, attempt func() error) (err error) {
	pause := firstPause
	for i := range attempts {
		if i > 0 {
			select {
			case <-ctx.Done():
				return err
			case <-time.After(pause):
			}
			pause *= 2
		}
		err = attempt()
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrExists) || errors.Is(err, ErrUnconditional) || !transient(err) {
			return err
		}
	}
	return err
}

// upload is one object that goes in parts.
type upload struct {
	s          *S3
	name       string
	size, part int64
	ifAbsent   bool
	// body is the next n bytes, good until it is called again.
	body func(n int64) (io.ReaderAt, error)

	id    string
	sent  int64
	parts []minio.CompletePart
}

// run sends the parts one after the other, and completes the object. After an error the store forgets the parts.
func (u *upload) run(ctx context.Context) (err error) {
	core := minio.Core{Client: u.s.client}
	if u.id, err = core.NewMultipartUpload(ctx, u.s.bucket, u.s.prefix+u.name, putOptions(&Object{})); err != nil {
		return err
	}
	for err == nil && u.sent < u.size {
		err = u.next(ctx, core)
	}
	if err == nil {
		err = u.complete(ctx, core)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
		defer cancel()
		// The rest of a failed upload is no object. It costs room until the bucket's own rule for incomplete uploads removes it.
		_ = core.AbortMultipartUpload(ctx, u.s.bucket, u.s.prefix+u.name, u.id)
	}
	return err
}

// next sends one part.
func (u *upload) next(ctx context.Context, core minio.Core) error {
	n := min(u.part, u.size-u.sent)
	at, err := u.body(n)
	if err != nil {
		return err
	}
	// Signed as a whole: not every server knows a part that is signed in chunks, and some keep the signatures in it.
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(at, 0, n)); err != nil {
		return err
	}
	opt := minio.PutObjectPartOptions{Sha256Hex: hex.EncodeToString(sum.Sum(nil)), DisableContentSha256: true}
	number := len(u.parts) + 1
	err = u.s.repeat(ctx, func() error {
		body := newExact(ctx, io.NewSectionReader(at, 0, n), n)
		p, err := core.PutObjectPart(ctx, u.s.bucket, u.s.prefix+u.name, u.id, number, body, n, opt)
		if ended := body.close(); err != nil && ended != nil {
			return ended
		}
		if err == nil {
			u.parts = append(u.parts, minio.CompletePart{PartNumber: number, ETag: p.ETag})
		}
		return err
	})
	u.sent += n
	return err
}

// complete makes the object of the parts. A server that takes no notice of the condition there is asked before whether there is an object.
func (u *upload) complete(ctx context.Context, core minio.Core) error {
	opt := putOptions(&Object{})
	if u.ifAbsent {
		switch there, err := u.s.there(ctx, u.name); {
		case err != nil:
			return err
		case there:
			return ErrExists
		}
		opt.SetMatchETagExcept("*")
	}
	_, err := core.CompleteMultipartUpload(ctx, u.s.bucket, u.s.prefix+u.name, u.id, u.parts, opt)
	if err == nil || !u.ifAbsent {
		return err
	}
	switch r := minio.ToErrorResponse(err); {
	case r.StatusCode == http.StatusPreconditionFailed:
		return ErrExists
	case r.StatusCode == http.StatusNotImplemented:
		return fmt.Errorf("%w: %w", ErrUnconditional, err)
	case r.Code == minio.NoSuchUpload: // the client has repeated a successful request, or another program has removed the parts
		if there, err := u.s.there(ctx, u.name); err == nil && there {
			return ErrExists
		}
	}
	return err
}

// there reports whether there is an object.
func (s *S3) there(ctx context.Context, name string) (bool, error) {
	_, err := s.client.StatObject(ctx, s.bucket, s.prefix+name, minio.StatObjectOptions{})
	if err != nil && minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return false, nil
	}
	return err == nil, err
}
