package part

import (
	"context"

	"github.com/holdfastdb/holdfast/core/entry"
)

// Beside makes the parts of a change of keys that another door commits in one command with its own. The kv door's program offers it to the
// doors behind it (serve.Host.Offer); Door.Beside there has its contract. Safe for concurrent use.
type Beside func(ctx context.Context, token string, t *Txn) (parts []entry.Part, code int, text string)
