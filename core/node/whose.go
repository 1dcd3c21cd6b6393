package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/peer"
)

// others lists the other members as far as the store has them.
func (n *Node) others() []emember.Member {
	return slices.DeleteFunc(n.members.List(), func(m emember.Member) bool { return m.ID == n.id })
}

// refuseSwapped refuses a data directory under the name or at the address of another member, and says what else does not go together. The state
// is loaded and nothing has been changed.
func (n *Node) refuseSwapped(opt *StartOptions) error {
	mine := n.identity.Name
	named := opt.NameGiven && opt.Name != mine
	for _, m := range n.others() {
		at := dialable(m.PeerURLs)
		switch {
		case named && m.Name == opt.Name:
			return fmt.Errorf("%s is the data directory of member %s (%x), and this start names member %s (%x at %s): the directories are swapped; "+
				"start each member with its own", n.cfg.Dir, mine, n.id, m.Name, m.ID, at)
		case (named || !opt.NameGiven) && opt.Peers[mine] == "" && m.Name != "" && opt.PeerAddr != "" && sharesURL(m.PeerURLs, opt.PeerAddr):
			return fmt.Errorf("%s is the data directory of member %s (%x), and %s is the address of member %s (%x): the directories are swapped; "+
				"start each member with its own, or name this one if it moves there (--name %s)", n.cfg.Dir, mine, n.id, at, m.Name, m.ID, mine)
		case sharesURL(m.PeerURLs, opt.PeerAddr):
			n.log.Warn("another member has this one's address in the log; the log has the new one once that member has moved", "addr", at,
				"of", fmt.Sprintf("%s (%x)", m.Name, m.ID))
		}
	}
	if named {
		n.log.Warn("the data directory is of a member with another name, which stays", "dir", n.cfg.Dir, "name", mine, "given", opt.Name)
	}
	if me, ok := n.members.Get(n.id); ok && opt.KeepPeerURLs && len(me.PeerURLs) > 0 && opt.PeerAddr != "" && len(n.others()) > 0 &&
		!sharesURL(me.PeerURLs, opt.PeerAddr) {
		n.log.Warn("this member advertises another address than it has in the log, where the others dial it; change the log (etcdctl member update)",
			"advertised", dialable(peerURLs(opt.PeerAddr)), "log", dialable(me.PeerURLs), "id", fmt.Sprintf("%x", n.id))
	}
	return nil
}

// refuseCopy asks whether another process runs as this member. It asks at the address where the others reach this member, if that is not
// where it listens. This process does not answer yet.
func refuseCopy(ctx context.Context, net Transport, ident *Identity, opt *StartOptions) error {
	if net == nil || ident.Cluster == 0 || len(opt.PeerListen) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, copyPatience)
	defer cancel()
	for _, u := range peerURLs(opt.PeerAddr) {
		if slices.Contains(opt.PeerListen, HostPort(u)) {
			continue
		}
		a, err := ask[helloAnswer](ctx, net, HostPort(u), &question{Kind: "hello", Name: ident.Name, PeerAddr: opt.PeerAddr})
		if err == nil && a.Cluster == ident.Cluster && a.Member == ident.Member {
			return fmt.Errorf("a process at %s, which is this member's address for others, runs as the same member (%s, %x): one of the two data "+
				"directories is a copy, and two processes with one identity lose writes; stop one, and begin its directory anew", HostPort(u), ident.Name, ident.Member)
		}
	}
	return nil
}

// copyPatience bounds how long a start looks for a copy of its member. A relay that leads here does not answer.
const copyPatience = 500 * time.Millisecond

// listenAnyway makes one member of several listen for the others although the start named no address. Otherwise it would be cut off without
// a message.
func (n *Node) listenAnyway(net *peer.TCP, opt *StartOptions) error {
	others := n.others()
	if len(others) == 0 {
		return nil
	}
	me, _ := n.members.Get(n.id)
	at := dialable(me.PeerURLs)
	if len(n.identity.PeerAddr) > 0 && at == "" {
		at = dialable(peerURLs(n.identity.PeerAddr))
	}
	refused := func(why error) error {
		give := at
		if give == "" {
			give = "HOST:PORT"
		}
		return fmt.Errorf("%s (%x) is one of %d members, and --peer is off: %w; give --peer %s, where the others reach it", n.identity.Name, n.id,
			len(others)+1, why, give)
	}
	if at == "" {
		return refused(fmt.Errorf("the log has no address for it"))
	}
	if opt.MayListen != nil {
		if err := opt.MayListen(at); err != nil {
			return refused(err)
		}
	}
	if err := net.Listen(strings.Split(at, ",")...); err != nil {
		return refused(err)
	}
	n.log.Warn("this member is one of several and was given no --peer: it listens for the others at its address in the log", "addr", at)
	return nil
}
