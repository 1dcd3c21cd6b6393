package node

import "context"

// Rest makes a member small that has nothing to do: what was committed is flushed, and whatever is in memory only to make the next work faster goes. It
// blocks until that is done. Members do this each for themselves. It is called beside the loop by one goroutine at a time, which the caller ends before
// it stops the node.
func (n *Node) Rest(ctx context.Context) error {
	if err := n.store.Flush(); err != nil {
		return err
	}
	if err := n.onLoop(ctx, n.applier.Rest); err != nil {
		return err
	}
	n.wal.Rest()
	n.store.Rest()
	return nil
}
