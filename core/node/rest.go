package node

import "context"

// Rest makes an idle member small: it flushes the committed entries and frees memory that only makes the next work faster. It blocks until
// that is done. Members do this each for themselves. It is called beside the loop by one goroutine at a time, which the caller ends before
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
