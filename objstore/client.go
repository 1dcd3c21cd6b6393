package objstore

import (
	"crypto/tls"
	"os"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
)

// clients are those of S3 servers, one for each server and set of credentials. An agent has thousands of replicas in one bucket. A client
// of its own for each, with unshared connections, was half of its memory. They are few, so none is given up.
var clients struct {
	sync.Mutex
	of map[clientKey]*minio.Client // guarded by the mutex
}

// clientKey is everything that tells two clients apart.
type clientKey struct {
	host, region string
	secure, any  bool // any: any certificate will do
	lookup       minio.BucketLookupType
	credentials  string
}

// credentialVariables are what credentials come from, if not from the configuration.
var credentialVariables = []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SESSION_TOKEN",
	"AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CA_BUNDLE", "HOME"}

// newClient returns the client of a server. given are the credentials of the configuration, none if there are none in it; anyCertificate: that of the
// server is not looked at.
func newClient(host string, o *minio.Options, anyCertificate bool, given ...string) (*minio.Client, error) {
	key := clientKey{host: host, region: o.Region, secure: o.Secure, any: anyCertificate, lookup: o.BucketLookup, credentials: strings.Join(given, "\n")}
	if len(given) == 0 {
		for _, name := range credentialVariables {
			key.credentials += os.Getenv(name) + "\n"
		}
	}
	clients.Lock()
	defer clients.Unlock()
	if c := clients.of[key]; c != nil {
		return c, nil
	}
	t, err := minio.DefaultTransport(o.Secure)
	if err != nil {
		return nil, err
	}
	if anyCertificate && o.Secure {
		t.TLSClientConfig.InsecureSkipVerify = true
		t.TLSClientConfig.MinVersion = tls.VersionTLS12
	}
	o.Transport = bounded{t}
	c, err := minio.New(host, o)
	if err != nil {
		return nil, err
	}
	if clients.of == nil {
		clients.of = map[clientKey]*minio.Client{}
	}
	clients.of[key] = c
	return c, nil
}
