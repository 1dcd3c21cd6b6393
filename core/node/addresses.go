package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/core/raft"
)

// addresses is where the other members may be beside what the applied log says. An address that is wrong costs a dial: the member that answers
// there says another id. Loop only.
type addresses struct {
	given    map[string]string // StartOptions.Peers: name → address
	override map[uint64]override
	ahead    map[uint64]string // of the log's end, which is not known to be committed
	aheadTo  uint64            // the last index that ahead was read from
	told     map[uint64]string // members' own addresses (frameReachMe)
}

// override is an address that the operator gave in place of the log's. It goes first until the log has another one than it had.
type override struct{ addr, was string }

// of returns where to dial a member that has name and addr in the log, and where else.
func (a *addresses) of(id uint64, name, addr string, unique bool) (first string, also []string) {
	if told := a.told[id]; told != "" {
		also = append(also, told)
	}
	if ahead := a.ahead[id]; ahead != "" {
		also = append(also, strings.Split(ahead, ",")...)
	}
	if given := a.given[name]; given != "" && unique {
		also = append(also, strings.Split(given, ",")...)
	}
	first = addr
	if o, ok := a.override[id]; ok {
		if o.was == addr {
			first, also = o.addr, append(also, strings.Split(addr, ",")...)
		} else {
			also = append(also, strings.Split(o.addr, ",")...)
		}
	}
	if first == "" && len(also) > 0 {
		first, also = also[0], also[1:]
	}
	return first, also
}

// prepareAddresses takes over the addresses given at the start, and reads the end of the log. Loop only, before
// syncPeers.
func (n *Node) prepareAddresses() error {
	n.told = map[uint64]string{}
	n.given = map[string]string{}
	for name, addr := range n.cfg.peers {
		n.given[name] = dialable(peerURLs(addr))
	}
	n.override = map[uint64]override{}
	for id, addr := range n.cfg.override {
		m, known := n.members.Get(id)
		if !known && n.identity.Peers[id] == "" {
			n.log.Warn("an address was given for somebody who is no member here; it is not used", "id", fmt.Sprintf("%x", id), "addr", addr,
				"members", n.listed())
		}
		n.override[id] = override{dialable(peerURLs(addr)), dialable(m.PeerURLs)}
	}
	return n.readAhead()
}

// listed names the members as operators know them.
func (n *Node) listed() string {
	var all []string
	for _, m := range n.members.List() {
		all = append(all, fmt.Sprintf("%s=%x", m.Name, m.ID))
	}
	return strings.Join(all, ",")
}

// readAhead looks for addresses in the entries behind the commit index that this member knew when it ended. Members that all moved at once may
// know of it there alone, and learn that it is committed only once they have found each other.
func (n *Node) readAhead() error {
	const step = 1 << 20
	n.ahead = map[uint64]string{}
	last := n.wal.LastIndex()
	for i := max(n.wal.HardState().Commit, n.appliedIdx, n.wal.FirstIndex()-1) + 1; i <= last; {
		entries, err := n.wal.Entries(i, last+1, step)
		if err != nil {
			return fmt.Errorf("read the log from entry %d for addresses of members: %w", i, err)
		}
		for j := range entries {
			n.noteAddresses(entries[j].Type, entries[j].Data)
		}
		i += uint64(len(entries))
	}
	n.aheadTo = last
	return nil
}

// noteAddresses keeps the addresses that an entry gives to members. An entry that cannot be read gives none; Apply
// reports the fault.
func (n *Node) noteAddresses(typ uint8, data []byte) {
	change, err := raft.DecodeChange(typ, data)
	if change != nil {
		data = change.Context
	}
	if err != nil || len(data) == 0 {
		return
	}
	_, rest, err := entry.DecodeHeader(data)
	for err == nil && len(rest) > 0 {
		var cmd []byte
		if cmd, rest, err = entry.Next(rest); err != nil {
			return
		}
		var c entry.Command
		if err = c.Decode(cmd); err != nil {
			return
		}
		for _, part := range c.Parts {
			if part.Machine != entry.MachineMember {
				continue
			}
			switch p, err := emember.DecodePart(part.Body); {
			case err != nil:
			case p.SetPeers != nil:
				n.ahead[p.SetPeers.ID] = dialable(p.SetPeers.PeerURLs)
			case p.Add != nil:
				n.ahead[p.Add.Member.ID] = dialable(p.Add.Member.PeerURLs)
			}
		}
	}
}

// ownAddress is where this member is to be dialled, as its start or else the log says; "": nowhere.
func (n *Node) ownAddress() string {
	if n.identity.PeerAddr != "" {
		return dialable(peerURLs(n.identity.PeerAddr))
	}
	m, _ := n.members.Get(n.id)
	return dialable(m.PeerURLs)
}

// tellAddress tells a member where this one is. The other member may have an older log, and would answer at an address
// that this member has left. Loop only.
func (n *Node) tellAddress(to uint64) {
	if at, _, _ := strings.Cut(n.ownAddress(), ","); at != "" {
		n.net.Send(to, peer.ChannelForward, append([]byte{frameReachMe}, at...))
	}
}

// maxAddress bounds the address that a member tells of itself.
const maxAddress = 512

// introduced learns where another member says it is. If the log here does not know that member yet, this is its only
// address. Otherwise it is dialled where the log's address does not answer. The network has checked that the sender
// belongs to this cluster. Loop only.
func (n *Node) introduced(from uint64, addr []byte) {
	if from == n.id || n.members.Removed(from) || len(addr) == 0 || len(addr) > maxAddress {
		return
	}
	m, known := n.members.Get(from)
	if !known && !n.pending.has(from) && n.pending.full() {
		return
	}
	n.told[from] = HostPort(string(addr))
	n.connect(from, m.PeerURLs)
}

// syncPeers gives the network the present members and their addresses. Loop only.
func (n *Node) syncPeers() {
	n.heardOf = n.members.Changes()
	if n.appliedIdx >= n.aheadTo {
		clear(n.ahead)
	}
	for _, m := range n.members.List() {
		n.connect(m.ID, m.PeerURLs)
	}
	// All members that were ever removed, not only those of this change. A removed member may not know of its removal
	// yet, and hears it from the member that refuses it.
	for _, id := range n.members.AllRemoved() {
		n.net.RemovePeer(id)
		delete(n.peered, id)
		delete(n.told, id)
	}
}

// connect tells the network where a member is, or may be. Loop only.
func (n *Node) connect(id uint64, urls []string) {
	if id == n.id {
		return
	}
	m, known := n.members.Get(id)
	addr, also := n.addresses.of(id, m.Name, dialable(urls), m.Name != "" && n.named(m.Name) == 1)
	if addr == "" {
		return
	}
	n.peered[id] = struct{}{}
	if !known {
		n.pending.add(id)
	}
	n.net.SetPeer(id, addr, also...)
}

// named counts the members with a name, which is a label.
func (n *Node) named(name string) (count int) {
	for _, m := range n.members.List() {
		if m.Name == name {
			count++
		}
	}
	return count
}

// connectJoined gives the network the members that this one was told of when it joined and that the log here does not have yet. In a fixed
// order, so that a simulated run repeats. Loop only.
func (n *Node) connectJoined() {
	for _, id := range slices.Sorted(maps.Keys(n.identity.Peers)) {
		if _, known := n.members.Get(id); !known && !n.members.Removed(id) {
			n.connect(id, []string{n.identity.Peers[id]})
		}
	}
}
