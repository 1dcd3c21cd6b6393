package objstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"syscall"

	"github.com/minio/minio-go/v7"
)

// ErrSwapped: the directory of a file:// store is missing, or its path leads to another directory than before. A disk was unmounted, or
// another one mounted. Nothing that the call wrote may count as stored. The directory is not made again.
var ErrSwapped = errors.New("the store's directory is gone or is another one than before; mount its disk again")

// lasting marks an error that repeats until a person changes something.
type lasting struct{ error }

func (l lasting) Unwrap() error { return l.error }

// finalErrnos are the answers of a file system that a later attempt gets as well: the path or the permissions are wrong. A full disk,
// a lack of descriptors and an I/O error are not among them.
var finalErrnos = []syscall.Errno{syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP,
	syscall.ENAMETOOLONG, syscall.ENXIO, syscall.ENODEV}

// finalCodes are S3's names for errors that a later attempt gets as well. RequestTimeTooSkewed is not among them: clocks are set while a
// machine starts.
var finalCodes = []string{minio.NoSuchBucket, minio.InvalidBucketName, minio.AccessDenied, "AllAccessDisabled", "AccountProblem",
	"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidSecurity", "InvalidToken", "ExpiredToken", "ExpiredTokenException",
	"UnrecognizedClientException", "NotSignedUp", "InvalidRegion", "AuthorizationHeaderMalformed", "PermanentRedirect",
	"IllegalLocationConstraintException", "MethodNotAllowed", "NotImplemented", "EntityTooLarge", "KeyTooLongError", "InvalidObjectName"}

// finalStatuses are answers whose code is not known, or is missing.
var finalStatuses = []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented}

// Final reports whether every later attempt fails as well until a person changes something. Such errors are a missing bucket, refused or
// missing credentials, no permission, a read-only or dangling directory, a name too long, and an untrusted certificate. They are also
// ErrUnconditional, ErrSwapped, ErrSpecial and ErrTooLarge. A caller that runs for long may still ask again, a minute later: a person may
// have mended it. ErrAbsent, ErrExists, ErrChanged and the end of a context are no such errors.
func Final(err error) bool {
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return false
	case errors.As(err, new(lasting)), errors.Is(err, ErrUnconditional), errors.Is(err, ErrSwapped), errors.Is(err, ErrSpecial),
		errors.Is(err, ErrTooLarge), errors.Is(err, fs.ErrPermission):
		return true
	case slices.ContainsFunc(finalErrnos, func(e syscall.Errno) bool { return errors.Is(err, e) }):
		return true
	}
	if r := (minio.ErrorResponse{}); errors.As(err, &r) {
		return slices.Contains(finalCodes, r.Code) || r.Code != "RequestTimeTooSkewed" && slices.Contains(finalStatuses, r.StatusCode)
	}
	return untrusted(err) || errors.Is(err, http.ErrSchemeMismatch)
}

// untrusted reports whether TLS failed because of the certificates or settings of the two sides.
func untrusted(err error) bool {
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(x509.UnknownAuthorityError)) ||
		errors.As(err, new(x509.HostnameError)) || errors.As(err, new(x509.CertificateInvalidError)) ||
		errors.As(err, new(tls.RecordHeaderError)) || errors.As(err, new(tls.AlertError))
}

// Unreachable reports whether there is no way to the store's host: its name is unknown, its port refuses, or no connection is made in time.
// An agent that runs waits for it to pass; a command that ends says so and ends.
func Unreachable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	return errors.As(err, new(*net.DNSError)) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETUNREACH)
}

// advise is err, marked as final where its kind alone does not show it, with what to do about it.
func (s *S3) advise(err error) error {
	todo := ""
	switch r := (minio.ErrorResponse{}); {
	case errors.As(err, &r):
		todo = s.remedy(r)
	case untrusted(err):
		todo = "the server's certificate is not trusted here, or it speaks no TLS: see the endpoint's https://"
	case errors.Is(err, http.ErrSchemeMismatch):
		todo = "the server speaks no TLS: write the endpoint as http://"
	case Unreachable(err):
		todo = "nobody answers at " + s.client.EndpointURL().Host + ": see the endpoint, and whether the server runs"
	}
	if todo == "" {
		return err
	}
	return advised{err, todo}
}

// advised is an error with what to do about it.
type advised struct {
	error
	todo string
}

func (a advised) Error() string { return a.error.Error() + "; " + a.todo }
func (a advised) Unwrap() error { return a.error }

// remedy is a person's remedy for an answer of S3, "" if there is none.
func (s *S3) remedy(r minio.ErrorResponse) string {
	at := s.client.EndpointURL().Host
	switch r.Code {
	case minio.NoSuchBucket:
		return "make the bucket " + s.bucket + " at " + at + ", or correct its name"
	case minio.AccessDenied, "AllAccessDisabled", "AccountProblem":
		return "give these credentials the right to read, write, list and delete in the bucket " + s.bucket
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "ExpiredTokenException", "UnrecognizedClientException":
		return "correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
	case "RequestTimeTooSkewed":
		return "set this machine's clock"
	case "InvalidRegion", "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException":
		return s.otherRegion(r)
	}
	switch r.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return s.otherRegion(r)
	case http.StatusUnauthorized, http.StatusForbidden:
		return "correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what they may do in the bucket " + s.bucket
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return at + " does not know this request of S3: see the endpoint"
	}
	return ""
}

func (s *S3) otherRegion(r minio.ErrorResponse) string {
	if r.Region != "" {
		return "the bucket " + s.bucket + " is in the region " + r.Region + ": set AWS_REGION to it"
	}
	return "the bucket " + s.bucket + " is in another region: set AWS_REGION to it"
}

// failed is the error of a request. There is no object to be missing where one is put: then the server has no such bucket, or is no S3.
func (s *S3) failed(verb, name string, err error) error {
	r := minio.ErrorResponse{}
	if verb == "put" && errors.As(err, &r) && r.Code == minio.NoSuchKey {
		err = advised{lasting{err}, "the server at " + s.client.EndpointURL().Host + " has no bucket " + s.bucket + ", or is no S3"}
	}
	return fmt.Errorf("%s %s: %w", verb, name, s.advise(err))
}
