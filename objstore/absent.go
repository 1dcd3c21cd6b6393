package objstore

import "errors"

// ErrExists: there is an object of that name already. Nothing was written by the call that says so, but perhaps by an earlier
// attempt of the same caller.
var ErrExists = errors.New("there is an object of that name already")
