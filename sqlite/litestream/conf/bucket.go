package conf

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Bucket is a place in a bucket of S3, or of a server with the same interface, and how to get there.
type Bucket struct {
	Name, Prefix string
	// Region and Endpoint are "" for what AWS's own variables say, or AWS itself. The endpoint has its scheme.
	Region, Endpoint string
	// AccessKeyID and SecretAccessKey are "" to take the environment's.
	AccessKeyID, SecretAccessKey string
	// PathStyle: the bucket's name is in the path of a request, not in the host's name. nil: as the server needs.
	PathStyle *bool
	// SkipVerify: the server's certificate is not looked at.
	SkipVerify bool
}

// hosts are forms of host names that have a bucket in them, and its region and server. A server is where such a provider's are.
var hosts = []struct {
	form             *regexp.Regexp
	bucket, region   int // groups of the form
	server           string
	pathStyle, named bool // named: the server is group 2 itself
}{
	{form: regexp.MustCompile(`^(.+)\.s3(?:\.([^.]+))?\.amazonaws\.com$`), bucket: 1, region: 2},
	{form: regexp.MustCompile(`^(.+)\.([^.]+)\.digitaloceanspaces\.com$`), bucket: 1, region: 2, server: "https://%s.digitaloceanspaces.com"},
	{form: regexp.MustCompile(`^(.+)\.s3\.([^.]+)\.backblazeb2\.com$`), bucket: 1, region: 2, server: "https://s3.%s.backblazeb2.com", pathStyle: true},
	{form: regexp.MustCompile(`^(.+)\.s3\.([^.]+)\.scw\.cloud$`), bucket: 1, region: 2, server: "https://s3.%s.scw.cloud"},
	{form: regexp.MustCompile(`^(.+)\.(s3\.filebase\.com)$`), bucket: 1, named: true, pathStyle: true},
	{form: regexp.MustCompile(`^(.+)\.(br-[^.]+\.storage\.[^.]+\.([^.]+)\.[^.]+\.neon\.tech)$`), bucket: 1, region: 3, named: true, pathStyle: true},
}

// bucket is the place of an S3 replica. An explicit setting goes before the URL's host.
func bucket(g given, u *url.URL, sur *Surroundings) (*Bucket, error) {
	b := &Bucket{Name: g.text("bucket", ""), Prefix: g.text("path", ""), Region: g.text("region", ""), Endpoint: g.text("endpoint", ""),
		AccessKeyID: g.text("access-key-id", ""), SecretAccessKey: g.text("secret-access-key", ""), SkipVerify: g.flag("skip-verify", false)}
	if _, ok := g["force-path-style"]; ok {
		v := g.flag("force-path-style", false)
		b.PathStyle = &v
	}
	if (b.AccessKeyID == "") != (b.SecretAccessKey == "") {
		return nil, errors.New("of access-key-id and secret-access-key one is missing; give both, or neither for those of the environment")
	}
	if b.AccessKeyID == "" && (sur.Getenv("AWS_ACCESS_KEY_ID") == "" || sur.Getenv("AWS_SECRET_ACCESS_KEY") == "") {
		// Litestream's own names for them count where AWS's are not set.
		id, secret := sur.Getenv("LITESTREAM_ACCESS_KEY_ID"), sur.Getenv("LITESTREAM_SECRET_ACCESS_KEY")
		id, secret = cmp.Or(sur.Getenv("AWS_ACCESS_KEY_ID"), id), cmp.Or(sur.Getenv("AWS_SECRET_ACCESS_KEY"), secret)
		if id != "" && secret != "" {
			b.AccessKeyID, b.SecretAccessKey = id, secret
		}
	}
	if u != nil {
		if b.Prefix != "" || b.Name != "" {
			return nil, errors.New("there is a url, and a path or a bucket beside it; the URL has both in it")
		}
		if u.User != nil {
			return nil, errors.New("the URL has credentials in it; write them as access-key-id and secret-access-key")
		}
		b.Prefix = u.Path
		b.host(u.Host)
	}
	b.Prefix = strings.Trim(path.Clean("/"+b.Prefix), "/")
	if b.Name == "" || strings.ContainsAny(b.Name, "/:?# ") {
		return nil, errors.New("there is no bucket; write s3://bucket/path, or bucket and path")
	}
	if b.Endpoint == "" {
		b.Endpoint = withScheme(cmp.Or(sur.Getenv("LITESTREAM_S3_ENDPOINT"), sur.Getenv("AWS_ENDPOINT_URL_S3"), sur.Getenv("AWS_ENDPOINT_URL")))
	}
	if b.Endpoint == "" {
		return b, nil
	}
	if !strings.Contains(b.Endpoint, "://") {
		b.Endpoint = "https://" + b.Endpoint
	}
	e, err := url.Parse(b.Endpoint)
	if err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Hostname() == "" || e.User != nil || strings.Trim(e.Path, "/") != "" || e.RawQuery != "" {
		return nil, fmt.Errorf("the endpoint is no server's address; write https://host or http://host:port")
	}
	b.Endpoint = e.Scheme + "://" + e.Host
	if b.PathStyle == nil {
		yes := true // a bucket's own host name is often not there
		b.PathStyle = &yes
	}
	return b, nil
}

// host reads the host of a URL.
func (b *Bucket) host(host string) {
	if name, server, ok := strings.Cut(host, "."); ok && !strings.Contains(name, ":") && hasPort(server) { // bucket.minio.example:9000
		b.Name = name
		b.Endpoint = cmp.Or(b.Endpoint, "http://"+server)
		return
	}
	for _, h := range hosts {
		m := h.form.FindStringSubmatch(host)
		if m == nil {
			continue
		}
		region, server := m[h.region], h.server
		if h.region == 0 {
			region = ""
		}
		switch {
		case h.named:
			server = "https://" + m[2]
		case server != "":
			server = fmt.Sprintf(server, region)
		}
		b.Name = m[h.bucket]
		b.Region = cmp.Or(b.Region, region)
		if b.Endpoint == "" && server != "" {
			b.Endpoint = server
			if b.PathStyle == nil {
				style := h.pathStyle
				b.PathStyle = &style
			}
		}
		return
	}
	b.Name = host
}

func hasPort(host string) bool {
	_, port, err := net.SplitHostPort(host)
	return err == nil && port != ""
}

// withScheme is an endpoint with its scheme: http for one that is near, https for any other.
func withScheme(endpoint string) string {
	if endpoint == "" || strings.HasPrefix(endpoint, "http://") || strings.HasPrefix(endpoint, "https://") {
		return endpoint
	}
	host := endpoint
	if h, _, err := net.SplitHostPort(endpoint); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(host)
	near := err == nil && (ip.IsLoopback() || ip.IsPrivate())
	if near || host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".local") {
		return "http://" + endpoint
	}
	return "https://" + endpoint
}
