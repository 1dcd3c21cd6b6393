package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/holdfastdb/holdfast/objstore"
)

// Replica is where a database is kept: a directory or a place in a bucket, one of which is set.
type Replica struct {
	Dir    string      // absolute
	Mode   fs.FileMode // of new files in Dir, 0: the store's default
	Bucket *Bucket
	// SyncInterval is how long captured commits wait for an upload at most, beside the upload's own time.
	SyncInterval time.Duration
}

// Type is Litestream's word for the kind of replica.
func (r Replica) Type() string {
	if r.Bucket != nil {
		return "s3"
	}
	return "file"
}

// String is the replica's URL, without credentials, and where its bucket is.
func (r Replica) String() string {
	switch {
	case r.Bucket == nil:
		return "file://" + r.Dir
	case r.Bucket.Endpoint != "":
		return "s3://" + path.Join(r.Bucket.Name, r.Bucket.Prefix) + " at " + r.Bucket.Endpoint
	}
	return "s3://" + path.Join(r.Bucket.Name, r.Bucket.Prefix)
}

// Below is the replica of what lies at rel, a relative path with slashes, below what r is the replica of.
func (r Replica) Below(rel string) Replica {
	if r.Bucket != nil {
		b := *r.Bucket
		b.Prefix = path.Join(b.Prefix, rel)
		r.Bucket = &b
		return r
	}
	r.Dir = filepath.Join(r.Dir, filepath.FromSlash(rel))
	return r
}

var urlForm = regexp.MustCompile(`^\w+://`)

// IsURL reports whether text names a replica by its URL, and not a database by its path.
func IsURL(text string) bool {
	return urlForm.MatchString(text) && !strings.HasPrefix(text, "sqlite://") && !strings.HasPrefix(text, "sqlite3://")
}

// FromURL reads a replica named by its URL alone: file:///dir, or s3://bucket/prefix with settings behind a question mark.
func FromURL(text string, sur *Surroundings) (Replica, []string, error) {
	s := &source{name: "replica"}
	r, err := s.build(given{"url": {text, "replica"}}, "replica", sur)
	return r, s.warnings, err
}

// replica reads a replica's section of the file. Settings at the top of the file are its defaults.
func (s *source) replica(n *yaml.Node, name string, defaults given, sur *Surroundings) (Replica, error) {
	g, err := s.section(n, name+".", nil, placeTable, replicaTable)
	if err != nil {
		return Replica{}, err
	}
	for name, v := range defaults { // any order: from map to map
		if _, ok := g[name]; !ok {
			g[name] = v
		}
	}
	return s.build(g, s.at(n, name), sur)
}

// build makes a replica of its given settings.
func (s *source) build(g given, at string, sur *Surroundings) (r Replica, err error) {
	typ := g.text("type", "file")
	var u *url.URL
	if text := g.text("url", ""); text != "" {
		if u, err = s.url(g, text); err != nil {
			return r, err
		}
		typ = u.Scheme
	}
	if IsURL(g.text("path", "")) {
		return r, fmt.Errorf("%s is a URL; write it as url", g["path"].at)
	}
	switch typ {
	case "file":
		if r.Dir, err = directory(g, u, sur); err == nil && u != nil && u.Query().Has("mode") {
			r.Mode, err = objstore.ParseMode(u.Query().Get("mode"))
		}
	case "s3":
		r.Bucket, err = bucket(g, u, sur)
	default:
		err = notOffered(typ)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", at, err)
	}
	if err := s.judge(g, placeTable, replicaTable); err != nil {
		return r, err
	}
	r.SyncInterval, err = g.positive("sync-interval", defaultInterval)
	return r, err
}

// notOffered names the substitute for a kind of replica.
func notOffered(typ string) error {
	switch typ {
	case "gs":
		return errors.New("gs is not offered; Google's buckets speak S3: url s3://bucket/path?endpoint=https://storage.googleapis.com, with an HMAC key")
	case "oss":
		return errors.New("oss is not offered; Alibaba's buckets speak S3: url s3://bucket/path?endpoint=https://s3.oss-REGION.aliyuncs.com&forcePathStyle=false")
	case "abs", "sftp", "nats", "webdav", "webdavs":
		return fmt.Errorf("%s is not offered; a replica is a directory or a bucket with S3's interface", typ)
	}
	return fmt.Errorf("%q is no kind of replica; there is file and s3", typ)
}

// url reads a replica's URL. The query counts where the file has no setting.
func (s *source) url(g given, text string) (*url.URL, error) {
	at := g["url"].at
	if strings.HasPrefix(strings.ToLower(text), "s3://arn:") {
		return nil, fmt.Errorf("%s: access points are not offered; write s3://bucket/path", at)
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Opaque != "" { // the parser's error has the whole URL, and perhaps a password, in it
		return nil, fmt.Errorf("%s is no URL of a replica; write file:///dir or s3://bucket/path", at)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%s: what is behind the question mark cannot be read", at)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		key := kebab(name)
		r := find(key, replicaTable)
		if key == "mode" && u.Scheme == "file" {
			continue // no setting of the file; build reads it
		}
		if r == nil || r.kind == list {
			s.warn(at+":", "there is no setting %s", name)
			continue
		}
		v := query.Get(name)
		if _, ok := g[key]; ok || v == "" {
			continue
		}
		if key == "endpoint" {
			v = withScheme(v)
		}
		if err := g.put(r, v, at+": "+name); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// kebab is a setting's name in the file for one in a URL: forcePathStyle is force-path-style.
func kebab(name string) string {
	var b strings.Builder
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			if i > 0 && (name[i-1] < 'A' || name[i-1] > 'Z') && name[i-1] != '-' {
				b.WriteByte('-')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// directory is where a file replica lies.
func directory(g given, u *url.URL, sur *Surroundings) (string, error) {
	p := g.text("path", "")
	if u != nil {
		if p != "" {
			return "", errors.New("there is a url and a path; it is one of them")
		}
		if u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") {
			return "", errors.New("the URL has no absolute path; write file:///dir, with three slashes")
		}
		p = u.Path
	}
	if p == "" {
		return "", errors.New("it is nowhere; say where to with url or path")
	}
	return sur.Path(p)
}
