// Package etcd is the program under the name etcd. That tool's flags, environment and configuration file come to the same setup as those of
// `holdfast serve`.
package etcd

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/node"
	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/doors/kv/compact"
	"github.com/holdfastdb/holdfast/doors/kv/etcd/flags"
	"github.com/holdfastdb/holdfast/doors/kv/migrate"
	kvprogram "github.com/holdfastdb/holdfast/doors/kv/program"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/serve/server"
)

// etcdName is the name under which this program takes etcd's flags: linked, copied, or as `holdfast etcd`.
const etcdName = "etcd"

// readyLine is what supervisors and test suites wait for in etcd's log.
const readyLine = "ready to serve client requests"

const etcdHelp = `Usage:

  etcd [flags]
    Start a server for etcd's clients. This is Holdfast under the name etcd: flags, ETCD_* variables
    and the configuration file are etcd %s's.

  etcd --version
    Show which etcd this server is like.

  etcd --config-file FILE
    Take everything from a configuration file; other flags and the environment do not count then.

The memory of the process is bounded by HOLDFAST_MEMORY (default: a quarter of the machine's or control
group's, 256MiB to 4GiB). A flag that means nothing here is taken with a line in the log that says why,
or refused if somebody might rely on it.

Flags (-flag is the same as --flag):
`

// run is the program under the name etcd. It returns the exit status: as etcd's, 2 for a command line that cannot be read
// and 1 for everything else.
func run(all serve.List, args, environ []string, stdout, stderr io.Writer) int {
	fail := func(err error, status int) int {
		fmt.Fprintf(stderr, "etcd: %s\n", strings.Join(strings.Fields(err.Error()), " "))
		return status
	}
	if len(args) > 0 && (args[0] == "gateway" || args[0] == "grpc-proxy") {
		return fail(fmt.Errorf("%s: this server has no proxies; clients can be given the addresses of all members", args[0]), 1)
	}
	s, err := flags.Parse(args, environ, os.ReadFile)
	var usage *flags.UsageError
	switch {
	case errors.Is(err, flags.ErrHelp):
		fmt.Fprintf(stdout, etcdHelp, doorkv.APIVersion)
		for _, line := range flags.Help() {
			fmt.Fprintln(stdout, line)
		}
		return 0
	case errors.As(err, &usage):
		return fail(fmt.Errorf("%w; see `etcd --help`", err), 2)
	case err != nil:
		return fail(err, 1)
	case s.Version:
		fmt.Fprintf(stdout, "etcd Version: %s\nGit SHA: holdfast %s%s\nGo Version: %s\nGo OS/Arch: %s/%s\n",
			doorkv.APIVersion, cli.Version, cli.Revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return 0
	}
	if err := serveEtcd(all, s, environ, stdout, stderr); err != nil {
		return fail(err, 1)
	}
	return 0
}

// serveEtcd runs the server until a signal or a failure ends it.
func serveEtcd(all serve.List, s *flags.Settings, environ []string, stdout, stderr io.Writer) error {
	out, closeLog, err := server.OpenLogOutputs("--log-outputs", s.LogOutputs, stdout, stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	log := server.NewLog(out, s.LogLevel)
	if !s.LogConsole {
		log = newJSONLog(out, s.LogLevel)
	}
	getenv := func(name string) string {
		for _, line := range environ {
			if v, ok := strings.CutPrefix(line, name+"="); ok {
				return v
			}
		}
		return ""
	}
	memory, err := server.MemoryOf(getenv("HOLDFAST_MEMORY"))
	if err != nil {
		return err
	}
	if err := server.TuneRuntime(memory.Bytes, getenv); err != nil {
		return err
	}
	for _, w := range s.Warnings {
		log.Warn(w)
	}
	su, err := Setup(all, s, memory, log)
	if err != nil {
		return err
	}
	su.NotifySocket = getenv("NOTIFY_SOCKET")
	if v := getenv("HOLDFAST_PEER_OVERRIDE"); v != "" {
		if su.Join.PeerOverride, err = server.ParseOverride(v); err != nil {
			return fmt.Errorf("HOLDFAST_PEER_OVERRIDE %s: %w", v, err)
		}
	}
	return server.Serve(su, log, func(srv *server.Server) {
		log.Info(readyLine, "name", s.Name, "at", srv.Addresses())
	})
}

// Setup turns etcd's settings into what start takes. It reads or makes certificates and looks at the data directory, and
// changes nothing else.
func Setup(all serve.List, s *flags.Settings, memory server.Memory, log *slog.Logger) (*server.Setup, error) {
	clientURLs := slices.Concat(s.ListenClient, s.ListenClientHTTP)
	clients, err := loadEtcdTLS(s, "", s.ClientTLS, clientURLs, log)
	if err != nil {
		return nil, err
	}
	members, err := loadEtcdTLS(s, "peer-", s.PeerTLS, s.ListenPeer, log)
	if err != nil {
		return nil, err
	}
	for _, u := range slices.Concat(s.ListenClient, s.ListenPeer) {
		if !u.TLS() && !u.Unix() && !(cli.Address{Host: u.Host(), Port: "1"}).Loopback() {
			log.Warn("anyone who reaches this address can read and change everything", "open", u.String())
		}
	}
	if err := doorkv.CheckAuthToken(s.AuthToken, os.ReadFile); err != nil {
		return nil, fmt.Errorf("--auth-token %s: %w", s.AuthToken, err)
	}
	heartbeats := int(s.Election / s.Heartbeat)
	su := &server.Setup{
		Node: node.Config{Dir: s.DataDir, WALDir: s.WALDir, Beside: []string{fixtures}, MemoryBytes: memory.Bytes, ClientURLs: flags.Strings(s.AdvertiseClient),
			TickInterval: s.Heartbeat, ElectionTicks: heartbeats, LooseReconfig: !s.StrictReconfig, MaxLearners: s.MaxLearners},
		Join: node.StartOptions{Name: s.Name, NameGiven: s.Name != "default", PeerAddr: flags.JoinURLs(s.AdvertisePeer), KeepPeerURLs: true,
			PeerTLS: members.accept(), PeerDialTLS: members.connect(), PeerRoots: members.roots(), PeerWatch: members.watch(), Token: s.Token},
		MemoryWhy:    memory.Why,
		Advise:       func(err error) error { return server.Advise(err, "--data-dir", s.DataDir) },
		Certificates: slices.Concat(clients.pairs(), members.pairs()),
		Authorities:  slices.Concat(clients.believed(), members.believed()),
	}
	keys := kvprogram.Setup{
		Options: doorkv.Options{QuotaBytes: s.QuotaBytes, MaxRequestBytes: s.MaxRequestBytes, MaxTxnOps: s.MaxTxnOps,
			ProgressInterval: s.ProgressInterval,
			// etcd derives these from the election timeout.
			MinLeaseTTL:     int64((s.Election*3/2 + time.Second - 1) / time.Second),
			RequestTimeout:  5*time.Second + 2*s.Election,
			NoLeaderTimeout: 3 * s.Election,
			CORS:            s.CORS, HostWhitelist: s.HostWhitelist, NoGateway: !s.Gateway, Pprof: s.Pprof,
			MaxConcurrentStreams: s.MaxConcurrentStreams, KeepaliveMinTime: s.KeepaliveMinTime,
			KeepaliveInterval: s.KeepaliveInterval, KeepaliveTimeout: s.KeepaliveTimeout,
			AuthToken: s.AuthToken, AuthTokenTTL: s.AuthTokenTTL, BcryptCost: s.BcryptCost,
			ClientCertAuth: s.ClientTLS.CertAuth},
		Compaction: compact.Policy{Period: s.CompactPeriod, Revisions: s.CompactRevisions},
	}
	if s.KeepaliveInterval == 0 {
		keys.Options.KeepaliveInterval = -1
	}
	for _, u := range s.ListenPeer {
		at := etcdPlace(u, "--listen-peer-urls", nil)
		su.Peers = append(su.Peers, at)
		if u.Unix() {
			at.Addr = "unix:" + at.Addr
		}
		su.Join.PeerListen = append(su.Join.PeerListen, at.Addr)
	}
	for _, at := range clientPlaces(s.ListenClient, "--listen-client-urls", clients) {
		at.NoHTTP = len(s.ListenClientHTTP) > 0
		keys.Places = append(keys.Places, at)
	}
	for _, at := range clientPlaces(s.ListenClientHTTP, "--listen-client-http-urls", clients) {
		at.NoGRPC = true
		keys.Places = append(keys.Places, at)
	}
	for _, u := range s.ListenMetrics {
		if u.TLS() && clients == nil {
			return nil, fmt.Errorf("--listen-metrics-urls %s: client TLS key/cert (--cert-file, --key-file) must be provided for metrics secure url", u)
		}
		keys.Metrics = append(keys.Metrics, etcdPlace(u, "--listen-metrics-urls", clients))
	}
	share, err := budget.For(memory.Bytes, all.Claims(func(door string) bool { return door == kvprogram.Door.Name })...)
	if err != nil {
		return nil, fmt.Errorf("HOLDFAST_MEMORY %s: %w", cli.SizeString(memory.Bytes), err)
	}
	su.Node.Shares = &share
	// The other doors are off here, but this member may lead others that have them.
	cleartext := func() *tls.Config { return nil }
	common := &serve.Common{Dir: s.DataDir, Shares: share, Clients: cleartext, Readers: cleartext, Log: log}
	if err := su.OnlyDoor(all, "kv", keys.Service(share), common); err != nil {
		return nil, err
	}
	return su, etcdCluster(s, su)
}

// clientPlaces are where URLs say to listen. An address that is there in both schemes is one place that takes both.
func clientPlaces(us []flags.URL, flag string, certs *etcdTLS) []serve.Place {
	var all []serve.Place
	for _, u := range us {
		at := etcdPlace(u, flag, certs)
		i := slices.IndexFunc(all, func(o serve.Place) bool { return o.Network == at.Network && o.Addr == at.Addr })
		if i < 0 {
			all = append(all, at)
			continue
		}
		if all[i].TLS == nil {
			all[i].TLS = at.TLS
		}
		all[i].AlsoPlain = true // equal URLs are one already, so these differ in the scheme
	}
	return all
}

// etcdPlace is where a URL says to listen.
func etcdPlace(u flags.URL, flag string, certs *etcdTLS) serve.Place {
	at := serve.Place{Network: "tcp", Addr: u.Addr, Flag: flag}
	if u.Unix() {
		at.Network = "unix"
	}
	if u.TLS() {
		at.TLS = certs.accept()
	}
	return at
}

// etcdCluster says how this member comes to its cluster. For a directory that belongs to one already it does not matter.
func etcdCluster(s *flags.Settings, su *server.Setup) error {
	switch ident, err := node.ReadIdentity(disk.OS(), s.DataDir); {
	case err == nil && ident.Cluster != 0:
		joinPeers(s, su) // an address there is dialled where the log's does not answer
		return nil
	case err != nil && !errors.Is(err, node.ErrNoIdentity):
		return su.Advise(err)
	}
	if cli.IsFile(filepath.Join(s.DataDir, "member", "snap", "db")) {
		if len(s.Cluster) > 1 {
			return migrate.SeveralMembers(s.DataDir)
		}
		if s.WALDir != "" {
			return fmt.Errorf("--data-dir %s is etcd's, and its log lies elsewhere: start without --wal-dir, or use `holdfast import --from-data-dir`", s.DataDir)
		}
		su.Adopt = func(log *slog.Logger) error { return migrate.Adopt(su.Node, su.Join.Name, su.Join.PeerAddr, log) }
		return nil
	}
	if _, err := os.Stat(filepath.Join(s.DataDir, "member", "snap")); err == nil {
		return fmt.Errorf("--data-dir %s is etcd's own and is left untouched: give another directory, and bring the data over with `holdfast import`", s.DataDir)
	}
	if err := s.CheckBegin(); err != nil {
		return err
	}
	if s.Existing {
		var others []string
		for name, us := range s.Cluster {
			if name != s.Name {
				others = append(others, flags.JoinURLs(us))
			}
		}
		if len(others) == 0 {
			return errors.New("--initial-cluster-state existing, but --initial-cluster names no other member; list them all, as `etcdctl member add` prints it")
		}
		slices.Sort(others)
		su.Join.Join, su.Join.JoinAdded = strings.Join(others, ","), true
		return nil
	}
	joinPeers(s, su)
	return nil
}

// joinPeers takes in the list of members that the flags have.
func joinPeers(s *flags.Settings, su *server.Setup) {
	su.Join.Peers = map[string]string{}
	for name, us := range s.Cluster {
		su.Join.Peers[name] = flags.JoinURLs(us)
	}
}

// Door is the kv door, and this program under its other name.
var Door = door()

func door() serve.Door {
	d := kvprogram.Door
	d.Alias = &serve.Alias{Named: named, Run: run, Command: command}
	return d
}

// named reports whether the program was called as etcd.
func named(argv []string) bool {
	return len(argv) > 0 && filepath.Base(argv[0]) == etcdName
}

// command is `holdfast etcd`, the same without a link.
func command(all serve.List) *cli.Command {
	return &cli.Command{
		Name:    "etcd",
		Summary: "run a server with etcd's flags; a link named etcd to this program does the same",
		About: `Takes etcd's flags, its ETCD_* environment and its configuration file. See docs/OPERATIONS.md, and
` + "`holdfast etcd --help`" + ` for the list.`,
		Examples: []string{"holdfast etcd --name n1 --data-dir ./n1.etcd"},
		Raw: func(args, environ []string, stdout, stderr io.Writer) int {
			return run(all, args, environ, stdout, stderr)
		},
	}
}
