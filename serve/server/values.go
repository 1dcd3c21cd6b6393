package server

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfastdb/holdfast/serve/cli"
)

func setJoin(dst *string, v string) error {
	a, err := cli.Dialable(v)
	if err != nil {
		return err
	}
	*dst = a.String()
	return nil
}

// namedAddress is one entry of --peers.
type namedAddress struct {
	name string
	cli.Address
}

// parsePeers reads n1=host:port,n2=host:port,….
func parsePeers(v string) ([]namedAddress, error) {
	var out []namedAddress
	for item := range strings.SplitSeq(v, ",") {
		item = strings.TrimSpace(item)
		name, at, ok := strings.Cut(item, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not name=host:port; write n1=host:port,n2=host:port,n3=host:port", item)
		}
		a, err := cli.Dialable(at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", item, err)
		}
		for _, o := range out {
			if o.name == name {
				return nil, fmt.Errorf("%s is named twice; every member needs a name of its own", name)
			}
			if o.Address == a {
				return nil, fmt.Errorf("%s and %s have the same address; every member needs its own", o.name, name)
			}
		}
		out = append(out, namedAddress{name, a})
	}
	if len(out)%2 == 0 {
		return nil, fmt.Errorf("%d members survive no more failures than %d; name 1, 3 or 5", len(out), len(out)-1)
	}
	return out, nil
}

func peerNames(peers []namedAddress) []string {
	var out []string
	for _, p := range peers {
		out = append(out, p.name)
	}
	return out
}

func findPeer(peers []namedAddress, name string) (namedAddress, bool) {
	for _, p := range peers {
		if p.name == name {
			return p, true
		}
	}
	return namedAddress{}, false
}

// passwordInURL finds a password in a URL, which no flag of ours takes but people may write.
var passwordInURL = regexp.MustCompile(`(://[^/:@,]*):[^@]*@`)

// withoutPassword makes a setting fit to be printed: errors go to logs that many people read.
func withoutPassword(v string) string { return passwordInURL.ReplaceAllString(v, "$1:…@") }
