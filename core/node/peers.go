package node

import (
	"maps"
	"net/url"
	"strings"
)

// syncPeers gives the network the present members and their addresses. Loop only.
func (n *Node) syncPeers() {
	for _, m := range n.members.List() {
		n.connect(m.ID, m.PeerURLs)
	}
	// All that ever were removed, not only those of this change: one of them may not know it yet, and hears it from whoever refuses it.
	for _, id := range n.members.AllRemoved() {
		n.net.RemovePeer(id)
		delete(n.peered, id)
	}
}

func (n *Node) connect(id uint64, urls []string) {
	if id == n.id || len(urls) == 0 {
		return
	}
	n.peered[id] = struct{}{}
	if _, ok := n.members.Get(id); !ok {
		n.pending.add(id)
	}
	n.net.SetPeer(id, dialable(urls))
}

// dialable turns the peer URLs of one member into what the network dials.
func dialable(urls []string) string {
	var all []string
	for _, u := range urls {
		all = append(all, HostPort(u))
	}
	return strings.Join(all, ",")
}

// HostPort turns a peer URL into an address to dial: host:port without the scheme, or unix:PATH.
func HostPort(peerURL string) string {
	u, err := url.Parse(peerURL)
	switch {
	case err == nil && (u.Scheme == "unix" || u.Scheme == "unixs"):
		return "unix:" + u.Host + u.Path
	case err == nil && u.Host != "":
		return u.Host
	}
	return strings.TrimPrefix(peerURL, "//")
}

// peerURLs turns an address as StartOptions has it into the URLs of the member list.
func peerURLs(addr string) []string {
	if addr == "" {
		return nil
	}
	var urls []string
	for _, a := range strings.Split(addr, ",") {
		if !strings.Contains(a, "://") {
			a = "http://" + a
		}
		urls = append(urls, a)
	}
	return urls
}

// publishProgress refreshes the leader's view of the others for status and promotion. Loop only.
func (n *Node) publishProgress() {
	pr := n.rep.Progress()
	if pr == nil && n.pub.Load().progress == nil {
		return
	}
	p := *n.pub.Load()
	p.progress, p.latency = pr, make(map[uint64]Latency, len(pr))
	for i := range pr {
		if l := n.latency[pr[i].ID]; l != nil {
			p.latency[pr[i].ID] = *l
		}
	}
	if len(n.latency) > len(p.latency) && pr != nil { // a member has gone
		maps.DeleteFunc(n.latency, func(id uint64, _ *Latency) bool { _, there := p.latency[id]; return !there })
	}
	n.pub.Store(&p)
}
