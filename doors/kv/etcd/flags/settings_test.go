package flags

import (
	"crypto/tls"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// parse is one start of etcd with the given file as /etc/etcd.yaml.
func parse(args, environ []string, file string) (*Settings, error) {
	return Parse(args, environ, func(path string) ([]byte, error) {
		if path != "/etc/etcd.yaml" {
			return nil, os.ErrNotExist
		}
		return []byte(file), nil
	})
}

func mustParse(t *testing.T, args, environ []string, file string) *Settings {
	t.Helper()
	s, err := parse(args, environ, file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWithoutFlagsItIsEtcdsDefaults(t *testing.T) {
	s := mustParse(t, nil, nil, "")
	got := []any{s.Name, s.DataDir, JoinURLs(s.ListenClient), JoinURLs(s.AdvertisePeer), s.Heartbeat, s.Election, s.MaxTxnOps,
		s.MaxRequestBytes, s.StrictReconfig, s.MaxLearners, s.AuthToken, s.AuthTokenTTL, s.BcryptCost, s.CompactPeriod, s.Token,
		s.KeepaliveInterval, s.ProgressInterval, s.MinTLS, s.LogConsole, s.Existing, s.QuotaBytes}
	want := []any{"default", "default.etcd", "http://localhost:2379", "http://localhost:2380", 100 * time.Millisecond, time.Second, 128,
		1572864, true, 1, "simple", 300 * time.Second, 10, time.Duration(0), "etcd-cluster",
		2 * time.Hour, 10 * time.Minute, uint16(tls.VersionTLS12), false, false, int64(0)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got := s.Cluster["default"]; len(s.Cluster) != 1 || JoinURLs(got) != "http://localhost:2380" {
		t.Errorf("alone, but the cluster is %v", s.Cluster)
	}
}

func TestAFlagIsWrittenInManyWays(t *testing.T) {
	for _, args := range [][]string{
		{"--name=n1", "--strict-reconfig-check=false"}, {"-name", "n1", "-strict-reconfig-check=0"},
		{"--name", "n1", "--strict-reconfig-check=f"}, {"-name=n0", "--name=n1", "--strict-reconfig-check", "--strict-reconfig-check=false"},
	} {
		if s := mustParse(t, args, nil, ""); s.Name != "n1" || s.StrictReconfig || s.DataDir != "n1.etcd" {
			t.Errorf("%q: %+v", args, s)
		}
	}
}

func TestABareFlagTakesNoValue(t *testing.T) {
	if s := mustParse(t, []string{"--auto-tls", "--listen-client-urls=https://localhost:1", "--advertise-client-urls", "https://localhost:1"}, nil, ""); !s.ClientTLS.Auto {
		t.Error("--auto-tls is off")
	}
	if _, err := parse([]string{"--auto-tls", "true"}, nil, ""); err == nil || !strings.Contains(err.Error(), `"true" is not a valid flag`) {
		t.Error(err)
	}
}

func TestAFlagAndItsVariableContradict(t *testing.T) {
	if s := mustParse(t, nil, []string{"ETCD_NAME=n1", "ETCD_WAL_DIR=", "PATH=/bin"}, ""); s.Name != "n1" {
		t.Errorf("name %s", s.Name)
	}
	// As in etcd: it does not choose between the two.
	if _, err := parse([]string{"--name=n2"}, []string{"ETCD_NAME=n1"}, ""); err == nil || !strings.Contains(err.Error(), "ETCD_NAME") {
		t.Error(err)
	}
	if _, err := parse(nil, []string{"ETCD_HEARTBEAT_INTERVAL=soon"}, ""); err == nil || !strings.Contains(err.Error(), `"soon" for ETCD_HEARTBEAT_INTERVAL`) {
		t.Error(err)
	}
}

func TestAnUnknownFlagIsAnErrorAnUnknownVariableAWarning(t *testing.T) {
	var usage *UsageError
	if _, err := parse([]string{"--nmae=n1"}, nil, ""); !errors.As(err, &usage) || !strings.Contains(err.Error(), "-nmae") {
		t.Error(err)
	}
	s := mustParse(t, nil, []string{"ETCD_VERIFY=all"}, "")
	if !slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.Contains(w, "ETCD_VERIFY") }) {
		t.Errorf("warnings %q", s.Warnings)
	}
}

func TestAFileReplacesFlagsAndEnvironment(t *testing.T) {
	const file = `
name: n1
data-dir: /var/lib/etcd
listen-client-urls: https://127.0.0.1:2379, http://127.0.0.1:2381
heartbeat-interval: 250
election-timeout: 2500
watch-progress-notify-interval: 60000000000
auto-compaction-retention: "30m"
cipher-suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
log-outputs: [stderr]
strict-reconfig-check: false
client-transport-security:
  cert-file: c.pem
  key-file: c.key
  client-cert-auth: true
  allowed-cn: [alice, bob]
peer-transport-security:
  auto-tls: true
  allowed-hostname: h1
  skip-client-san-verification: true
snapshot-count: 5000
max-wall: 3
`
	s := mustParse(t, []string{"--name=other", "--config-file", "/etc/etcd.yaml"}, []string{"ETCD_NAME=third"}, file)
	got := []any{s.Name, s.DataDir, s.Heartbeat, s.Election, s.ProgressInterval, s.CompactPeriod, s.StrictReconfig, s.ClientTLS.CertFile,
		s.ClientTLS.CertAuth, s.ClientTLS.AllowedCNs, s.PeerTLS.Auto, s.PeerTLS.AllowedHostnames, s.PeerTLS.SkipSANCheck, len(s.CipherSuites),
		JoinURLs(s.AdvertiseClient)}
	want := []any{"n1", "/var/lib/etcd", 250 * time.Millisecond, 2500 * time.Millisecond, time.Minute, 30 * time.Minute, false, "c.pem",
		true, []string{"alice", "bob"}, true, []string{"h1"}, true, 1, "http://localhost:2379"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for _, w := range []string{"other flags do not count", "no setting max-wall", "--snapshot-count does nothing"} {
		if !slices.ContainsFunc(s.Warnings, func(line string) bool { return strings.Contains(line, w) }) {
			t.Errorf("no warning says %q: %q", w, s.Warnings)
		}
	}
	if s := mustParse(t, nil, []string{"ETCD_CONFIG_FILE=/etc/etcd.yaml", "ETCD_NAME=third"}, file); s.Name != "n1" {
		t.Errorf("the file named in the environment does not count: %s", s.Name)
	}
}

// The sample file that comes with etcd has lines which etcd's own reader does not know.
func TestTheSampleFileIsTaken(t *testing.T) {
	const file = "discovery:\ndiscovery-fallback: 'proxy'\ndiscovery-proxy:\nproxy: 'off'\nproxy-read-timeout: 0\nname: n1\n"
	s := mustParse(t, []string{"--config-file=/etc/etcd.yaml"}, nil, file)
	if !slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.Contains(w, "discovery-fallback") }) {
		t.Errorf("no warning names discovery-fallback: %q", s.Warnings)
	}
	if _, err := parse([]string{"--discovery-fallback=proxy"}, nil, ""); err == nil {
		t.Error("on the command line it is taken, where etcd refuses it")
	}
}

func TestWhatMayNotBeIgnoredIsRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--force-new-cluster":                                            "snapshot restore",
		"--discovery-srv=example.com":                                    "--initial-cluster",
		"--enable-log-rotation":                                          "logrotate",
		"--logger=capnslog":                                              "zap",
		"--listen-client-urls=http://127.0.0.1:1":                        "--advertise-client-urls is required",
		"--listen-peer-urls=http://example.com:2380":                     "expected IP",
		"--listen-peer-urls=http://127.0.0.1:1,https://127.0.0.1:2":      "one scheme",
		"--listen-peer-urls=https://127.0.0.1:2380":                      "--peer-cert-file",
		"--listen-client-urls=ftp://h:1 --advertise-client-urls=":        "scheme",
		"--initial-cluster-state=old":                                    "new or existing",
		"--initial-cluster=n1":                                           "name=URL",
		"--initial-cluster=a=http://h:1,b=http://h:1":                    "belongs to one member",
		"--heartbeat-interval=500":                                       "at least as 5 times",
		"--election-timeout=60000":                                       "too long",
		"--auto-compaction-mode=never":                                   "auto-compaction-mode",
		"--auto-compaction-mode=revision --auto-compaction-retention=5m": "number of revisions",
		"--tls-min-version=TLS1.3 --tls-max-version=TLS1.2":              "greater than",
		"--cipher-suites=ROT13":                                          "ROT13",
		"--cert-file=c":                                                  "belong together",
		"--log-level=loud":                                               "log-level",
		"--feature-gates=Magic=true":                                     "Magic",
		"--bcrypt-cost=99":                                               "between 4 and 31",
	} {
		if _, err := parse(strings.Fields(args), nil, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want something about %q", args, err, want)
		}
	}
	for _, args := range []string{"--force-new-cluster=false", "--logger=zap", "--discovery=", "--unsafe-no-fsync", "--socket-reuse-port=false",
		"--snapshot-count 5 --pre-vote=false --v2-deprecation=gone -vv --enable-v2"} {
		if _, err := parse(strings.Fields(args), nil, ""); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestCompactionPolicy(t *testing.T) {
	for args, want := range map[string]any{
		"--auto-compaction-retention=1":                                    time.Hour,
		"--auto-compaction-retention=90m":                                  90 * time.Minute,
		"--auto-compaction-mode=revision --auto-compaction-retention=1000": int64(1000),
	} {
		s := mustParse(t, strings.Fields(args), nil, "")
		if s.CompactPeriod != want && s.CompactRevisions != want {
			t.Errorf("%s: %s, %d", args, s.CompactPeriod, s.CompactRevisions)
		}
	}
}

func TestAMemberMustBeListedAsItAdvertises(t *testing.T) {
	const three = "--initial-cluster=a=http://h1:1,b=https://h2:1,b=https://h2:2"
	s := mustParse(t, []string{three, "--name=b", "--initial-advertise-peer-urls=https://h2:2,https://h2:1"}, nil, "")
	if err := s.CheckBegin(); err != nil {
		t.Error(err)
	}
	for args, want := range map[string]string{
		"--name=c": "couldn't find local name",
		"--name=b --initial-advertise-peer-urls=https://h2:2":            "missing from --initial-advertise-peer-urls",
		"--name=a --initial-advertise-peer-urls=http://h1:1,http://h1:2": "missing from --initial-cluster",
	} {
		s := mustParse(t, append(strings.Fields(args), three), nil, "")
		if err := s.CheckBegin(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestASocketFileIsAURL(t *testing.T) {
	us, err := ParseURLs("unix://localhost:2379,unixs:/run/etcd.sock,unix:///run/e,unix:rel,http://h:1,http://h:1")
	var got []string
	for _, u := range us {
		got = append(got, u.Scheme+" "+u.Addr)
	}
	want := []string{"http h:1", "unix /run/e", "unix localhost:2379", "unix rel", "unixs /run/etcd.sock"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %q", err, got)
	}
}

// Every flag that the original's help names is in the table; the original's help was read for 3.7.3.
func TestTheTableSaysWhyForEveryFlagThatDoesNothing(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range table {
		if seen[r.name] {
			t.Errorf("%s stands twice", r.name)
		}
		seen[r.name] = true
		if (r.use != honoured) != (r.why != "") {
			t.Errorf("%s: use %d with the reason %q", r.name, r.use, r.why)
		}
		if err := r.kind.check(r.def); r.use == honoured && r.def != "" && err != nil {
			t.Errorf("%s: default %q: %v", r.name, r.def, err)
		}
	}
}

// FuzzParse: for any command line or file, the answer is settings or an error.
func FuzzParse(f *testing.F) {
	f.Add("--name n1 -auto-tls", "name: n1\nclient-transport-security:\n  auto-tls: true\n")
	f.Add("--initial-cluster a=http://h:1 --listen-peer-urls unix://x", "listen-peer-urls: [1, {a: b}]\n")
	f.Fuzz(func(t *testing.T, args, file string) {
		parse(strings.Fields(args), nil, "")
		if s, err := parse([]string{"--config-file=/etc/etcd.yaml"}, nil, file); err == nil && s.Cluster[s.Name] == nil {
			_ = s.CheckBegin()
		}
	})
}
