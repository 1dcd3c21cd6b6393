package member

import (
	"fmt"
	"strings"
)

// Describe prints an encoded part on one line: "member.promote 2a".
func Describe(body []byte) string {
	p, err := DecodePart(body)
	if err != nil {
		return "member: " + err.Error()
	}
	switch {
	case p.Add != nil:
		return fmt.Sprintf("member.add %x name=%s peer=%s", p.Add.Member.ID, dash(p.Add.Member.Name), Hosts(p.Add.Member.PeerURLs))
	case p.Remove != nil:
		return fmt.Sprintf("member.remove %x", p.Remove.ID)
	case p.Promote != nil:
		return fmt.Sprintf("member.promote %x", p.Promote.ID)
	case p.Publish != nil:
		return fmt.Sprintf("member.publish %x name=%s client=%s", p.Publish.ID, dash(p.Publish.Name), Hosts(p.Publish.ClientURLs))
	case p.Claim != nil:
		return fmt.Sprintf("member.claim %x name=%s", p.Claim.ID, dash(p.Claim.Name))
	case p.SetPeers != nil:
		return fmt.Sprintf("member.set-peers %x peer=%s", p.SetPeers.ID, Hosts(p.SetPeers.PeerURLs))
	case p.RaiseLevel != nil:
		return fmt.Sprintf("member.raise-level %d", p.RaiseLevel.Level)
	}
	return "member: nothing"
}

// Hosts prints URLs without their scheme, with commas between, "-" for none.
func Hosts(urls []string) string {
	var out []string
	for _, u := range urls {
		_, host, _ := strings.Cut(u, "://")
		out = append(out, host)
	}
	return dash(strings.Join(out, ","))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
