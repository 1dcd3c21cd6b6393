package node

// Expelled implements peer.Handler: another member refuses this one, because it was removed from the cluster. The leader cuts a removed
// member off as soon as the change is applied, so its last message may be lost. Without this call the member would ask for votes in vain
// for ever, and an operator would wait for a process that does not end.
//
// A removal that one member knows is committed, so one voice is enough. A member that follows another leader does not believe the refusal:
// it hears of its removal from the log. A cluster made anew from one member's data (force-new-cluster) refuses all other members, who may
// have a leader and be right.
func (n *Node) Expelled(by uint64) {
	n.later(func() error {
		if leader, _, _ := n.rep.Election(); leader != 0 && leader != by || n.cfg.stopped {
			return nil
		}
		return removedErr(n.id)
	})
}
