package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// MaxGet is how many bytes Get and GetVersion return at most: 64 MiB. A larger object is ErrTooLarge; Open reads it.
const MaxGet = 64 << 20

// ErrTooLarge: an object is larger than its reader takes. It was damaged, or others put it there.
var ErrTooLarge = errors.New("the object is larger than what belongs there")

// ErrSpecial: under an object's name in a directory lies a directory, a named pipe, a socket or a device.
var ErrSpecial = errors.New("no regular file; remove it, or move it out of the store")

func tooLarge(name string, most int64) error {
	return fmt.Errorf("get %s: %w: more than %d bytes", name, ErrTooLarge, most)
}

// GetMost is Get of an object of most bytes at most, or ErrTooLarge. It reads no more than one byte beyond them. A caller that knows how
// large an object can be keeps a damaged or a hostile store from filling its memory.
func GetMost(ctx context.Context, s Store, name string, most int64) ([]byte, error) {
	r, err := s.Open(ctx, name, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close() // nothing was written through it
	b, err := readMost(r, most)
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, tooLarge(name, most)
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", name, err)
	}
	return b, nil
}

// readMost reads r to its end, or ErrTooLarge.
func readMost(r io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		return nil, ErrTooLarge
	}
	return b, err
}
