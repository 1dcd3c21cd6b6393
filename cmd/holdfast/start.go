package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/door/admin"
	doorkv "github.com/holdfastdb/holdfast/door/kv"
	"github.com/holdfastdb/holdfast/door/kv/v2"
	"github.com/holdfastdb/holdfast/door/port"
	doortlog "github.com/holdfastdb/holdfast/door/tlog"
	"github.com/holdfastdb/holdfast/etcddata"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/internal/meter"
	mtree "github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/node"
	"github.com/holdfastdb/holdfast/tiles"
	"github.com/holdfastdb/holdfast/worker/checkpoint"
	"github.com/holdfastdb/holdfast/worker/compact"
	"github.com/holdfastdb/holdfast/worker/expire"
	"github.com/holdfastdb/holdfast/worker/lease"
	"github.com/holdfastdb/holdfast/worker/level"
	"github.com/holdfastdb/holdfast/worker/publish"
)

// server is everything one `holdfast serve` runs. It is owned by the goroutine that runs the command.
type server struct {
	setup    *setup
	log      *slog.Logger
	admin    *admin.Admin   // nil: off
	kv       *doorkv.Door   // nil: off
	v2       *v2.Handler    // on the kv door's port; nil: off
	tlog     *doortlog.Door // nil: off
	node     *node.Node
	machines *machines

	tlogKeys  *tlogKeys
	tlogMeter meter.Tlog
	signer    *checkpoint.Worker
	highest   *highestFiles
	shown     *publish.Shown     // nil: readers get what is signed
	tokens    *tlogTokens        // nil: everybody may add
	tlogRead  *doortlog.Door     // for reading alone; nil: off
	gate      *port.Gate         // the connections of all doors
	conns     budget.Connections // and of everything else
	// metrics answers on the addresses for metrics only; nil: there are none.
	metrics *http.Server
	// serving becomes true once every door accepts clients.
	serving atomic.Bool
	// failed gets the first error that ends the service.
	failed chan error
	wg     sync.WaitGroup
	bound  []string // name=address of everything that listens, for people
}

// shutdownPatience is how long requests may take to finish after a signal; a supervisor's own patience is mostly 10 s or more.
const (
	shutdownPatience = 5 * time.Second
	// handoverPatience is about as long as an election takes: if the others are gone too, waiting longer is of no use.
	handoverPatience = 1500 * time.Millisecond
	// metricsTimeout bounds each part of a request on an address for metrics.
	metricsTimeout = 30 * time.Second
)

// start brings everything up, in the order in which it can be refused without having changed anything: files, ports, then
// the data directory. It returns once every door serves; ctx ends a start that waits for other members.
func start(ctx context.Context, su *setup, log *slog.Logger) (_ *server, err error) {
	s := &server{setup: su, log: log, failed: make(chan error, 1), conns: budget.ConnectionsOf(su.node.MemoryBytes, port.OpenFiles())}
	s.gate = port.NewGate(s.conns.Doors)
	su.join.PeerConns = s.conns.Peers
	// The doors' own listeners are opened only when the member is ready: a port that is bound but not served would hold clients
	// that could go to another member. So these two are tried now, and the data directory is not touched if another process has
	// them.
	tried := slices.Concat(su.kv, su.peers, su.metrics)
	for _, p := range []*place{su.tlog.at, su.tlog.read} {
		if p != nil {
			tried = append(tried, *p)
		}
	}
	for _, p := range tried {
		if p.network == "unix" {
			continue // a socket file is made only when it is bound
		}
		l, err := p.listen()
		if err != nil {
			return nil, err
		}
		l.Close()
	}
	steps := new(meter.Steps)
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	if su.tlog.tokens != "" {
		if s.tokens, err = openTlogTokens(su.tlog.tokens, s.treeLog, log); err != nil {
			return nil, err
		}
	}
	if err := su.tlog.provePlaces(ctx, log); err != nil {
		return nil, err
	}
	if su.adopt != "" {
		if err := adopt(su, log); err != nil {
			return nil, err
		}
	}
	if err := s.openTlogKeys(); err != nil {
		return nil, err
	}
	if su.admin != nil {
		l, err := su.admin.listen()
		if err != nil {
			return nil, err
		}
		s.bound = append(s.bound, "admin="+l.Addr().String())
		few := port.Limit(l, s.conns.Side)
		l = few
		if su.admin.TLS != nil {
			l = tls.NewListener(l, su.admin.TLS)
		}
		s.admin = admin.New(admin.Options{Version: version, Steps: steps, ConnState: few.State, Tlog: &s.tlogMeter, DoorsServe: s.serving.Load, Logger: log,
			TlogKey:   func(name, origin string) (*tiles.Verifier, error) { return s.tlogKeys.forNew(name, origin) },
			MayResume: func(ctx context.Context, l *mtree.Log) error { return s.mayResume(ctx, l) }, Holds: s.holds, Release: s.release, Republish: s.republish})
		s.goServe("admin", func() error { return s.admin.Serve(l) })
	}

	if s.node, err = s.startNode(ctx, steps); err != nil {
		return nil, su.advise(err)
	}
	if s.admin != nil {
		s.admin.Attach(s.node, s.machines.kv, s.machines.tree)
	}
	// Workers act only while this member leads; they end with the node.
	leases := lease.New(s.node, s.machines.kv)
	s.wg.Go(leases.Run)
	s.wg.Go(expire.New(s.node, s.machines.etcd2).Run)
	s.wg.Go(level.New(s.node, level.Options{Hold: su.holdLevel, Logger: log}).Run)
	s.wg.Go(func() { compact.Run(s.node, s.machines.kv, su.compaction, log) })
	s.signTlogs()
	if err := s.waitReady(ctx); err != nil {
		return nil, err
	}
	if err := s.openKV(steps, leases); err != nil {
		return nil, err
	}
	if err := s.openTlog(); err != nil {
		return nil, err
	}
	s.serving.Store(true)
	return s, nil
}

// openKV binds every address of the kv door and serves.
func (s *server) openKV(steps *meter.Steps, leases *lease.Worker) error {
	if len(s.setup.kv) == 0 {
		return nil
	}
	opt := s.setup.door
	opt.Steps, opt.Gate = steps, s.gate
	s.v2 = v2.New(s.node, s.machines.etcd2, v2.Options{RequestTimeout: opt.RequestTimeout, MaxRequestBytes: opt.MaxRequestBytes,
		MaxListBytes: opt.MaxResultBytes, Resume: func(c net.Conn) { s.kv.Resume(c) },
		Catalogue: func() (bool, uint64) { return s.kv.Catalogue() },
		RootBasic: func(host, user, password string) (uint64, bool) { return s.kv.RootBasic(host, user, password) }})
	opt.V2, opt.V2Watchers, opt.Leases = s.v2.Handle, s.v2.Watchers, leases
	opt.SaveEtcd = etcddata.NewSaver(s.node, nil, s.setup.node.Dir).Save
	s.kv = doorkv.New(s.node, s.machines.kv, s.machines.etcd2.Stats(), opt)
	var bound []string
	for _, p := range s.setup.kv {
		l, err := p.listen()
		if err != nil {
			return err
		}
		bound = append(bound, "kv="+l.Addr().String())
		s.goServe("kv", func() error { return s.kv.ServeAs(l, p.Protocols) })
	}
	s.bound = append(bound, s.bound...)
	return s.openMetrics()
}

// openMetrics serves what probes and dashboards ask on addresses of their own.
func (s *server) openMetrics() error {
	if len(s.setup.metrics) == 0 {
		return nil
	}
	mux := http.NewServeMux()
	s.kv.Ops().Register(mux)
	s.metrics = &http.Server{Handler: mux, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, IdleTimeout: metricsTimeout,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)} // malformed requests are not worth a line
	var open []net.Listener
	var states []func(net.Conn, http.ConnState)
	for _, p := range s.setup.metrics {
		l, err := p.listen()
		if err != nil {
			return err
		}
		s.bound = append(s.bound, "metrics="+l.Addr().String())
		few := port.Limit(l, max(s.conns.Side/len(s.setup.metrics), 4))
		l, states = few, append(states, few.State)
		if p.TLS != nil {
			l = tls.NewListener(l, p.TLS)
		}
		open = append(open, l)
	}
	s.metrics.ConnState = func(c net.Conn, state http.ConnState) {
		for _, of := range states { // each knows its own
			of(c, state)
		}
	}
	for _, l := range open {
		s.goServe("metrics", func() error {
			if err := s.metrics.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	return nil
}

// startNode opens or makes the data directory and runs the member.
func (s *server) startNode(ctx context.Context, steps *meter.Steps) (*node.Node, error) {
	cfg, opt := s.setup.node, s.setup.join
	cfg, s.machines = housed(cfg)
	opt.Notify = func(text string) {
		s.log.Info(text)
		if s.admin != nil {
			s.admin.Waiting(text)
		}
	}
	for _, p := range s.setup.peers {
		s.bound = append(s.bound, "peer="+p.addr)
	}
	cfg.Logger, cfg.Steps = s.log, steps
	cfg.OnFatal = func(err error) { s.fail(fatal(err)) }
	return node.Start(ctx, cfg, opt)
}

// waitReady returns once an entry of the current term is applied here: before that no door may open (DECISIONS A11). A learner
// must have caught up as well: a client that sees it ready may promote it at once, as with etcd.
func (s *server) waitReady(ctx context.Context) error { return waitReady(ctx, s.node, s.failed, s.log) }

// starting is the part of a node that waitReady uses; its test has a fake.
type starting interface {
	Status() node.Status
	Linearize(ctx context.Context) error
	LeaderChanged() <-chan struct{}
}

func waitReady(ctx context.Context, m starting, failed <-chan error, log *slog.Logger) error {
	told := time.Now()
	for {
		changed := m.LeaderChanged()
		if st := m.Status(); st.Ready {
			if !st.Learner {
				return nil
			}
			round, cancel := context.WithTimeout(ctx, 5*time.Second)
			err := m.Linearize(round)
			cancel()
			if err == nil {
				return nil
			}
		}
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			if m.Status().Ready {
				log.Info("catching up with the leader")
			} else {
				log.Info("waiting for a leader; a majority of the members must run")
			}
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond): // being ready is not a change of leader
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// shutdown ends the service in an order that leaves no client waiting: report not ready, hand over leadership, finish requests,
// stop the member.
func (s *server) shutdown() error {
	if s.admin != nil {
		s.admin.Ending()
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownPatience)
	defer cancel()
	if st := s.node.Status(); st.Leader == st.MemberID && s.others() {
		handover, cancel := context.WithTimeout(ctx, handoverPatience)
		defer cancel()
		if err := s.node.TransferLeader(handover, 0); err != nil {
			s.log.Warn("leadership not handed over, the others will elect", "err", err)
		}
	}
	if s.kv != nil {
		s.v2.Close()
		if err := s.kv.Shutdown(ctx); err != nil {
			s.log.Warn("requests cut", "door", "kv", "err", err)
		}
	}
	for name, d := range map[string]*doortlog.Door{"tlog": s.tlog, "tlog-read": s.tlogRead} { // any order: each ends by itself
		if d == nil {
			continue
		}
		if err := d.Shutdown(ctx); err != nil {
			s.log.Warn("requests cut", "door", name, "err", err)
		}
	}
	s.abandon()
	select {
	case err := <-s.failed:
		return err
	default:
		s.log.Info("stopped")
		return nil
	}
}

// others reports whether another voter could lead.
func (s *server) others() bool {
	me := s.node.Status().MemberID
	for _, m := range s.node.Members() {
		if m.ID != me && !m.Learner && m.Name != "" {
			return true
		}
	}
	return false
}

// abandon stops everything at once, after a start that failed.
func (s *server) abandon() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // cut what is left
	if s.kv != nil {
		s.v2.Close()
		s.kv.Shutdown(ctx)
	}
	for _, d := range []*doortlog.Door{s.tlog, s.tlogRead} {
		if d != nil {
			d.Shutdown(ctx)
		}
	}
	if s.tokens != nil {
		s.tokens.close()
	}
	if s.metrics != nil {
		s.metrics.Close()
	}
	if s.node != nil {
		s.node.Stop()
	}
	if s.admin != nil {
		s.admin.Shutdown(ctx)
	}
	s.wg.Wait()
	if s.highest != nil {
		s.highest.Close()
	}
}

// goServe runs a door; its error ends the service.
func (s *server) goServe(name string, serve func() error) {
	s.wg.Go(func() {
		if err := serve(); err != nil {
			s.fail(fmt.Errorf("serve %s: %w; start it again", name, err))
		}
	})
}

func (s *server) fail(err error) {
	select {
	case s.failed <- err:
	default: // the first one counts
	}
}

// fatal adds what to do to the reason for which a member stopped by itself.
func fatal(err error) error {
	if strings.Contains(err.Error(), ";") {
		return err // it says so
	}
	next := "see to the cause and start it again"
	switch {
	case strings.Contains(err.Error(), syscall.ENOSPC.Error()): // the store's errors do not unwrap
		next = "make room on the disk and start it again"
	case strings.Contains(err.Error(), syscall.EIO.Error()):
		next = "the disk fails: replace it, and this member if there are others"
	}
	return fmt.Errorf("the member stopped: %w; nothing acknowledged is lost, %s", err, next)
}

// addresses lists what listens, doors first.
func (s *server) addresses() string { return strings.Join(s.bound, " ") }
