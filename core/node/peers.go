package node

import (
	"maps"
	"net/url"
	"strings"
)

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
func peerURLs(addr string) []string { return (&Config{}).peerURLs(addr) }

// peerURLs has the scheme of this configuration's connections where an address has none.
func (cfg *Config) peerURLs(addr string) []string {
	if addr == "" {
		return nil
	}
	scheme := "http://"
	if cfg.encrypted {
		scheme = "https://"
	}
	var urls []string
	for _, a := range strings.Split(addr, ",") {
		if !strings.Contains(a, "://") {
			a = scheme + a
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
