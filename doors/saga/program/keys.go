package program

import (
	"cmp"
	"context"
	"strings"

	"github.com/holdfastdb/holdfast/core/entry"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	doorsaga "github.com/holdfastdb/holdfast/doors/saga"
	"github.com/holdfastdb/holdfast/serve"
)

// keys lets a submit change keys as who sends it may: by a token of the kv door in the field Kv-Authorization, or in Authorization. Nil: that
// door is off.
func keys(h *serve.Host) func(context.Context, *doorsaga.Caller, *kvpart.Txn) ([]entry.Part, int, string) {
	beside := serve.Offered[kvpart.Beside](h)
	if beside == nil {
		return nil
	}
	return func(ctx context.Context, c *doorsaga.Caller, t *kvpart.Txn) ([]entry.Part, int, string) {
		return beside(ctx, strings.TrimPrefix(cmp.Or(c.KVAuthorization, c.Authorization), "Bearer "), t)
	}
}
