package saga

import (
	"cmp"
	"context"
	"strings"

	"github.com/holdfastdb/holdfast/cmd/holdfast/doors"
	doorsaga "github.com/holdfastdb/holdfast/door/saga"
	"github.com/holdfastdb/holdfast/entry"
	ekv "github.com/holdfastdb/holdfast/entry/kv"
)

// keys lets a submit change keys as who sends it may: by a token of the kv door in the field Kv-Authorization, or in Authorization. Nil: that
// door is off.
func keys(h *doors.Host) func(context.Context, *doorsaga.Caller, *ekv.Txn) ([]entry.Part, int, string) {
	if h.Keys == nil {
		return nil
	}
	return func(ctx context.Context, c *doorsaga.Caller, t *ekv.Txn) ([]entry.Part, int, string) {
		return h.Keys(ctx, strings.TrimPrefix(cmp.Or(c.KVAuthorization, c.Authorization), "Bearer "), t)
	}
}
