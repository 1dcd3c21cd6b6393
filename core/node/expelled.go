package node

// Expelled implements peer.Handler: another member refuses this one, because it was removed from the cluster. The last message of the leader, which
// would have told it, can be lost: the leader cuts it off as soon as the change is applied. Without this it would ask for votes that nobody gives, for
// ever, and an operator would wait for a process that does not end.
//
// A removal that one member knows is committed, so one voice is enough. Yet a member that follows somebody else does not believe it: it hears of
// its removal from the log, and after a cluster was made anew out of one member's data (force-new-cluster) that member says so of all others, who
// may have a leader and be right.
func (n *Node) Expelled(by uint64) {
	n.later(func() error {
		if leader, _, _ := n.rep.Election(); leader != 0 && leader != by || n.cfg.stopped {
			return nil
		}
		return removedErr(n.id)
	})
}
