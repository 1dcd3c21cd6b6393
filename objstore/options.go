package objstore

import (
	"fmt"
	"io/fs"
	"net/url"
	"strconv"
	"strings"

	"github.com/holdfastdb/holdfast/core/disk"
)

// Option says how a directory is used as a store. A bucket takes none of them: access to it is set at the bucket.
type Option func(*File)

// WithMode sets the permissions of new objects, of which the umask takes its part. Directories get the x bit wherever mode has an r bit.
// Without it they are 0600 and 0700. ?mode= on a URL goes before it.
func WithMode(mode fs.FileMode) Option { return func(s *File) { s.mode = mode } }

// OnDisk has the store's files on another file system, for tests that cut its power.
func OnDisk(f disk.FS) Option { return func(s *File) { s.fs = f } }

// MustExist keeps the store from making its directory: without one every call ends with ErrSwapped. It is for a caller that knows that the
// store was used before. A missing directory is then an unmounted disk and not a new store.
func MustExist() Option { return func(s *File) { s.mustExist = true } }

// ExactMode is WithMode of permissions that a person wrote down: the umask takes nothing of them.
func ExactMode(mode fs.FileMode) Option {
	return func(s *File) { s.mode, s.exact = mode, true }
}

// Below is the URL of a store below the one that a URL names: url/name, with url's query.
func Below(url, name string) string {
	at, settings, any := strings.Cut(url, "?")
	if at = strings.TrimSuffix(at, "/") + "/" + name; any {
		at += "?" + settings
	}
	return at
}

// fileOptions reads what a file:// URL says behind its question mark: mode=0644, in octal.
func fileOptions(u *url.URL) (opts []Option, err error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u, err)
	}
	for key, values := range q {
		if key != "mode" || len(values) != 1 {
			return nil, fmt.Errorf("%s: %s is no setting of a directory; the only one is ?mode=0644", u, key)
		}
		mode, err := ParseMode(values[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", u, err)
		}
		opts = append(opts, ExactMode(mode))
	}
	return opts, nil
}

// ParseMode reads the permissions of objects in octal, as 0640. The owner must be able to read and write them, and x has no meaning.
func ParseMode(text string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(text, 8, 16)
	if err != nil || n&^0o666 != 0 || n&0o600 != 0o600 {
		return 0, fmt.Errorf("mode %q: write 0600, 0640, 0644 or 0660", text)
	}
	return fs.FileMode(n), nil
}

// dirMode is the mode of directories whose files have a mode.
func dirMode(mode fs.FileMode) fs.FileMode { return mode | mode&0o444>>2 }
