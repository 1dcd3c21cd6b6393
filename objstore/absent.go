package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// ErrExists: there is an object of that name already. Nothing was written by the call that says so, but perhaps by an earlier
// attempt of the same caller.
var ErrExists = errors.New("there is an object of that name already")

// ProbeAbsent finds out whether a store keeps the promise of PutIfAbsent, as Probe does for PutIfMatch. There are stores that know
// the one condition and not the other.
func ProbeAbsent(ctx context.Context, s Store) error {
	return probe(ctx, s, func(o Object) error {
		other := o
		other.Data = []byte("This object shows that the store takes no notice of conditions.\n")
		if err := s.PutIfAbsent(ctx, other); !errors.Is(err, ErrExists) {
			return unkept(err)
		}
		switch b, err := s.Get(ctx, o.Name); {
		case err != nil:
			return fmt.Errorf("read after a conditional upload: %w", err)
		case !bytes.Equal(b, o.Data): // it says that there is an object, and has replaced it all the same
			return ErrUnconditional
		}
		return nil
	})
}
