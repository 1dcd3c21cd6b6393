package objstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
)

// List implements Store. The client asks for one page of a thousand after another.
func (s *S3) List(ctx context.Context, prefix, after string) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		begin, err := below(prefix)
		if err != nil {
			yield(Listed{}, err)
			return
		}
		opt := minio.ListObjectsOptions{Prefix: s.prefix + begin, Recursive: true}
		if after != "" {
			opt.StartAfter = s.prefix + after
		}
		ctx, p := withPages(ctx)
		for o := range s.client.ListObjectsIter(ctx, s.bucket, opt) {
			name, inside := strings.CutPrefix(o.Key, s.prefix)
			err := o.Err
			switch {
			case err != nil:
			case !inside || !strings.HasPrefix(name, begin):
				err = lasting{fmt.Errorf("the store gives %q, which does not begin with %q", o.Key, opt.Prefix)}
			default:
				err = p.take(name, maxListed)
			}
			if err != nil {
				yield(Listed{}, s.failed("list", prefix, err))
				return
			}
			if name <= after {
				continue // some servers take no notice of start-after
			}
			if !yield(Listed{name, o.Size, o.LastModified}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil { // the client ends a list that is cancelled as if that were all
			yield(Listed{}, s.failed("list", prefix, err))
		}
	}
}

// Delete implements Store. Each removal is a request of its own, as many at a time as uploads. Not every server knows the request that
// removes many, and stores charge nothing for a removal. As with uploads, the first failure is told and ends the rest.
func (s *S3) Delete(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := checkName(name); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	room := make(chan struct{}, uploads)
	var wg sync.WaitGroup
	for _, name := range names {
		room <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-room }()
			err := s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{})
			if err != nil && minio.ToErrorResponse(err).Code != minio.NoSuchKey { // servers other than AWS's say so
				cancel(s.failed("delete", name, err))
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// DeleteAll implements Store.
func (s *S3) DeleteAll(ctx context.Context, prefix string) error {
	if err := checkName(prefix); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make(chan minio.ObjectInfo)
	listed := make(chan error, 1)
	go func() {
		defer close(found)
		for o, err := range s.List(ctx, prefix, "") {
			if err != nil {
				listed <- err
				return
			}
			select {
			case found <- minio.ObjectInfo{Key: s.prefix + o.Name}:
			case <-ctx.Done():
				listed <- ctx.Err()
				return
			}
		}
		listed <- nil
	}()
	var failed []error
	for e := range s.client.RemoveObjects(ctx, s.bucket, found, minio.RemoveObjectsOptions{}) {
		if len(failed) < 3 { // enough to know why
			failed = append(failed, e.Err)
		}
	}
	cancel() // ends the list if the removal ended first
	if err := <-listed; err != nil && len(failed) == 0 {
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return s.failed("delete", prefix, err)
	}
	return nil
}
