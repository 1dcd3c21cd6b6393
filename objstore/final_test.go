package objstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// s3Error answers every request with an error of S3.
func s3Error(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		if code != "" {
			fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>told so</Message></Error>", code)
		}
	}
}

// everyCall makes each call of a store and returns what it answers.
func everyCall(t *testing.T, s Store) map[string]error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
	defer cancel()
	_, get := s.Get(ctx, "a/o")
	_, match := s.PutIfMatch(ctx, object("a/o", "1"), Absent)
	_, open := s.Open(ctx, "a/o", 0, -1)
	var list error
	for _, err := range s.List(ctx, "a", "") {
		list = err
	}
	return map[string]error{"get": get, "put": s.Put(ctx, object("a/o", "1")), "if-match": match, "if-absent": s.PutIfAbsent(ctx, object("a/o", "1")),
		"from": s.PutFrom(ctx, "a/o", 1, strings.NewReader("1"), false), "open": open, "list": list, "delete": s.Delete(ctx, "a/o"), "all": s.DeleteAll(ctx, "a")}
}

// TestWhatCannotSucceedIsFinal: every call of every store says so, and says what to do.
func TestWhatCannotSucceedIsFinal(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.Handler
		final   bool
		todo    string
	}{
		{"no bucket", s3Error(404, "NoSuchBucket"), true, "make the bucket"},
		{"access", s3Error(403, "AccessDenied"), true, "the right to read"},
		{"no body", s3Error(403, ""), true, "the right to"}, // taken for AccessDenied
		{"key", s3Error(403, "InvalidAccessKeyId"), true, "AWS_ACCESS_KEY_ID"},
		{"secret", s3Error(403, "SignatureDoesNotMatch"), true, "AWS_SECRET_ACCESS_KEY"},
		{"token", s3Error(400, "InvalidToken"), true, "AWS_"},
		{"unauthorized", s3Error(401, "Unheard"), true, "AWS_ACCESS_KEY_ID"},
		{"region", s3Error(301, "PermanentRedirect"), true, "AWS_REGION"},
		{"clock", s3Error(403, "RequestTimeTooSkewed"), false, "clock"},
		{"method", s3Error(405, "MethodNotAllowed"), true, "does not know"},
		{"unimplemented", s3Error(501, "NotImplemented"), true, ""},
		{"conflict", s3Error(409, "OperationAborted"), false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(serveS3Behind(t, func(http.Handler) http.Handler { return c.handler }, "bucket"))
			if err != nil {
				t.Fatal(err)
			}
			for call, err := range everyCall(t, s) {
				if err == nil || Final(err) != c.final && !errors.Is(err, ErrChanged) || Unreachable(err) {
					t.Errorf("%s: final %t: %v", call, Final(err), err)
				}
				if err != nil && !errors.Is(err, ErrUnconditional) && !errors.Is(err, ErrChanged) && !strings.Contains(err.Error(), c.todo) {
					t.Errorf("%s does not say what to do: %v", call, err)
				}
			}
		})
	}
}

// TestAServerThatIsNoS3IsFinal: what it answers 404 to is no object that is missing.
func TestAServerThatIsNoS3IsFinal(t *testing.T) {
	s, err := Open(serveS3Behind(t, func(http.Handler) http.Handler { return http.NotFoundHandler() }, "bucket"))
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"put", "if-absent", "from", "list"} {
		if err := everyCall(t, s)[call]; !Final(err) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// TestAHostThatIsNotThereIsUnreachable, which passes; a certificate that is not trusted does not.
func TestAHostThatIsNotThereIsUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	defer tls.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for i, c := range []struct {
		endpoint           string
		final, unreachable bool
	}{
		{"http://" + gone, false, true},
		{"http://no-such-host.invalid", false, true},
		{tls.URL, true, false},
		{strings.Replace(plain.URL, "http:", "https:", 1), true, false},
		{strings.Replace(tls.URL, "https:", "http:", 1), false, false}, // 400, which may be anything
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			s, err := OpenBucket(Bucket{Name: "bucket", Endpoint: c.endpoint, AccessKeyID: "k", SecretAccessKey: "s"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Get(t.Context(), "o")
			if err == nil || Final(err) != c.final || Unreachable(err) != c.unreachable {
				t.Errorf("%s: final %t, unreachable %t: %v", c.endpoint, Final(err), Unreachable(err), err)
			}
		})
	}
}

// TestADirectoryThatCannotBeIsFinal, at once and in one line: nothing tries again, and nothing recurses.
func TestADirectoryThatCannotBeIsFinal(t *testing.T) {
	at := func(parts ...string) string { return filepath.Join(append([]string{t.TempDir()}, parts...)...) }
	link := func(to string) string {
		name := at("link")
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	file := at("file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	loop := at("loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{
		"dangling link":       link("/nowhere/at/all"),
		"below a dangling":    filepath.Join(link("/nowhere/at/all"), "app"),
		"far below":           filepath.Join(link("nowhere"), "a/b/c/d"),
		"link to a file":      filepath.Join(link(file), "app"),
		"proc":                "/proc/x/y",
		"proc itself":         "/proc/x",
		"sys":                 "/sys/x/y",
		"device":              "/dev/null/x",
		"file":                file,
		"below a file":        filepath.Join(file, "a/b"),
		"loop":                loop,
		"below a loop":        filepath.Join(loop, "a"),
		"long":                at(strings.Repeat("n", 300)),
		"long path":           at(strings.Repeat("/n23456789", 600)),
		"a loop two links up": filepath.Join(link(loop), "x/y"),
	} {
		t.Run(name, func(t *testing.T) {
			s := NewFile(dir)
			for _, call := range []string{"put", "if-match", "if-absent", "from"} {
				wait.Quickly(t, call, time.Second, func() {
					if err := everyCall(t, s)[call]; !Final(err) || Unreachable(err) || strings.Contains(err.Error(), "\n") {
						t.Errorf("%s: %v", call, err)
					}
				})
			}
		})
	}
}

// TestWhatPassesIsNotFinal: the same call may succeed a moment later.
func TestWhatPassesIsNotFinal(t *testing.T) {
	for _, err := range []error{nil, ErrAbsent, ErrExists, ErrChanged, context.Canceled, context.DeadlineExceeded, syscall.ENOSPC, syscall.EIO, syscall.EMFILE,
		syscall.ENOENT, &os.PathError{Op: "open", Path: "x", Err: syscall.ESTALE}, errors.Join(ErrSwapped, context.Canceled),
		failure("put", "x", 500), failure("put", "x", 503), failure("put", "x", 429),
		minio.ErrorResponse{StatusCode: 400, Code: "RequestTimeout"}, minio.ErrorResponse{StatusCode: 412, Code: minio.PreconditionFailed}} {
		if Final(err) || Unreachable(err) {
			t.Errorf("final: %v", err)
		}
	}
	for _, err := range []error{ErrUnconditional, ErrSwapped, ErrSpecial, ErrTooLarge, syscall.EROFS, syscall.ENAMETOOLONG, os.ErrPermission} {
		if !Final(fmt.Errorf("put o: %w", err)) {
			t.Errorf("passes: %v", err)
		}
	}
}
