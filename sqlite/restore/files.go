package restore

import (
	"context"

	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// Files returns the files that a restore of a state would read, from the one with the whole database on. It reads what the replica says of
// itself and makes nothing; the files themselves are not looked at but for the last. Its errors are Restore's.
func Files(ctx context.Context, r *replica.Replica, to Target) ([]replica.File, error) {
	j := &restore{r: r, how: &Options{Target: to, Note: func(string) {}}, bad: map[string]bool{}, absent: map[string]bool{}}
	var first error
	p, _, err := j.find(ctx, &first)
	if err != nil {
		return nil, err
	}
	return p.Files, nil
}
