package conf

import (
	"reflect"
	"strings"
	"testing"
)

func TestAURLNamesADirectoryOrABucket(t *testing.T) {
	for text, want := range map[string]Replica{
		"file:///mnt/backup/":    {Dir: "/mnt/backup"},
		"file:///a%20b/c":        {Dir: "/a b/c"},
		"file:///a?mode=0640":    {Dir: "/a", Mode: 0o640},
		"s3://bkt":               {Bucket: &Bucket{Name: "bkt"}},
		"s3://my.bucket.com/db/": {Bucket: &Bucket{Name: "my.bucket.com", Prefix: "db"}},
		"s3://bkt/a//b/../c":     {Bucket: &Bucket{Name: "bkt", Prefix: "a/c"}},
		"s3://bkt/db?endpoint=localhost:9000&region=eu&skip-verify=true": {Bucket: &Bucket{Name: "bkt", Prefix: "db", Region: "eu", Endpoint: "http://localhost:9000",
			PathStyle: isTrue(), SkipVerify: true}},
		"s3://bkt/db?endpoint=store.example&forcePathStyle=false": {Bucket: &Bucket{Name: "bkt", Prefix: "db", Endpoint: "https://store.example", PathStyle: isFalse()}},
		"s3://bkt.minio.example:9000/db":                          {Bucket: &Bucket{Name: "bkt", Prefix: "db", Endpoint: "http://minio.example:9000", PathStyle: isTrue()}},
		"s3://bkt.s3.eu-west-1.amazonaws.com/db":                  {Bucket: &Bucket{Name: "bkt", Prefix: "db", Region: "eu-west-1"}},
		"s3://bkt.s3.amazonaws.com/db":                            {Bucket: &Bucket{Name: "bkt", Prefix: "db"}},
		"s3://bkt.nyc3.digitaloceanspaces.com/db":                 {Bucket: &Bucket{Name: "bkt", Prefix: "db", Region: "nyc3", Endpoint: "https://nyc3.digitaloceanspaces.com", PathStyle: isFalse()}},
		"s3://bkt.s3.us-west-000.backblazeb2.com/db":              {Bucket: &Bucket{Name: "bkt", Prefix: "db", Region: "us-west-000", Endpoint: "https://s3.us-west-000.backblazeb2.com", PathStyle: isTrue()}},
		"s3://bkt.s3.fr-par.scw.cloud/db":                         {Bucket: &Bucket{Name: "bkt", Prefix: "db", Region: "fr-par", Endpoint: "https://s3.fr-par.scw.cloud", PathStyle: isFalse()}},
		"s3://bkt.s3.filebase.com/db":                             {Bucket: &Bucket{Name: "bkt", Prefix: "db", Endpoint: "https://s3.filebase.com", PathStyle: isTrue()}},
		"s3://bkt.br-x-1.storage.c-6.us-east-2.aws.neon.tech/db": {Bucket: &Bucket{Name: "bkt", Prefix: "db", Region: "us-east-2",
			Endpoint: "https://br-x-1.storage.c-6.us-east-2.aws.neon.tech", PathStyle: isTrue()}},
	} {
		got, warnings, err := FromURL(text, around())
		want.SyncInterval = defaultInterval
		if err != nil || len(warnings) > 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v %+v %q %v", text, got, got.Bucket, warnings, err)
		}
	}
}

func TestTheEnvironmentNamesTheServerIfNothingElseDoes(t *testing.T) {
	env := []string{"AWS_ENDPOINT_URL=https://third.example", "AWS_ENDPOINT_URL_S3=https://second.example", "LITESTREAM_S3_ENDPOINT=first.example"}
	for _, c := range []struct {
		env       []string
		url, want string
	}{
		{env, "s3://b/a", "https://first.example"},
		{env[:2], "s3://b/a", "https://second.example"},
		{env[:1], "s3://b/a", "https://third.example"},
		{env, "s3://b/a?endpoint=own.example", "https://own.example"},
		{nil, "s3://b/a", ""},
	} {
		r, _, err := FromURL(c.url, around(c.env...))
		if err != nil || r.Bucket.Endpoint != c.want {
			t.Errorf("%s with %q: %+v, %v", c.url, c.env, r.Bucket, err)
		}
	}
}

func TestLitestreamsNamesOfTheKeysCountWhereAWSsAreNotSet(t *testing.T) {
	own := []string{"LITESTREAM_ACCESS_KEY_ID=l", "LITESTREAM_SECRET_ACCESS_KEY=ls"}
	aws := []string{"AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=as"}
	for _, c := range []struct {
		env            []string
		id, secret, in string
	}{
		{own, "l", "ls", ""},
		{append(own, aws...), "", "", ""}, // the environment's, wherever that is read
		{append(own, aws[0]), "a", "ls", ""},
		{own[:1], "", "", ""},
		{own, "f", "fs", ", access-key-id: f, secret-access-key: fs"},
	} {
		s, err := parse("dbs: [{path: /a.db, replica: {url: 's3://b/a'"+c.in+"}}]", c.env...)
		if err != nil {
			t.Fatal(err)
		}
		if b := s.Databases[0].Replica.Bucket; b.AccessKeyID != c.id || b.SecretAccessKey != c.secret {
			t.Errorf("%q: %s %s", c.env, b.AccessKeyID, b.SecretAccessKey)
		}
	}
}

func TestWhatAURLSaysInVainIsNamedInOneLine(t *testing.T) {
	_, warnings, err := FromURL("s3://b/a?colour=red&partSize=5MB&signPayload=true", around())
	want := []string{"replica: there is no setting colour", "replica: partSize does nothing here: an object is uploaded in one request",
		"replica: signPayload does nothing here: every upload is signed as S3 asks"}
	if err != nil || !reflect.DeepEqual(warnings, want) {
		t.Errorf("%q, %v", warnings, err)
	}
}

func TestADatabasesPathIsNoURL(t *testing.T) {
	for text, want := range map[string]bool{"file:///x": true, "s3://b/a": true, "gs://b": true, "/a/b": false, "a.db": false, "sqlite:///a.db": false, "sqlite3:///a.db": false} {
		if IsURL(text) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}

func TestAReplicaPrintsNoSecrets(t *testing.T) {
	s, err := parse("dbs: [{path: /a.db, replica: {url: 's3://b/a?endpoint=x.example', access-key-id: SECRET, secret-access-key: SECRET}}]")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Databases[0].Replica.String(); got != "s3://b/a at https://x.example" || strings.Contains(got, "SECRET") {
		t.Errorf("it prints %s", got)
	}
}

func FuzzFromURL(f *testing.F) {
	for _, text := range []string{"file:///x", "s3://bkt.minio.example:9000/db?region=x", "s3://b/a?endpoint=[::1]:9&forcePathStyle=f", "s3://b:/?endpoint=%"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, _, err := FromURL(text, around())
		switch {
		case err != nil:
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
		case r.Bucket != nil && (r.Bucket.Name == "" || strings.HasPrefix(r.Bucket.Prefix, "/") || strings.Contains(r.Bucket.Prefix, "..") && strings.Contains("/"+r.Bucket.Prefix+"/", "/../")),
			r.Bucket == nil && !strings.HasPrefix(r.Dir, "/"):
			t.Errorf("%q: %+v %+v", text, r, r.Bucket)
		}
	})
}
