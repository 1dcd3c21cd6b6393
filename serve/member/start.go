package member

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/serve/admin"
)

// refuseClientAddress refuses the address of a member to come if a member answers clients or operators there: --peer is a port of its own.
// admin is the address of the port that was asked.
func refuseClientAddress(peer, admin string, all []admin.MemberStatus) error {
	const next = "give the --peer address of the member to come, a port of its own, such as 2380"
	if peer == admin {
		return fmt.Errorf("that is the --admin address of a member that runs; %s", next)
	}
	for _, m := range all {
		if slices.ContainsFunc(m.Client, func(url string) bool { return hosts([]string{url}) == peer }) {
			return fmt.Errorf("that is where %s answers clients; %s", dash(m.Name), next)
		}
	}
	return nil
}

// howToStart is what to run on the machine of an added member. doors are the names of this build's.
func howToStart(added *admin.MemberStatus, peer string, all []admin.MemberStatus, doors []string) string {
	join := "HOST:PORT" // of a member that runs
	through := through(added.ID, all)
	if through != nil {
		join = hosts(through.Peer[:1])
	}
	text := fmt.Sprintf("member %s added; start it:\n  holdfast serve --data DIR --name NAME --peer %s --join %s\n", added.ID, peer, join)
	host := hostOf(peer)
	if through != nil && isLoopback(hostOf(join)) && !isLoopback(host) {
		text += fmt.Sprintf("%s reaches others on its own machine only: start %s with a --peer address that %s can dial, and give that to --join\n",
			join, dash(through.Name), host)
	}
	for _, m := range all {
		if m.ID != added.ID && len(m.Peer) > 0 && hostOf(hosts(m.Peer[:1])) == host {
			text += fmt.Sprintf("%s runs on that machine too: give --%s and --admin ports of their own, or name the doors it shall have\n",
				dash(m.Name), strings.Join(doors, ", --"))
			break
		}
	}
	return text
}

// through is the member to join by: the leader, else one that is connected, else one that was started; nil if none can be dialled.
func through(added string, all []admin.MemberStatus) (best *admin.MemberStatus) {
	rank := func(m *admin.MemberStatus) int {
		switch {
		case m.ID == added || m.Role == "not started" || len(m.Peer) == 0:
			return 0
		case m.Role == "leader":
			return 3
		case m.State == "ok":
			return 2
		}
		return 1
	}
	for i := range all {
		if r := rank(&all[i]); r > 0 && (best == nil || r > rank(best)) {
			best = &all[i]
		}
	}
	return best
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return strings.ToLower(host)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
