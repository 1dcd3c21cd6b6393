package flags

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TLS is one side's files, for clients or for members.
type TLS struct {
	CertFile, KeyFile string
	// DialCertFile and DialKeyFile are shown to other members instead, "" = the same.
	DialCertFile, DialKeyFile string
	CAFile                    string
	// CertAuth asks every client for a certificate. A CAFile does that too, as in etcd 3.7.
	CertAuth bool
	CRLFile  string
	// AllowedCNs and AllowedHostnames limit which certificates are accepted; empty: any that CAFile signed.
	AllowedCNs, AllowedHostnames []string
	// SkipSANCheck accepts a member's certificate from any address.
	SkipSANCheck bool
	// Auto makes a certificate if no files are given.
	Auto bool
}

// Given reports whether certificate files were named.
func (t *TLS) Given() bool { return t.CertFile != "" || t.KeyFile != "" }

// Settings is everything the flags of etcd say to this server, checked and with etcd's defaults filled in.
type Settings struct {
	Name, DataDir string
	WALDir        string // "" = in the data directory

	ListenClient, ListenClientHTTP []URL
	AdvertiseClient                []URL
	ListenPeer, AdvertisePeer      []URL
	ListenMetrics                  []URL

	Cluster  map[string][]URL // --initial-cluster: name → peer URLs
	Existing bool             // --initial-cluster-state existing
	Token    string

	Heartbeat, Election time.Duration
	StrictReconfig      bool
	MaxLearners         int

	QuotaBytes           int64 // 0 = etcd's default, negative = no quota
	MaxTxnOps            int
	MaxRequestBytes      int
	MaxConcurrentStreams uint32
	KeepaliveMinTime     time.Duration
	KeepaliveInterval    time.Duration // 0 = no pings
	KeepaliveTimeout     time.Duration
	ProgressInterval     time.Duration

	// Compaction by time or by count; both 0 = off.
	CompactPeriod    time.Duration
	CompactRevisions int64

	ClientTLS, PeerTLS TLS
	CipherSuites       []uint16
	MinTLS, MaxTLS     uint16 // 0 = the library's
	SelfSignedYears    int

	Gateway       bool
	Pprof         bool
	CORS          []string // "*" = every origin
	HostWhitelist []string // "*" = every host

	AuthToken    string
	AuthTokenTTL time.Duration
	BcryptCost   int

	LogLevel   slog.Level
	LogConsole bool // lines for people instead of JSON
	LogOutputs []string

	// Version asks for the version and nothing else.
	Version bool
	// Warnings are lines for the log: settings without effect, and settings that are not recommended.
	Warnings []string
}

// maxElection is etcd's bound on --election-timeout.
const maxElection = 50 * time.Second

// Parse reads one start of etcd: its arguments without the program's name, and its environment as os.Environ gives it. read reads the
// configuration file. A configuration file replaces flags and environment altogether. Errors: ErrHelp, *UsageError, or a sentence.
func Parse(args, environ []string, read func(path string) ([]byte, error)) (*Settings, error) {
	values, err := readArgs(args)
	if err != nil {
		return nil, err
	}
	g := &given{values: values}
	if g.value("version") != "" {
		if on, _ := strconv.ParseBool(g.value("version")); on {
			return &Settings{Version: true}, nil
		}
	}
	path := g.value("config-file")
	if path == "" {
		if i := slices.IndexFunc(environ, func(l string) bool { return strings.HasPrefix(l, "ETCD_CONFIG_FILE=") }); i >= 0 {
			path = strings.TrimPrefix(environ[i], "ETCD_CONFIG_FILE=")
		}
	}
	if path != "" {
		others := len(g.values)
		if g.has("config-file") {
			others--
		}
		if g, err = readFile(path, read); err != nil {
			return nil, err
		}
		if others > 0 {
			g.warn("the other flags do not count, because the configuration comes from %s", path)
		}
	} else if err := g.addEnvironment(environ); err != nil {
		return nil, err
	}
	return g.settings()
}

// settings checks what was given, flag by flag in the table's order and then together.
func (g *given) settings() (*Settings, error) {
	for _, r := range slices.Concat(table, fileOnly) {
		v, ok := g.values[r.name]
		switch {
		case !ok || r.use == honoured:
		case r.use == refused && (v == "" || v == r.unless || r.kind == boolean && !truth(v)):
		case r.use == refused:
			return nil, fmt.Errorf("--%s=%s is not offered: %s", r.name, v, r.why)
		default:
			g.warn("--%s does nothing here: %s", r.name, r.why)
		}
	}
	s := &Settings{
		Name: g.value("name"), DataDir: g.value("data-dir"), WALDir: g.value("wal-dir"),
		ListenClient: g.urls("listen-client-urls"), ListenClientHTTP: g.urls("listen-client-http-urls"),
		AdvertiseClient: g.urls("advertise-client-urls"), ListenPeer: g.urls("listen-peer-urls"),
		AdvertisePeer: g.urls("initial-advertise-peer-urls"), ListenMetrics: g.urls("listen-metrics-urls"),
		Token:     g.value("initial-cluster-token"),
		Heartbeat: time.Duration(g.number("heartbeat-interval")) * time.Millisecond,
		Election:  time.Duration(g.number("election-timeout")) * time.Millisecond,

		StrictReconfig: truth(g.value("strict-reconfig-check")), MaxLearners: int(g.number("max-learners")),
		QuotaBytes: g.number("quota-backend-bytes"), MaxTxnOps: int(g.number("max-txn-ops")),
		MaxRequestBytes: int(g.number("max-request-bytes")), MaxConcurrentStreams: uint32(g.number("max-concurrent-streams")),
		KeepaliveMinTime: g.duration("grpc-keepalive-min-time"), KeepaliveInterval: g.duration("grpc-keepalive-interval"),
		KeepaliveTimeout: g.duration("grpc-keepalive-timeout"), ProgressInterval: g.duration("watch-progress-notify-interval"),

		ClientTLS: TLS{CertFile: g.value("cert-file"), KeyFile: g.value("key-file"), CAFile: g.value("trusted-ca-file"),
			CertAuth: truth(g.value("client-cert-auth")), CRLFile: g.value("client-crl-file"), AllowedCNs: g.list("client-cert-allowed-cn"),
			AllowedHostnames: g.list("client-cert-allowed-hostname"), SkipSANCheck: true, Auto: truth(g.value("auto-tls"))},
		PeerTLS: TLS{CertFile: g.value("peer-cert-file"), KeyFile: g.value("peer-key-file"), DialCertFile: g.value("peer-client-cert-file"),
			DialKeyFile: g.value("peer-client-key-file"), CAFile: g.value("peer-trusted-ca-file"), CertAuth: truth(g.value("peer-client-cert-auth")),
			CRLFile: g.value("peer-crl-file"), AllowedCNs: g.list("peer-cert-allowed-cn"), AllowedHostnames: g.list("peer-cert-allowed-hostname"),
			SkipSANCheck: truth(g.value("peer-skip-client-san-verification")), Auto: truth(g.value("peer-auto-tls"))},
		SelfSignedYears: int(g.number("self-signed-cert-validity")),

		Gateway: truth(g.value("enable-grpc-gateway")), Pprof: truth(g.value("enable-pprof")),
		CORS: g.list("cors"), HostWhitelist: g.list("host-whitelist"),
		AuthToken: g.value("auth-token"), AuthTokenTTL: time.Duration(g.number("auth-token-ttl")) * time.Second,
		BcryptCost: int(g.number("bcrypt-cost")), LogOutputs: g.list("log-outputs"),
	}
	if s.DataDir == "" {
		s.DataDir = s.Name + ".etcd"
		g.warn("--data-dir was not given; using %s in the working directory", s.DataDir)
	}
	if s.Name == "default" {
		g.warn("members need names of their own; give this one a --name")
	}
	for _, step := range []func(*Settings) error{g.readAddresses, g.readCluster, g.readTimes, g.readCompaction, g.readTLS, g.readLog, g.readGates} {
		if err := step(s); err != nil {
			return nil, err
		}
	}
	s.Warnings = g.warnings
	return s, nil
}

// The values below were checked when they were set.

func truth(v string) bool { b, _ := strconv.ParseBool(v); return b }

func (g *given) urls(name string) []URL { u, _ := ParseURLs(g.value(name)); return u }

func (g *given) number(name string) int64 { n, _ := strconv.ParseInt(g.value(name), 0, 64); return n }

func (g *given) duration(name string) time.Duration {
	d, _ := time.ParseDuration(g.value(name))
	return d
}

func (g *given) list(name string) []string {
	var out []string
	for item := range strings.SplitSeq(g.value(name), ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
