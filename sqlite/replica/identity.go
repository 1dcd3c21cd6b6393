package replica

import (
	"context"
	"errors"

	"github.com/holdfastdb/holdfast/objstore"
)

// IdentityName is the name of the replica's identity object (docs/formats/identity.md) below its prefix, in both layouts.
const IdentityName = "holdfast/identity"

// Identity tells this replica from every other one, also from a later one at the same place. "": it has none, and make is not set. With make
// it gets one then.
func (r *Replica) Identity(ctx context.Context, make bool) (string, error) {
	id, err := objstore.Identity(ctx, r.store, IdentityName, make)
	if !make && errors.Is(err, objstore.ErrAbsent) {
		return "", nil
	}
	return id, err
}
