package program

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/doors/kv/compact"
	"github.com/holdfastdb/holdfast/doors/kv/etcddata"
	"github.com/holdfastdb/holdfast/doors/kv/lease"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/doors/kv/refine"
	"github.com/holdfastdb/holdfast/doors/kv/v2"
	"github.com/holdfastdb/holdfast/doors/kv/v2/expire"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/serve/port"
)

// settings are the door's flags.
type settings struct {
	at           cli.Address
	quota        int64 // bytes, 0 = no limit
	authToken    string
	authTokenTTL time.Duration
	bcryptCost   int
}

// Options implements doors.Settings.
func (s *settings) Options() []serve.Option {
	return []serve.Option{
		{Name: "kv", Arg: "ADDR", Default: "127.0.0.1:2379", Door: true, Help: "etcd v3 clients, or off",
			Set: func(v string) error { return cli.SetAddress(&s.at, v) }},
		{Name: "kv-quota", Arg: "SIZE", Default: "2GiB", Help: "keys and values with history the kv door takes in, 0 for no limit",
			Set: func(v string) error { return cli.SetSize(&s.quota, v) }},
		{Name: "kv-auth-token", Arg: "KIND", Default: "simple", Help: "tokens of etcd clients: simple, or jwt,sign-method=…,pub-key=…,priv-key=…,ttl=…",
			Set: func(v string) error { return setAuthToken(&s.authToken, v) }},
		{Name: "kv-auth-token-ttl", Arg: "TIME", Default: "5m", Help: "how long a simple token lives unused",
			Set: func(v string) error { return setLifetime(&s.authTokenTTL, v) }},
		{Name: "kv-bcrypt-cost", Arg: "N", Default: "10", Help: "what a guess at a password costs, 4 to 31; each step doubles it",
			Set: func(v string) error { return setBcryptCost(&s.bcryptCost, v) }},
	}
}

// Listens implements doors.Settings.
func (s *settings) Listens() []serve.Listen {
	return []serve.Listen{{Flag: "kv", At: s.at, Clients: true, Risk: "anyone who reaches it may read and write everything until authentication is enabled, " +
		"and without TLS passwords and data go in the clear"}}
}

// Check implements doors.Settings.
func (s *settings) Check() error { return nil }

// Service implements doors.Settings.
func (s *settings) Service(c *serve.Common) (*serve.Service, error) {
	set := Setup{Options: doorkv.Options{QuotaBytes: s.quota, AuthToken: s.authToken, AuthTokenTTL: s.authTokenTTL, BcryptCost: s.bcryptCost,
		ClientCertAuth: c.ClientCertificates, CORS: c.Origins, RefuseAuthEnable: c.ClientsPassForMembers}}
	if s.quota == 0 {
		set.Options.QuotaBytes = -1 // the door's word for no limit
	}
	if !s.at.Off() {
		set.Places = []serve.Place{{Network: "tcp", Addr: s.at.String(), Flag: "--kv", Protocols: port.Protocols{TLS: c.Clients()}}}
	}
	return set.Service(c.Shares), nil
}

// Setup is a kv door and its workers, built from Holdfast's or etcd's flags.
type Setup struct {
	// Places are where clients are served, none: the door is off.
	Places []serve.Place
	// Metrics is where only /metrics, /health and the like are answered, for networks of monitoring systems.
	Metrics []serve.Place
	// Options of the door; Service adds shares of memory, and the rest is added when it opens.
	Options doorkv.Options
	// Compaction is the policy by which the leader forgets old revisions.
	Compaction compact.Policy
}

// Service is its running part in a server.
func (s *Setup) Service(share budget.Shares) *serve.Service {
	r := &running{Setup: *s, ledger: share.Ledger}
	r.Options.MaxAnswerBytes, r.Options.MaxFlightBytes, r.Options.MaxCallBytes = share.Of(claimAnswers), share.Flight, share.Of(claimCalls)
	r.Options.CallRoom = func() int64 { return share.Ledger.Room(claimCalls) }
	r.Options.MaxLeaseBytes = func() int64 { return share.Ledger.Room(kvmachine.LeaseClaim) }
	r.Options.MaxIdentBytes, r.Options.MaxPinnedBytes, r.pins2 = share.RoomOfIdents, share.Of(claimPins), share.Of(claimPins2)
	r.Options.ReadFile = os.ReadFile
	places := append(append([]serve.Place{}, s.Places...), s.Metrics...)
	return &serve.Service{Places: places, Admin: section(func() keyspace { return r.keys }), Work: r.work, Open: r.open, Shutdown: r.shutdown}
}

// running is the door in one server. Its functions are called in order, those of doors.Service from one goroutine.
type running struct {
	Setup
	keys   *kvmachine.Machine
	nodes  *v2machine.Machine
	leases *lease.Worker
	pins2  int64 // bytes of v2's events that slow watchers may keep in memory
	ledger *budget.Ledger

	door *doorkv.Door // nil: off, or not open yet
	v2   *v2.Handler  // on the same port
	// metrics answers on the addresses for metrics only; nil: there are none.
	metrics *http.Server
}

// metricsTimeout bounds each part of a request on an address for metrics.
const metricsTimeout = 30 * time.Second

// work runs what the leader does: this member may lead others that have the door.
func (r *running) work(h *serve.Host) {
	r.keys, r.nodes = serve.Machine[*kvmachine.Machine](h), serve.Machine[*v2machine.Machine](h)
	r.leases = lease.New(h.Node, r.keys)
	h.Go(r.leases.Run)
	h.Go(expire.New(h.Node, r.nodes).Run)
	h.Go(func() { compact.Run(h.Node, r.keys, r.Compaction, h.Log) })
	if len(r.Places) > 0 { // else not counted here
		h.Go(func() { refine.Run(h.Node, r.keys, h.Log) })
	}
}

// open binds every address of the door and serves.
func (r *running) open(h *serve.Host) error {
	if len(r.Places) == 0 {
		return nil
	}
	opt := r.Options
	opt.Steps, opt.Conns, opt.Ack = h.Steps, h.Conns, h.Ack
	handler := v2.New(h.Node, r.nodes, v2.Options{RequestTimeout: opt.RequestTimeout, MaxRequestBytes: opt.MaxRequestBytes,
		MaxListBytes: opt.MaxAnswerBytes / 3, MaxPinnedBytes: r.pins2, Ack: h.Ack, Steps: h.Steps, Resume: func(c net.Conn) { r.door.Resume(c) },
		Catalogue: func() (bool, uint64) { return r.door.Catalogue() },
		RootBasic: func(host, user, password string) (uint64, bool) { return r.door.RootBasic(host, user, password) }})
	opt.V2, opt.V2Watchers, opt.Leases = handler.Handle, handler.Watchers, r.leases
	opt.SaveEtcd = etcddata.NewSaver(h.Node, nil, h.Dir).Save
	r.v2, r.door = handler, doorkv.New(h.Node, r.keys, r.nodes.Stats(), opt)
	h.Offer(kvpart.Beside(r.door.Beside))
	r.enterHeld()
	var bound []string
	for _, p := range r.Places {
		l, err := p.Listen()
		if err != nil {
			return err
		}
		bound = append(bound, "kv="+l.Addr().String())
		h.Serve("kv", func() error { return r.door.ServeAs(l, p.Protocols) })
	}
	h.Bound(bound...)
	return r.openMetrics(h)
}

// enterHeld tells the ledger what clients have drawn of the door's claims.
func (r *running) enterHeld() {
	held := r.door.Held
	r.ledger.Hold("flight", budget.Holder{Held: func() int64 { requests, _, _ := held(); return requests }})
	r.ledger.Hold(claimCalls, budget.Holder{Held: func() int64 { _, calls, _ := held(); return calls }})
	r.ledger.Hold(claimAnswers, budget.Holder{Held: func() int64 { _, _, answers := held(); return answers }})
}

// openMetrics serves what probes and dashboards ask on addresses of their own.
func (r *running) openMetrics(h *serve.Host) error {
	if len(r.Metrics) == 0 {
		return nil
	}
	mux := http.NewServeMux()
	r.door.Ops().Register(mux)
	r.metrics = &http.Server{Handler: mux, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, IdleTimeout: metricsTimeout,
		MaxHeaderBytes: 16 << 10, ErrorLog: port.HandshakeErrors(h.Conns.Failed)}
	var open []net.Listener
	for _, p := range r.Metrics {
		l, err := p.Listen()
		if err != nil {
			return err
		}
		h.Aside("metrics=" + l.Addr().String())
		l = port.Limit(l, max(h.SideConns/len(r.Metrics), 4))
		if p.TLS != nil {
			l = tls.NewListener(l, p.TLS)
		}
		open = append(open, l)
	}
	port.Watch(r.metrics)
	for _, l := range open {
		h.Serve("metrics", func() error {
			if err := r.metrics.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	return nil
}

// shutdown ends the door.
func (r *running) shutdown(ctx context.Context) (err error) {
	if r.door != nil {
		r.v2.Close()
		err = r.door.Shutdown(ctx)
	}
	if r.metrics != nil {
		r.metrics.Close()
	}
	return err
}
