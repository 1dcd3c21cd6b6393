package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/internal/bucket"
	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/objstore"
)

// place is an object store and what leads to it.
type place struct {
	name, url string
	env       []string
	end       func() error
}

func (r *run) files() (*place, error) {
	return &place{name: "files", url: "file://" + filepath.Join(r.dir, "files"), end: func() error { return nil }}, nil
}

func (r *run) fake() (*place, error) {
	b, err := bucket.Start()
	if err != nil {
		return nil, err
	}
	return &place{name: "gofakes3", url: b.URL("archive"), env: b.Env(), end: b.Close}, nil
}

// gateway starts versitygw on a directory with one bucket.
func (r *run) gateway(ctx context.Context, bin string) (*place, error) {
	dir := filepath.Join(r.dir, "gateway")
	attributes := filepath.Join(r.dir, "attributes") // files of its own: not every file system has extended attributes
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "holdfast"), 0o755), os.MkdirAll(attributes, 0o755)); err != nil {
		return nil, err
	}
	addr, err := proctest.FreeAddress()
	if err != nil {
		return nil, err
	}
	p := proctest.NewProcess(filepath.Join(r.dir, "gateway.log"), bin, "--access", "key", "--secret", "secret", "--port", addr, "posix", "--sidecar", attributes, dir)
	if err := p.Start(); err != nil {
		return nil, err
	}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			break
		}
		if !p.Running() || time.Since(began) > 20*time.Second || ctx.Err() != nil {
			return nil, errors.Join(fmt.Errorf("versitygw does not listen: %w\n%s", err, p.LogTail(10)), p.Kill())
		}
	}
	env := []string{"AWS_ENDPOINT_URL=http://" + addr, "AWS_ENDPOINT_URL_S3=", "AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret", "AWS_SESSION_TOKEN=",
		"AWS_REGION=us-east-1", "AWS_DEFAULT_REGION="}
	return &place{name: "versitygw", url: "s3://holdfast/archive", env: env, end: p.Kill}, nil
}

// open returns the store as this program's own.
func (p *place) open() (objstore.Store, error) {
	for _, v := range p.env {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	return objstore.Open(p.url)
}

// listed is how many names are put: more than one page of a list.
const listed = 1100

// conditions asks the store for all that an archive stands on.
func conditions(ctx context.Context, p *place) (string, error) {
	s, err := p.open()
	if err != nil {
		return "", err
	}
	if err := errors.Join(objstore.Probe(ctx, s), objstore.ProbeAbsent(ctx, s)); err != nil {
		return "", err
	}
	var want []string
	for i := range listed {
		name := fmt.Sprintf("list/%06d", i)
		want = append(want, name)
		if err := s.PutIfAbsent(ctx, objstore.Object{Name: name, Data: []byte(name)}); err != nil {
			return "", fmt.Errorf("put %s: %w", name, err)
		}
	}
	if err := s.PutIfAbsent(ctx, objstore.Object{Name: want[7], Data: []byte("another")}); !errors.Is(err, objstore.ErrExists) {
		return "", fmt.Errorf("an object was put over another: %v", err)
	}
	if got, err := s.Get(ctx, want[7]); err != nil || string(got) != want[7] {
		return "", fmt.Errorf("%s holds %q, %v", want[7], got, err)
	}
	for _, after := range []string{"", want[999], want[500] + "x"} {
		var got []string
		for o, err := range s.List(ctx, "list", after) {
			if err != nil {
				return "", err
			}
			got = append(got, o.Name)
		}
		rest := want[slices.IndexFunc(want, func(n string) bool { return n > after }):]
		if !slices.Equal(got, rest) {
			return "", fmt.Errorf("after %q: %d names, want %d", after, len(got), len(rest))
		}
	}
	if err := s.Delete(ctx, want...); err != nil {
		return "", err
	}
	for o, err := range s.List(ctx, "list", "") {
		return "", fmt.Errorf("%s is still there, %v", o.Name, err)
	}
	if err := streams(ctx, s, p.name != "gofakes3"); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d names put once, listed in order, removed; %d MB as a stream, put once, read in parts", listed, streamed>>20), nil
}

// streamed is the size of a stream that goes to a bucket in parts.
const streamed = objstore.OncePut + 1<<20

// streams asks the store for the conditions that large objects need. Of two simultaneous creators, one succeeds where the server judges the
// condition when an upload in parts is completed. Of two in sequence the first succeeds, everywhere.
func streams(ctx context.Context, s objstore.Store, judged bool) error {
	body := func(w int) []byte { return bytes.Repeat([]byte{byte('a' + w)}, streamed) }
	put := func(w int) error {
		return s.PutFrom(ctx, "stream/o", streamed, bytes.NewReader(body(w)), true)
	}
	var failed [2]error
	var wg sync.WaitGroup
	for w := range failed {
		if judged {
			wg.Go(func() { failed[w] = put(w) })
		} else {
			failed[w] = put(w)
		}
	}
	wg.Wait()
	won := slices.Index(failed[:], nil)
	if won < 0 || !errors.Is(failed[1-won], objstore.ErrExists) {
		return fmt.Errorf("two have put a stream of one name: %v and %v", failed[0], failed[1])
	}
	if err := s.PutFrom(ctx, "stream/short", streamed, io.LimitReader(bytes.NewReader(body(0)), streamed-1), false); !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("a stream that ends early: %v", err)
	}
	for _, part := range [][2]int64{{0, -1}, {streamed - 1000, -1}, {5 << 20, 20 << 20}} {
		want := body(won)[part[0]:]
		if part[1] >= 0 {
			want = want[:part[1]]
		}
		r, err := s.Open(ctx, "stream/o", part[0], part[1])
		if err != nil {
			return err
		}
		got, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("%d bytes of a stream from %d on: %d came, %v", part[1], part[0], len(got), err)
		}
	}
	var names []string
	for o, err := range s.List(ctx, "stream", "") {
		if err != nil {
			return err
		}
		if time.Since(o.Time).Abs() > 10*time.Minute {
			return fmt.Errorf("%s was put at %v", o.Name, o.Time)
		}
		names = append(names, o.Name)
	}
	if !slices.Equal(names, []string{"stream/o"}) {
		return fmt.Errorf("streams left %v", names)
	}
	return s.Delete(ctx, names...)
}
