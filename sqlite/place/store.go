package place

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Store is where a replica lies, in a form in which two spellings of one place are equal. The zero Store is nowhere, and meets no other.
type Store struct {
	// Own are the keys of the place itself: two places with a common key are one. A directory has one by its path and one by its inode.
	Own []string
	// Above are the keys of all places that it lies below.
	Above []string
}

// Directory is the place of a replica in a directory, which need not be there. A path that cannot be resolved is taken as it is written.
func Directory(dir string) (s Store) {
	if p, err := Resolve(dir); err == nil {
		dir = p.Path
	}
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		keys := []string{"path " + at}
		if id, err := Identify(at); err == nil {
			keys = append(keys, fmt.Sprintf("inode %d %d", id.Dev, id.Ino))
		}
		if s.Own == nil {
			s.Own = keys
		} else {
			s.Above = append(s.Above, keys...)
		}
		if at == "/" || at == "." {
			return s
		}
	}
}

// Bucket is the place of a replica in a bucket. endpoint is the server's URL; "": AWS.
func Bucket(endpoint, bucket, prefix string) (s Store) {
	root := "bucket " + server(endpoint) + "/" + bucket
	for at := path.Clean("/" + prefix); ; at = path.Dir(at) {
		if key := root + at; s.Own == nil {
			s.Own = []string{key}
		} else {
			s.Above = append(s.Above, key)
		}
		if at == "/" {
			return s
		}
	}
}

// OfURL is the place that a replica's URL names: file:///dir, or s3://bucket/prefix with the server as ?endpoint= or in AWS's own variables. A text of
// another form is a place of its own.
func OfURL(text string) Store {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return Store{}
	case err == nil && u.Scheme == "file" && u.Path != "":
		return Directory(u.Path)
	case err == nil && u.Scheme == "s3":
		endpoint := u.Query().Get("endpoint")
		for _, name := range []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"} {
			if endpoint == "" {
				endpoint = os.Getenv(name)
			}
		}
		return Bucket(endpoint, u.Host, u.Path)
	}
	return Store{Own: []string{"text " + text}}
}

// Same reports whether two replicas would have the same files.
func (s Store) Same(o Store) bool { return meet(s.Own, o.Own) }

// Holds reports whether o lies below s.
func (s Store) Holds(o Store) bool { return meet(s.Own, o.Above) }

func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(key string) bool { return slices.Contains(b, key) })
}

// server is an endpoint without the parts in which two spellings of one may differ: scheme, default port, case, the name of this machine.
func server(endpoint string) string {
	const aws = "amazonaws.com"
	if endpoint == "" {
		return aws
	}
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return endpoint
	}
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if host == aws || strings.HasSuffix(host, "."+aws) || strings.HasSuffix(host, "."+aws+".cn") {
		return aws
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if host = ip.Unmap().String(); ip.Unmap().IsLoopback() || ip.IsUnspecified() {
			host = "localhost"
		}
	}
	if u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		port = ""
	}
	return host + ":" + port
}
