package flags

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// readAddresses fills in the advertised URLs and checks all URLs.
func (g *given) readAddresses(s *Settings) error {
	if g.has("listen-client-urls") && !g.has("advertise-client-urls") && !g.file {
		return errors.New("--advertise-client-urls is required when --listen-client-urls is set explicitly")
	}
	for _, us := range [][]URL{s.ListenPeer, s.ListenClient, s.ListenClientHTTP, s.ListenMetrics} {
		if err := checkBind(us); err != nil {
			return err
		}
	}
	if len(s.ListenPeer) == 0 || len(s.ListenClient) == 0 {
		return errors.New("--listen-peer-urls and --listen-client-urls need one URL each at least")
	}
	if i := slices.IndexFunc(s.ListenPeer, func(u URL) bool { return u.TLS() != s.ListenPeer[0].TLS() }); i >= 0 {
		return fmt.Errorf("--listen-peer-urls %s: members speak TLS with each other or they do not; give all of them one scheme", JoinURLs(s.ListenPeer))
	}
	// Listening everywhere and advertising the default: no other host could dial localhost.
	if !g.has("initial-advertise-peer-urls") && s.ListenPeer[0].Host() == "0.0.0.0" {
		s.AdvertisePeer = reachable(s.ListenPeer[0], s.AdvertisePeer)
	}
	if !g.has("advertise-client-urls") && s.ListenClient[0].Host() == "0.0.0.0" {
		s.AdvertiseClient = reachable(s.ListenClient[0], s.AdvertiseClient)
	}
	if err := checkDial(s.AdvertisePeer); err != nil {
		return fmt.Errorf(`--initial-advertise-peer-urls %q must be "host:port" (%w)`, JoinURLs(s.AdvertisePeer), err)
	}
	if err := checkDial(s.AdvertiseClient); err != nil {
		return fmt.Errorf(`--advertise-client-urls %q must be in the format "host:port", "unix:/path/to/socket" or "unixs:/path/to/socket" (%w)`,
			JoinURLs(s.AdvertiseClient), err)
	}
	for _, u := range s.ListenClientHTTP {
		if slices.ContainsFunc(s.ListenClient, func(o URL) bool { return o.Addr == u.Addr }) {
			return fmt.Errorf("cannot bind both --listen-client-urls and --listen-client-http-urls on the same url %s", u)
		}
	}
	return nil
}

// reachable puts this machine's first address of its own into the default, if it has one.
func reachable(listen URL, def []URL) []URL {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return def
	}
	_, port, _ := net.SplitHostPort(listen.Addr)
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return []URL{{listen.Scheme, net.JoinHostPort(n.IP.String(), port)}}
		}
	}
	return def
}

func (g *given) readCluster(s *Settings) (err error) {
	switch v := g.value("initial-cluster-state"); v {
	case "new":
	case "existing":
		s.Existing = true
	default:
		return fmt.Errorf("--initial-cluster-state %s: it is new or existing", v)
	}
	v := g.value("initial-cluster")
	if v == "" { // the member alone
		s.Cluster = map[string][]URL{s.Name: s.AdvertisePeer}
		return nil
	}
	s.Cluster, err = parseCluster(v)
	return err
}

// CheckBegin looks at what matters only to a directory that belongs to no cluster yet: this member must be listed, under
// the addresses it advertises.
func (s *Settings) CheckBegin() error {
	mine, ok := s.Cluster[s.Name]
	if !ok {
		return fmt.Errorf("couldn't find local name %q in the initial cluster configuration", s.Name)
	}
	for _, u := range mine {
		if !slices.Contains(s.AdvertisePeer, u) {
			return fmt.Errorf("--initial-cluster has %s=%s but missing from --initial-advertise-peer-urls=%s", s.Name, u, JoinURLs(s.AdvertisePeer))
		}
	}
	for _, u := range s.AdvertisePeer {
		if !slices.Contains(mine, u) {
			return fmt.Errorf("--initial-advertise-peer-urls has %s but missing from --initial-cluster=%s", u, s.Name)
		}
	}
	return nil
}

func (g *given) readTimes(s *Settings) error {
	switch {
	case s.Heartbeat <= 0:
		return fmt.Errorf("--heartbeat-interval must be >0 (set to %s)", s.Heartbeat)
	case s.Election <= 0:
		return fmt.Errorf("--election-timeout must be >0 (set to %s)", s.Election)
	case 5*s.Heartbeat > s.Election:
		return fmt.Errorf("--election-timeout[%s] should be at least as 5 times as --heartbeat-interval[%s]", s.Election, s.Heartbeat)
	case s.Election > maxElection:
		return fmt.Errorf("--election-timeout[%s] is too long, and should be set less than %s", s.Election, maxElection)
	case s.MaxTxnOps < 1 || s.MaxRequestBytes < 1 || s.MaxLearners < 0 || s.AuthTokenTTL < 0:
		return errors.New("--max-txn-ops, --max-request-bytes, --max-learners and --auth-token-ttl are not negative, the first two not 0")
	case s.BcryptCost < 4 || s.BcryptCost > 31:
		return fmt.Errorf("--bcrypt-cost %d: it is between 4 and 31", s.BcryptCost)
	}
	return nil
}

func (g *given) readCompaction(s *Settings) error {
	mode, v := g.value("auto-compaction-mode"), g.value("auto-compaction-retention")
	n, err := strconv.ParseInt(v, 10, 32)
	whole := err == nil && n >= 0
	switch mode {
	case "periodic":
		if whole { // hours, if there is no unit
			s.CompactPeriod = time.Duration(n) * time.Hour
		} else if s.CompactPeriod, err = time.ParseDuration(v); err != nil || s.CompactPeriod < 0 {
			return fmt.Errorf("--auto-compaction-retention %s: it is a time such as 5m, or a number of hours", v)
		}
	case "revision":
		if !whole {
			return fmt.Errorf("--auto-compaction-retention %s: it is a number of revisions in mode revision", v)
		}
		s.CompactRevisions = n
	default:
		return fmt.Errorf("unknown auto-compaction-mode %q", mode)
	}
	return nil
}

func (g *given) readLog(s *Settings) error {
	switch v := g.value("log-level"); v {
	case "debug":
		s.LogLevel = slog.LevelDebug
	case "info":
		s.LogLevel = slog.LevelInfo
	case "warn":
		s.LogLevel = slog.LevelWarn
	case "error", "dpanic", "panic", "fatal":
		s.LogLevel = slog.LevelError
	default:
		return fmt.Errorf("--log-level %s: it is debug, info, warn, error, panic or fatal", v)
	}
	switch v := g.value("log-format"); v {
	case "json":
	case "console":
		s.LogConsole = true
	default:
		return fmt.Errorf("--log-format %s: it is json or console", v)
	}
	if len(s.LogOutputs) > 1 && slices.Contains(s.LogOutputs, "default") {
		return errors.New("--log-outputs: default stands alone")
	}
	return nil
}

// gates are etcd's feature gates. None changes anything here, but a misspelt one is an error there too.
var gates = []string{"AllAlpha", "AllBeta", "CompactHashCheck", "FastLeaseKeepAlive", "InitialCorruptCheck", "LeaseCheckpoint",
	"LeaseCheckpointPersist", "PriorityRequest", "SetMemberLocalAddr", "StopGRPCServiceOnDefrag", "TxnModeWriteWithSharedBuffer"}

func (g *given) readGates(*Settings) error {
	for _, item := range g.list("feature-gates") {
		name, v, _ := strings.Cut(item, "=")
		if !slices.Contains(gates, name) {
			return fmt.Errorf("unrecognized feature gate: %s", name)
		}
		if _, err := strconv.ParseBool(v); err != nil {
			return fmt.Errorf("invalid value of %s=%s, it is true or false", name, v)
		}
		g.warn("--feature-gates %s does nothing here", item)
	}
	return nil
}
