package flags

// use is the effect of a flag of etcd's here.
type use int

const (
	// honoured: it means here what it means there.
	honoured use = iota
	// idle: there is nothing here that it could set, and ignoring it does no harm. One line in the log says so.
	idle
	// refused: it asks for something this server does not do. The start fails with the reason.
	refused
)

// row is one flag. A default is etcd's, for flags that are honoured; for the others it is not needed.
type row struct {
	name string
	kind kind
	def  string
	use  use
	why  string // idle: what happens instead; refused: why, and the remedy
	// unless is a value of a refused flag that asks for what happens anyway, and is therefore taken.
	unless string
	// notInFile: etcd's reader of its file does not know the flag and passes over it, so a line with it means nothing.
	notInFile bool
}

// table is every flag of etcd 3.7.3, in the order of its help.
var table = []row{
	// Member.
	{name: "name", def: "default"},
	{name: "data-dir"},
	{name: "wal-dir"},
	{name: "snapshot-count", kind: number, use: idle, why: "the log is shortened by bytes, as soon as the store holds them durably"},
	{name: "heartbeat-interval", kind: number, def: "100"},
	{name: "election-timeout", kind: number, def: "1000"},
	{name: "initial-election-tick-advance", kind: boolean, use: idle, why: "a member alone in its cluster waits for no election"},
	{name: "listen-peer-urls", kind: urls, def: "http://localhost:2380"},
	{name: "listen-client-urls", kind: urls, def: "http://localhost:2379"},
	{name: "listen-client-http-urls", kind: urls},
	{name: "max-snapshots", kind: number, use: idle, why: "no snapshot files are kept"},
	{name: "max-wals", kind: number, use: idle, why: "the segments of the log are recycled"},
	{name: "memory-mlock", kind: boolean, use: idle, why: "no file is mapped into memory"},
	{name: "quota-backend-bytes", kind: number, def: "0"},
	{name: "backend-bbolt-freelist-type", use: idle, why: "there is no bbolt file"},
	{name: "backend-batch-interval", kind: duration, use: idle, why: "a write is in the store when it is answered"},
	{name: "backend-batch-limit", kind: number, use: idle, why: "a write is in the store when it is answered"},
	{name: "max-txn-ops", kind: number, def: "128"},
	{name: "max-request-bytes", kind: number, def: "1572864"},
	{name: "max-concurrent-streams", kind: number, def: "4294967295"},
	{name: "grpc-keepalive-min-time", kind: duration, def: "5s"},
	{name: "grpc-keepalive-interval", kind: duration, def: "2h"},
	{name: "grpc-keepalive-timeout", kind: duration, def: "20s"},
	{name: "socket-reuse-port", kind: boolean, use: refused, unless: "false",
		why: "a second process on the port would answer for this one without anybody noticing; give each its own --listen-client-urls"},
	{name: "socket-reuse-address", kind: boolean, use: idle, why: "addresses are always bound again at once"},
	{name: "enable-grpc-gateway", kind: boolean, def: "true"},
	{name: "raft-read-timeout", kind: duration, use: idle, why: "an idle connection between members is not cut"},
	{name: "raft-write-timeout", kind: duration, use: idle, why: "a write to another member may take 10 s"},
	{name: "feature-gates"},

	// Clustering.
	{name: "initial-advertise-peer-urls", kind: urls, def: "http://localhost:2380"},
	{name: "initial-cluster"},
	{name: "initial-cluster-state", def: "new"},
	{name: "initial-cluster-token", def: "etcd-cluster"},
	{name: "advertise-client-urls", kind: urls, def: "http://localhost:2379"},
	{name: "discovery", use: refused, why: "there is no discovery service here; list the members in --initial-cluster"},
	{name: "discovery-token", use: refused, why: "there is no discovery service here; list the members in --initial-cluster"},
	{name: "discovery-endpoints", use: refused, why: "there is no discovery service here; list the members in --initial-cluster"},
	{name: "discovery-dial-timeout", kind: duration, use: idle, why: "there is no discovery service here"},
	{name: "discovery-request-timeout", kind: duration, use: idle, why: "there is no discovery service here"},
	{name: "discovery-keepalive-time", kind: duration, use: idle, why: "there is no discovery service here"},
	{name: "discovery-keepalive-timeout", kind: duration, use: idle, why: "there is no discovery service here"},
	{name: "discovery-insecure-transport", kind: boolean, use: idle, why: "there is no discovery service here"},
	{name: "discovery-insecure-skip-tls-verify", kind: boolean, use: idle, why: "there is no discovery service here"},
	{name: "discovery-cert", use: idle, why: "there is no discovery service here"},
	{name: "discovery-key", use: idle, why: "there is no discovery service here"},
	{name: "discovery-cacert", use: idle, why: "there is no discovery service here"},
	{name: "discovery-user", use: idle, why: "there is no discovery service here"},
	{name: "discovery-password", use: idle, why: "there is no discovery service here"},
	{name: "discovery-fallback", use: refused, unless: "exit", notInFile: true, why: "the v2 proxy is gone from etcd too; take the flag away"},
	{name: "discovery-proxy", use: idle, why: "there is no discovery service here"},
	{name: "discovery-srv", use: refused, why: "members are not looked up in DNS; list them in --initial-cluster"},
	{name: "discovery-srv-name", use: idle, why: "members are not looked up in DNS"},
	{name: "strict-reconfig-check", kind: boolean, def: "true"},
	{name: "pre-vote", kind: boolean, use: idle, why: "members always ask before they stand for election"},
	{name: "auto-compaction-retention", def: "0"},
	{name: "auto-compaction-mode", def: "periodic"},
	{name: "v2-deprecation", use: idle, why: "the v2 keys are served, in a space of their own"},

	// Security.
	{name: "cert-file"},
	{name: "key-file"},
	{name: "client-cert-auth", kind: boolean, def: "false"},
	{name: "client-cert-file", use: idle, why: "the server does not call itself"},
	{name: "client-key-file", use: idle, why: "the server does not call itself"},
	{name: "client-crl-file"},
	{name: "client-cert-allowed-hostname", kind: list},
	{name: "trusted-ca-file"},
	{name: "auto-tls", kind: boolean, def: "false"},
	{name: "peer-cert-file"},
	{name: "peer-key-file"},
	{name: "peer-client-cert-auth", kind: boolean, def: "false"},
	{name: "peer-client-cert-file"},
	{name: "peer-client-key-file"},
	{name: "peer-trusted-ca-file"},
	{name: "peer-cert-allowed-cn", kind: list},
	{name: "peer-cert-allowed-hostname", kind: list},
	{name: "peer-auto-tls", kind: boolean, def: "false"},
	{name: "self-signed-cert-validity", kind: number, def: "1"},
	{name: "peer-crl-file"},
	{name: "cipher-suites", kind: list},
	{name: "cors", kind: list, def: "*"},
	{name: "host-whitelist", kind: list, def: "*"},
	{name: "tls-min-version", def: "TLS1.2"},
	{name: "tls-max-version"},

	// Auth.
	{name: "auth-token", def: "simple"},
	{name: "bcrypt-cost", kind: number, def: "10"},
	{name: "auth-token-ttl", kind: number, def: "300"},

	// Profiling and monitoring.
	{name: "enable-pprof", kind: boolean, def: "false"},
	{name: "metrics", use: idle, why: "every metric is always there"},
	{name: "listen-metrics-urls", kind: urls},

	// Logging.
	{name: "logger", use: refused, unless: "zap", why: "etcd knows only zap; take the flag away"},
	{name: "log-outputs", kind: list, def: "default"},
	{name: "log-level", def: "info"},
	{name: "log-format", def: "json"},
	{name: "enable-log-rotation", kind: boolean, use: refused, unless: "false",
		why: "a log file would grow without end; let logrotate or the journal keep it and take the flag away"},
	{name: "log-rotation-config-json", use: idle, why: "logrotate or the journal rotate files"},
	{name: "warning-unary-request-duration", kind: duration, use: idle, why: "how long each step of a request took is in the metrics"},

	// Distributed tracing.
	{name: "enable-distributed-tracing", kind: boolean, use: idle, why: "no traces are sent"},
	{name: "distributed-tracing-address", use: idle, why: "no traces are sent"},
	{name: "distributed-tracing-service-name", use: idle, why: "no traces are sent"},
	{name: "distributed-tracing-instance-id", use: idle, why: "no traces are sent"},
	{name: "distributed-tracing-sampling-rate", kind: number, use: idle, why: "no traces are sent"},

	// Features.
	{name: "corrupt-check-time", kind: duration, use: idle, why: "members compare a hash of their state with every batch they apply"},
	{name: "compact-hash-check-time", kind: duration, use: idle, why: "members compare a hash of their state with every batch they apply"},
	{name: "compaction-batch-limit", kind: number, use: idle, why: "compaction yields to writes by itself"},
	{name: "compaction-sleep-interval", kind: duration, use: idle, why: "compaction yields to writes by itself"},
	{name: "peer-skip-client-san-verification", kind: boolean, def: "false"},
	{name: "watch-progress-notify-interval", kind: duration, def: "10m"},
	{name: "warning-apply-duration", kind: duration, use: idle, why: "how long each step of a request took is in the metrics"},
	{name: "bootstrap-defrag-threshold-megabytes", kind: number, use: idle, why: "space comes back by itself"},
	{name: "max-learners", kind: number, def: "1"},
	{name: "downgrade-check-time", kind: duration, use: idle, why: "there is no downgrade to wait for"},
	{name: "snapshot-catchup-entries", kind: number, use: idle, why: "64 MiB of log are kept for members that are behind"},

	// Unsafe.
	{name: "force-new-cluster", kind: boolean, use: refused, unless: "false",
		why: "it would make a second cluster with the ids of the first; save a snapshot and run `holdfast snapshot restore` instead"},
	{name: "unsafe-no-fsync", kind: boolean, use: idle, why: "nothing is acknowledged before it is on the disk"},

	// etcd 3.4 and before, taken by scripts that outlived them.
	{name: "enable-v2", kind: boolean, use: idle, why: "the v2 keys API is always on"},
	{name: "cluster-active-size", kind: bare, use: idle, why: "etcd ignores it too"},
	{name: "cluster-remove-delay", kind: bare, use: idle, why: "etcd ignores it too"},
	{name: "cluster-sync-interval", kind: bare, use: idle, why: "etcd ignores it too"},
	{name: "config", kind: bare, use: idle, why: "etcd ignores it too; --config-file names a file"},
	{name: "force", kind: bare, use: idle, why: "etcd ignores it too"},
	{name: "max-result-buffer", kind: bare, use: idle, why: "etcd ignores it too"},
	{name: "max-retry-attempts", kind: bare, use: idle, why: "etcd ignores it too"},
	{name: "peer-heartbeat-interval", kind: bare, use: idle, why: "etcd ignores it too"},
	{name: "peer-election-timeout", kind: bare, use: idle, why: "etcd ignores it too"},
	{name: "retry-interval", kind: bare, use: idle, why: "etcd ignores it too"},
	{name: "snapshot", kind: bare, use: idle, why: "etcd ignores it too"},
	{name: "v", kind: bare, use: idle, why: "etcd ignores it too"},
	{name: "vv", kind: bare, use: idle, why: "etcd ignores it too"},

	// About the command itself.
	{name: "config-file"},
	{name: "version", kind: boolean, def: "false"},
}

// fileOnly are settings that etcd's config file has and its command line has not.
var fileOnly = []row{
	{name: "client-cert-allowed-cn", kind: list},
}

// find returns the row of a flag, nil if etcd has none of that name.
func find(name string) *row {
	for i := range table {
		if table[i].name == name {
			return &table[i]
		}
	}
	for i := range fileOnly {
		if fileOnly[i].name == name {
			return &fileOnly[i]
		}
	}
	return nil
}

// Help lists the flags that mean something here, one a line.
func Help() []string {
	var out []string
	for _, r := range table {
		if r.use != honoured {
			continue
		}
		line := "  --" + r.name
		if r.def != "" {
			line += " '" + r.def + "'"
		}
		out = append(out, line)
	}
	return out
}
