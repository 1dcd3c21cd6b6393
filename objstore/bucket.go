package objstore

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// roleWait is how long the machine is asked which role it has. It answers at once, or is not there.
const roleWait = 5 * time.Second

// Bucket is a place in a bucket of S3 with its access settings, for callers that know more than a URL says. Empty fields get the values
// Open would take: AWS's variables.
type Bucket struct {
	Name   string
	Prefix string // of all names, without slashes at its ends
	Region string
	// Endpoint is http://host:port or https://host; "" with no variable for it is AWS.
	Endpoint string
	// AccessKeyID and SecretAccessKey are both given, or neither. Without them the store takes AWS's variables, its shared credentials
	// file, or the machine's role.
	AccessKeyID, SecretAccessKey string
	// PathStyle: the bucket's name goes into the path of each request, not into the host's name; nil: at AWS it does not, elsewhere it does.
	PathStyle *bool
	// SkipVerify: any certificate of the server will do.
	SkipVerify bool
}

// OpenBucket returns the store in a bucket, which must exist. Nothing is sent yet.
func OpenBucket(b Bucket) (*S3, error) {
	where := "s3://" + strings.TrimSuffix(b.Name+"/"+b.Prefix, "/")
	if err := s3utils.CheckValidBucketNameStrict(b.Name); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	s := &S3{bucket: b.Name}
	if b.Prefix != "" {
		if err := checkName(b.Prefix); err != nil {
			return nil, fmt.Errorf("%s: %w; write s3://bucket/prefix", where, err)
		}
		s.prefix = b.Prefix + "/"
	}
	o := &minio.Options{Secure: true, Region: b.Region, MaxRetries: attempts}
	if o.Region == "" {
		o.Region = firstOf("AWS_REGION", "AWS_DEFAULT_REGION")
	}
	var err error
	if o.Creds, err = b.credentials(); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	host := "s3.amazonaws.com"
	elsewhere := false
	if b.Endpoint == "" {
		b.Endpoint = firstOf("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
	}
	if b.Endpoint != "" {
		e, err := url.Parse(b.Endpoint)
		if err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "" || strings.Trim(e.Path, "/") != "" {
			return nil, fmt.Errorf("%s: endpoint %s is no address; write http://host:port or https://host", where, b.Endpoint)
		}
		host, o.Secure = e.Host, e.Scheme == "https"
		elsewhere = !strings.HasSuffix(e.Hostname(), ".amazonaws.com")
		if o.Region == "" {
			o.Region = "us-east-1" // other S3 servers take it for none given; not all of them answer where a bucket is
		}
	}
	switch {
	case b.PathStyle == nil && elsewhere, b.PathStyle != nil && *b.PathStyle:
		o.BucketLookup = minio.BucketLookupPath
	case b.PathStyle != nil:
		o.BucketLookup = minio.BucketLookupDNS
	}
	var given []string
	if b.AccessKeyID != "" {
		given = []string{b.AccessKeyID, b.SecretAccessKey}
	}
	if s.client, err = newClient(host, o, b.SkipVerify, given...); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return s, nil
}

// credentials are the first that there are: those given, AWS's variables, its shared file, and the machine's role. Nothing is asked yet.
func (b *Bucket) credentials() (*credentials.Credentials, error) {
	switch {
	case b.AccessKeyID != "" && b.SecretAccessKey != "":
		return credentials.NewStaticV4(b.AccessKeyID, b.SecretAccessKey, ""), nil
	case b.AccessKeyID != "" || b.SecretAccessKey != "":
		return nil, fmt.Errorf("of the key and its secret one is missing; give both")
	case os.Getenv("AWS_ACCESS_KEY_ID") != "" && os.Getenv("AWS_SECRET_ACCESS_KEY") != "":
		return credentials.NewEnvAWS(), nil
	}
	file := os.Getenv("AWS_SHARED_CREDENTIALS_FILE")
	if home, err := os.UserHomeDir(); file == "" && err == nil {
		file = filepath.Join(home, ".aws", "credentials")
	}
	if _, err := os.Stat(file); err == nil {
		return credentials.NewFileAWSCredentials(file, os.Getenv("AWS_PROFILE")), nil
	}
	return credentials.New(&role{}), nil
}

// role is the credentials of the role that AWS gives to a machine, a container or a pod. The library would wait for a machine that is not
// Amazon's for as long as its network lets it.
type role struct{ credentials.IAM }

// Retrieve implements credentials.Provider.
func (r *role) Retrieve() (credentials.Value, error) {
	return r.RetrieveWithCredContext(&credentials.CredContext{Client: &http.Client{Timeout: roleWait}})
}

// RetrieveWithCredContext implements credentials.Provider.
func (r *role) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	v, err := r.IAM.RetrieveWithCredContext(&credentials.CredContext{Client: &http.Client{Timeout: roleWait}, Endpoint: c.Endpoint})
	if err != nil {
		return v, lasting{fmt.Errorf("no credentials, and this machine has no role (%w); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", err)}
	}
	return v, nil
}
