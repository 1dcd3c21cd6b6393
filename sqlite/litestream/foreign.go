package litestream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/litestream/conf"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

const (
	// lookers is how many replicas are looked at together when the program starts, lookWait how long that may take for one of them.
	lookers  = 16
	lookWait = 10 * time.Second
)

// refuseForeign refuses replicas that Litestream wrote: there is no checksum in them by which it could be known that a database is theirs. The
// agent would say so again and again while nothing is stored. A store that does not answer is left to the agent.
func refuseForeign(ctx context.Context, all []conf.Database) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		found []error // guarded by mu
		room  = make(chan struct{}, lookers)
	)
	for _, d := range all {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			ctx, cancel := context.WithTimeout(ctx, lookWait)
			defer cancel()
			if foreign(ctx, d.Replica) {
				mu.Lock()
				defer mu.Unlock()
				found = append(found, fmt.Errorf("%s: Litestream wrote what is in %s; give this program another place, and keep that one until it is not needed",
					d.Path, d.Replica))
			}
		})
	}
	wg.Wait()
	if len(found) > 1 {
		return fmt.Errorf("%w (and %d more databases)", found[0], len(found)-1)
	}
	return errors.Join(found...)
}

// foreign reports whether a replica is certainly Litestream's.
func foreign(ctx context.Context, r conf.Replica) bool {
	store, err := openStore(r)
	if err != nil {
		return false // the agent's start says why
	}
	c, err := replica.New(store, replica.LayoutOf(r.String())).Read(ctx)
	return err == nil && c.Manifest == nil && !c.Head.Empty() && c.Head.Post == 0
}
