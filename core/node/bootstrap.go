package node

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	emember "github.com/holdfastdb/holdfast/core/entry/member"
)

// bootstrap agrees with all listed members on the first state. Ids are made and stored before any other member hears
// them, and the cluster id is a hash of them. So members that decide separately decide the same. A late member finds
// itself in the answer of one that has decided. A member that lost its disk in between has another id, and is refused.
func bootstrap(ctx context.Context, cfg *Config, net Transport, ident *Identity, opt *StartOptions) error {
	if opt.Peers[opt.Name] == "" {
		return fmt.Errorf("--peers does not name this member %q: it lists %s", opt.Name, strings.Join(slices.Sorted(maps.Keys(opt.Peers)), ", "))
	}
	known := map[string]*helloAnswer{opt.Name: {Name: opt.Name, Member: ident.Member}}
	told := time.Duration(0)
	for {
		var missing []string
		for _, name := range slices.Sorted(maps.Keys(opt.Peers)) { // a simulated run must repeat
			addr := opt.Peers[name]
			if name == opt.Name {
				continue
			}
			a, err := askAny[helloAnswer](ctx, net, addr, &question{Kind: "hello", Name: opt.Name, PeerAddr: ident.PeerAddr})
			if err != nil {
				missing = append(missing, fmt.Sprintf("%s (%s: %s)", name, addr, reason(err, addr)))
				continue
			}
			if a.Name != name {
				return fmt.Errorf("%s calls itself %q, but --peers calls it %q", addr, a.Name, name)
			}
			if a.Cluster != 0 {
				if slices.ContainsFunc(a.Members, func(m emember.Member) bool { return m.ID == ident.Member }) {
					return late(cfg, ident, a)
				}
				return wasMember(a, opt, ident, addr)
			}
			if !maps.Equal(a.Peers, opt.Peers) {
				return fmt.Errorf("member %s was started with another --peers list than this one", name)
			}
			if a.Token != opt.Token {
				return fmt.Errorf("member %s was started with another cluster token than this one", name)
			}
			known[name] = a
		}
		if len(known) == len(opt.Peers) && len(missing) == 0 {
			var members []emember.Member
			for name, a := range known {
				members = append(members, emember.Member{ID: a.Member, Name: name, PeerURLs: cfg.peerURLs(opt.Peers[name])})
			}
			slices.SortFunc(members, func(a, b emember.Member) int { return strings.Compare(a.Name, b.Name) })
			return initialise(cfg, ident, clusterID(members), members)
		}
		if now := cfg.Clock.Mono(); told == 0 || now-told > 5*time.Second {
			told = max(now, 1)
			slices.Sort(missing)
			opt.Notify("waiting for " + strings.Join(missing, ", ") + " to bootstrap the cluster")
		}
		if cfg.Tasks.Wait(askAgain, ctx.Done()) == 0 {
			return ctx.Err()
		}
	}
}

// late starts one of the first members after its cluster has begun without it. The answer has the cluster's present members. If
// they are still the first ones, which the cluster's id shows, this member writes the same first state as the others did. If
// not, its first state would differ from theirs, with other voters: so it begins empty and gets the state from them.
func late(cfg *Config, ident *Identity, a *helloAnswer) error {
	var first []emember.Member
	peers := map[uint64]string{}
	for _, m := range a.Members {
		first = append(first, emember.Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs})
		if m.ID != ident.Member && len(m.PeerURLs) > 0 {
			peers[m.ID] = dialable(m.PeerURLs)
		}
	}
	slices.SortFunc(first, func(a, b emember.Member) int { return strings.Compare(a.Name, b.Name) })
	if clusterID(first) != a.Cluster {
		ident.Peers, first = peers, nil
	}
	return initialise(cfg, ident, a.Cluster, first)
}

// askAgain is the time between two rounds of questions to those that begin a cluster together. They are started one after the
// other, by a person or a script.
const askAgain = 50 * time.Millisecond

func clusterID(members []emember.Member) uint64 {
	h := sha256.New()
	for _, m := range members {
		fmt.Fprintf(h, "%s %d %s\n", m.Name, m.ID, strings.Join(m.PeerURLs, ","))
	}
	return binary.LittleEndian.Uint64(h.Sum(nil))>>2 | 1
}

// wasMember says what to do with an empty directory whose cluster exists already.
func wasMember(a *helloAnswer, opt *StartOptions, ident *Identity, asked string) error {
	for _, m := range a.Members {
		if m.Name == opt.Name || sharesURL(m.PeerURLs, ident.PeerAddr) {
			return fmt.Errorf("the cluster %x exists and knows %s as member %x, but this data directory is empty: a member that lost its "+
				"disk may not come back under its old id; run `holdfast member remove %x` against the others, then start this one with --join %s",
				a.Cluster, opt.Name, m.ID, m.ID, firstAddr(a.Members, m.ID))
		}
	}
	return fmt.Errorf("the cluster %x was bootstrapped without %s: start it with --join %s instead of --peers", a.Cluster, opt.Name, HostPort(peerURLs(asked)[0]))
}

func firstAddr(ms []emember.Member, not uint64) string {
	for _, m := range ms {
		if m.ID != not && len(m.PeerURLs) > 0 {
			return HostPort(m.PeerURLs[0])
		}
	}
	return "HOST:PORT"
}

// sharesURL reports whether one of a member's URLs leads to the same place as one of addr's.
func sharesURL(urls []string, addr string) bool {
	return slices.ContainsFunc(peerURLs(addr), func(u string) bool {
		return slices.ContainsFunc(urls, func(o string) bool { return HostPort(o) == HostPort(u) })
	})
}
