package node

import "github.com/holdfastdb/holdfast/internal/budget"

// enterShares tells the ledger who holds the core's claims. The store's cache is the largest lender of all.
func (n *Node) enterShares() {
	n.cfg.shares.HoldIdents(func() int64 { return n.users.State().Bytes() })
	n.cfg.shares.Ledger.Hold("cache", budget.Holder{Bound: n.store.BoundCache, Held: func() int64 {
		m := n.store.Metrics()
		return m.CacheBytes + m.MemtableBytes
	}})
}
