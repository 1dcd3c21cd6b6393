package flags

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// URL is an address as etcd writes it: scheme://host:port, or unix://PATH and unixs://PATH for a socket file. A path
// without a slash in front lies in the working directory, so unix://localhost:2379 is a file named localhost:2379.
type URL struct {
	Scheme string // http, https, unix or unixs
	Addr   string // host:port, or the path of the socket file
}

// String is the URL as it was given.
func (u URL) String() string { return u.Scheme + "://" + u.Addr }

// TLS reports whether connections to it are encrypted.
func (u URL) TLS() bool { return u.Scheme == "https" || u.Scheme == "unixs" }

// Unix reports whether it is a socket file.
func (u URL) Unix() bool { return u.Scheme == "unix" || u.Scheme == "unixs" }

// Host is the address without the port.
func (u URL) Host() string {
	host, _, err := net.SplitHostPort(u.Addr)
	if err != nil {
		return u.Addr
	}
	return host
}

// ParseURLs reads URLs with commas between and sorts them, as etcd does; the same one twice counts once.
func ParseURLs(v string) ([]URL, error) {
	if strings.TrimSpace(v) == "" {
		return nil, nil
	}
	var all []URL
	for item := range strings.SplitSeq(v, ",") {
		item = strings.TrimSpace(item)
		u, err := url.Parse(item)
		if err != nil {
			return nil, err
		}
		switch u.Scheme {
		case "http", "https":
			if _, _, err := net.SplitHostPort(u.Host); err != nil {
				return nil, fmt.Errorf(`URL address does not have the form "host:port": %s`, item)
			}
			if u.Path != "" {
				return nil, fmt.Errorf("URL must not contain a path: %s", item)
			}
			all = append(all, URL{u.Scheme, u.Host})
		case "unix", "unixs":
			path := u.Host + u.Path
			if path == "" {
				path = u.Opaque // unix:relative
			}
			if path == "" {
				return nil, fmt.Errorf("URL names no socket file: %s", item)
			}
			all = append(all, URL{u.Scheme, path})
		default:
			return nil, fmt.Errorf("URL scheme must be http, https, unix, or unixs: %s", item)
		}
	}
	slices.SortFunc(all, func(a, b URL) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all), nil
}

// JoinURLs writes URLs as ParseURLs reads them.
func JoinURLs(all []URL) string { return strings.Join(Strings(all), ",") }

// Strings writes each of them.
func Strings(all []URL) []string {
	var out []string
	for _, u := range all {
		out = append(out, u.String())
	}
	return out
}

// checkBind refuses names: a name's addresses may change between two starts.
func checkBind(all []URL) error {
	for _, u := range all {
		if u.Unix() || u.Host() == "localhost" {
			continue
		}
		if net.ParseIP(u.Host()) == nil {
			return fmt.Errorf("expected IP in URL for binding (%s)", u)
		}
	}
	return nil
}

// checkDial refuses addresses that no host could dial.
func checkDial(all []URL) error {
	for _, u := range all {
		if !u.Unix() && u.Host() == "" {
			return fmt.Errorf("unexpected empty host (%s)", u)
		}
	}
	return nil
}

// parseCluster reads name=url,name=url,…, where a name may stand several times.
func parseCluster(v string) (map[string][]URL, error) {
	members := map[string][]URL{}
	for item := range strings.SplitSeq(v, ",") {
		name, at, ok := strings.Cut(strings.TrimSpace(item), "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--initial-cluster: %q is not name=URL", item)
		}
		us, err := ParseURLs(at)
		if err != nil {
			return nil, fmt.Errorf("--initial-cluster: %w", err)
		}
		if len(us) == 0 {
			return nil, fmt.Errorf("--initial-cluster: empty URL given for %q", name)
		}
		members[name] = append(members[name], us...)
	}
	owner := map[URL]string{}
	for name, us := range members { // any order: errors differ only in which of two names comes first
		slices.SortFunc(us, func(a, b URL) int { return strings.Compare(a.String(), b.String()) })
		for _, u := range us {
			if o, taken := owner[u]; taken {
				return nil, fmt.Errorf("--initial-cluster: %s is given for %s and for %s; every URL belongs to one member", u, min(o, name), max(o, name))
			}
			owner[u] = name
		}
	}
	if len(members) == 0 {
		return nil, errors.New("--initial-cluster: no member in it")
	}
	return members, nil
}
