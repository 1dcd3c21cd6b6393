package conf

import (
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// around are the surroundings of the tests: a program with this number that is started in /work by a user whose home is /home/u.
func around(env ...string) *Surroundings {
	return &Surroundings{Dir: "/work", Home: "/home/u", PID: 4711, Getenv: func(name string) string {
		for _, e := range env {
			if n, v, _ := strings.Cut(e, "="); n == name {
				return v
			}
		}
		return ""
	}}
}

func parse(file string, env ...string) (*Settings, error) {
	sur := around(env...)
	return Parse(Expand([]byte(file), sur), "litestream.yml", sur)
}

func isTrue() *bool  { v := true; return &v }
func isFalse() *bool { v := false; return &v }

func TestAWholeFileIsRead(t *testing.T) {
	file, err := os.ReadFile("testdata/whole.yml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(string(file), "KEY_ID=AKIA", "KEY_SECRET=0123")
	if err != nil {
		t.Fatal(err)
	}
	bucket := func(b Bucket) *Bucket {
		b.AccessKeyID, b.SecretAccessKey = "AKIA", "0123"
		if b.Region == "" {
			b.Region = "eu-central-1"
		}
		return &b
	}
	want := &Settings{
		Exec:             "rails server -p 3000",
		Levels:           []time.Duration{10 * time.Second, 2 * time.Minute},
		SnapshotInterval: 12 * time.Hour, SnapshotRetention: 48 * time.Hour, L0Retention: 10 * time.Minute, KeepAll: true,
		Log:             Log{Level: slog.LevelWarn, Form: "json", Stderr: true},
		Socket:          Socket{Enabled: true, Path: "/tmp/replicator-4711.sock", Permissions: 0o660},
		ShutdownTimeout: 9 * time.Second, ShutdownSyncTimeout: 8 * time.Second,
		Databases: []Database{
			{Path: "/srv/app/production.sqlite3", RestoreIfMissing: true, Monitor: 500 * time.Millisecond, BusyTimeout: 3 * time.Second,
				Replica: Replica{SyncInterval: 2 * time.Second, Bucket: bucket(Bucket{Name: "backups", Prefix: "production",
					Endpoint: "https://minio.example:9000", PathStyle: isTrue(), SkipVerify: true})}},
			{Path: "/home/u/queue.sqlite3", Monitor: time.Second, BusyTimeout: time.Second,
				Replica: Replica{SyncInterval: 250 * time.Millisecond, Bucket: bucket(Bucket{Name: "backups", Prefix: "queue",
					Endpoint: "https://minio.example:9000", PathStyle: isFalse(), SkipVerify: true})}},
			{Path: "/work/cache.sqlite3", Monitor: time.Second, BusyTimeout: time.Second,
				Replica: Replica{SyncInterval: 2 * time.Second, Bucket: bucket(Bucket{Name: "others", Prefix: "cache"})}},
			{Dir: "/srv/tenants", Pattern: "*.db", Recursive: true, Watch: true, Monitor: time.Second, BusyTimeout: time.Second,
				Replica: Replica{SyncInterval: 2 * time.Second, Dir: "/mnt/backup"}},
		},
	}
	if len(got.Databases) != len(want.Databases) {
		t.Fatalf("%d databases", len(got.Databases))
	}
	for i := range want.Databases {
		g, w := got.Databases[i], want.Databases[i]
		if !reflect.DeepEqual(g, w) {
			t.Errorf("database %d is\n%+v %+v, want\n%+v %+v", i, g, g.Replica.Bucket, w, w.Replica.Bucket)
		}
	}
	got.Databases, want.Databases = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n%+v, want\n%+v", got, want)
	}
}

func TestWithoutAnythingTheDefaultsAreLitestreams(t *testing.T) {
	for _, file := range []string{"", "# nothing\n", "dbs:\nsnapshot:\nlevels:\n"} {
		got, err := parse(file)
		want := &Settings{Levels: []time.Duration{30 * time.Second, 5 * time.Minute, time.Hour}, SnapshotInterval: 24 * time.Hour,
			SnapshotRetention: 24 * time.Hour, L0Retention: 5 * time.Minute, Log: Log{Form: "text"},
			Socket: Socket{Path: "/var/run/litestream.sock", Permissions: 0o600}, ShutdownTimeout: 30 * time.Second, ShutdownSyncTimeout: 30 * time.Second}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", file, got, err)
		}
	}
}

// one is a file with one database; more is added to its entry, two levels deep.
const one = "dbs:\n  - path: /a.db\n    replica: {url: 's3://b/a'}\n"

func TestASettingThatMeansNothingIsNamedInOneLine(t *testing.T) {
	const file = one + `    colour: red
    meta-path: /var/meta
    truncate-page-n: 100
mcp-addr: ":9091"
snapshot: {interval: 24h, often: 1h}
heartbeat-url:
validation: {interval: 1m}
storage-class: GLACIER
account-key: SECRET
socket.path: /x
`
	s, err := parse(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`litestream.yml:8: snapshot.often: there is no such setting`,
		`litestream.yml:13: socket.path: there is no such setting`,
		`litestream.yml:7: mcp-addr does nothing here: no such server is offered`,
		`litestream.yml:10: validation.interval does nothing here: files of a higher level are made from the database and carry its checksum, which every restore checks`,
		`litestream.yml:4: dbs[0].colour: there is no such setting`,
		`litestream.yml:5: dbs[0].meta-path does nothing here: what is known of a replica lies in .NAME-holdfast beside each database, where the extension looks for it`,
		`litestream.yml:6: dbs[0].truncate-page-n does nothing here: applications checkpoint as they like, and nothing is stored by it`,
		`litestream.yml:12: account-key does nothing here: it is of a kind of replica that is not offered`,
		`litestream.yml:11: storage-class does nothing here: objects have the bucket's default class; a lifecycle rule of the bucket can change it`,
	}
	if got := s.Warnings; !reflect.DeepEqual(got, want) {
		t.Errorf("it says\n%s", strings.Join(got, "\n"))
	}
}

func TestWhatIsRefused(t *testing.T) {
	const db = "dbs: [{path: /a.db, replica: {%}}]"
	for _, c := range []struct{ file, want string }{
		{"levels: [{interval: 0s}]", "levels[0].interval: 0s; give a time above 0"},
		{"levels: [{}]", "litestream.yml:1: levels[0] has no interval"},
		{"levels: [1]", "litestream.yml:1: levels[0] is not a list of settings"},
		{"levels: {interval: 1s}", "litestream.yml:1: levels is not a list; begin each entry with a dash"},
		{"levels:" + strings.Repeat("\n  - interval: 1s", 9), "9 levels; there are 8 at most"},
		{"snapshot: {interval: 24}", `litestream.yml:1: snapshot.interval: "24" is no time; write it with its unit`},
		{"snapshot: {retention: -1h}", "is no time to wait"},
		{"snapshot: 24h", "litestream.yml:1: snapshot is not a list of settings"},
		{"retention: {enabled: perhaps}", `"perhaps" is neither true nor false`},
		{"exec: [a, b]", "litestream.yml:1: exec wants one value"},
		{"socket: {permissions: 01777}", "01777 is no file's permissions"},
		{"socket: {permissions: rw}", `"rw" is no number`},
		{"logging: {level: loud}", "logging.level: there is no log level loud"},
		{"logging: {type: xml}", `"xml" is no form of a log`},
		{"- list", "litestream.yml:1 is not a list of settings"},
		{"a: b: c", "litestream.yml: "},
		{"a: 1\na: 2", "already defined"},
		{"dbs: [{replica: {path: /r}}]", "litestream.yml:1: dbs[0] has neither a path nor a dir"},
		{"dbs: [{path: /a, dir: /b}]", "it is one of them"},
		{"dbs: [{dir: /b, replica: {path: /r}}]", "no pattern"},
		{"dbs: [{dir: /b, pattern: '[', replica: {path: /r}}]", "is no pattern of a file's name"},
		{"dbs: [{dir: /b, pattern: '*.db', restore-if-db-not-exists: true, replica: {path: /r}}]", "restore-if-db-not-exists is for a path"},
		{"dbs: [{path: /a, watch: true, replica: {path: /r}}]", "watch are for a dir"},
		{"dbs: [{path: /a}]", "dbs[0] has no replica"},
		{"dbs: [{path: /a, replicas: [{path: /r}, {path: /s}]}]", "has 2 replicas; a database has one"},
		{"dbs: [{path: /a, replica: {path: /s}, replicas: [{path: /r}]}]", "has 2 replicas"},
		{"dbs: [{path: /a, replica: {path: /r}}, {path: /a, replica: {path: /s}}]", "dbs[1]: /a is that of litestream.yml:1: dbs[0] too"},
		{"dbs: [{path: /a, replica: {path: /r}}, {path: /b, replica: {path: /r}}]", "dbs[1]: file:///r is that of litestream.yml:1: dbs[0] too"},
		{"dbs: [{path: /a, replica: {path: /r}, snapshot: {interval: 1h}}, {path: /b, replica: {path: /s}, snapshot: {interval: 2h}}]", "all databases have one"},
		{strings.Replace(db, "%", "url: 's3://b/a', path: x", 1), "there is a url, and a path or a bucket beside it"},
		{strings.Replace(db, "%", "url: 'file:///b', path: x", 1), "it is one of them"},
		{strings.Replace(db, "%", "url: 'file://b/a'", 1), "three slashes"},
		{strings.Replace(db, "%", "path: 's3://b/a'", 1), "is a URL; write it as url"},
		{strings.Replace(db, "%", "type: s3, path: x", 1), "there is no bucket"},
		{strings.Replace(db, "%", "type: tape", 1), `"tape" is no kind of replica`},
		{strings.Replace(db, "%", "url: 'gs://b/a'", 1), "gs is not offered; Google's buckets speak S3"},
		{strings.Replace(db, "%", "url: 'sftp://u:SECRET@h/a'", 1), "sftp is not offered"},
		{strings.Replace(db, "%", "url: 's3://u:SECRET@b/a'", 1), "the URL has credentials in it"},
		{strings.Replace(db, "%", "url: 's3://u:SECRET@b:x/a'", 1), "is no URL of a replica"},
		{strings.Replace(db, "%", "url: 's3://arn:aws:s3:eu:1:accesspoint/x'", 1), "access points are not offered"},
		{strings.Replace(db, "%", "url: 's3://b/a?skipVerify=maybe'", 1), `skipVerify: "maybe" is neither true nor false`},
		{strings.Replace(db, "%", "url: 's3://b/a?sseKmsKeyId=SECRET'", 1), "sseKmsKeyId is not offered: objects would not be encrypted with it"},
		{strings.Replace(db, "%", "url: 's3://b/a', sse-customer-key: SECRET", 1), "sse-customer-key is not offered"},
		{strings.Replace(db, "%", "url: 's3://b/a', age: {recipients: [x]}", 1), "age.recipients is not offered: what is stored would not be encrypted"},
		{strings.Replace(db, "%", "url: 's3://b/a', access-key-id: x", 1), "one is missing"},
		{strings.Replace(db, "%", "url: 's3://b/a', endpoint: 'ftp://x'", 1), "the endpoint is no server's address"},
		{strings.Replace(db, "%", "url: 's3://b/a', sync-interval: 0s", 1), "sync-interval: 0s; give a time above 0"},
	} {
		_, err := parse(c.file)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.file, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: it says %q", c.file, err)
		}
	}
}

func TestTheVariableGoesBeforeTheFilesLogLevel(t *testing.T) {
	s, err := parse("logging: {level: warn}", "LOG_LEVEL=DEBUG")
	if err != nil || s.Log.Level != slog.LevelDebug {
		t.Errorf("%v, %v", s.Log.Level, err)
	}
	if _, err := parse("", "LOG_LEVEL=loud"); err == nil || !strings.Contains(err.Error(), "LOG_LEVEL: there is no log level loud") {
		t.Errorf("it says %v", err)
	}
}

func TestSnapshotsOfOneDatabaseAreThoseOfAllUnlessTheFileSaysSoItself(t *testing.T) {
	const entry = "dbs: [{path: /a, replica: {path: /r}, snapshot: {interval: 1h, retention: 2h}}]\n"
	for file, want := range map[string][2]time.Duration{entry: {time.Hour, 2 * time.Hour}, entry + "snapshot: {interval: 3h, retention: 3h}": {3 * time.Hour, 3 * time.Hour}} {
		s, err := parse(file)
		if err != nil || [2]time.Duration{s.SnapshotInterval, s.SnapshotRetention} != want {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

func TestADatabaseIsFoundByItsPathOrInItsDirectory(t *testing.T) {
	s, err := parse(`dbs:
  - dir: /srv
    pattern: "*.db"
    replica: {url: "s3://b/all"}
  - path: /srv/own.db
    replica: {path: /own}
  - dir: /deep
    pattern: "*.db"
    recursive: true
    replica: {path: /back}
`)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/srv/x.db": "s3://b/all/x.db", "/srv/own.db": "file:///own", "/deep/a/b.db": "file:///back/a/b.db",
		"/srv/sub/x.db": "", "/srv/x.txt": "", "/srv": "", "/else/x.db": "", "/deep/../x.db": "", "/deeper/x.db": "",
	} {
		d, ok := s.Database(path)
		if ok != (want != "") || ok && (d.Replica.String() != want || d.Path != path || d.Dir != "") {
			t.Errorf("%s: %+v, %v, want %s", path, d, ok, want)
		}
	}
	if s.Databases[0].Replica.Bucket.Prefix != "all" {
		t.Error("the directory's own replica has moved")
	}
}

func FuzzParse(f *testing.F) {
	file, err := os.ReadFile("testdata/whole.yml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(file))
	f.Add(one)
	f.Add("a: &a [*a]")
	f.Add("dbs: &a [{replica: *a}]")
	f.Add("snapshot: &a {interval: *a, <<: *a}")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		if s.SnapshotInterval <= 0 || s.SnapshotRetention <= 0 || s.ShutdownTimeout <= 0 || len(s.Levels) > 8 {
			t.Errorf("%+v", s)
		}
		for _, d := range s.Databases {
			if (d.Path == "") == (d.Dir == "") || d.Monitor <= 0 || d.Replica.SyncInterval <= 0 || (d.Replica.Dir == "") == (d.Replica.Bucket == nil) {
				t.Errorf("%+v", d)
			}
		}
	})
}
