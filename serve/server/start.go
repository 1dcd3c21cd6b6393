package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	archiveship "github.com/holdfastdb/holdfast/archive/ship"
	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker/level"
	workerroom "github.com/holdfastdb/holdfast/core/worker/room"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/internal/meter"
	doors "github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/admin"
	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/serve/port"
)

// Server is everything one `holdfast serve` runs. It is owned by the goroutine that runs the command.
type Server struct {
	setup      *Setup
	log        *slog.Logger
	admin      *admin.Admin // nil: off
	host       *doors.Host  // given to the doors
	node       *node.Node
	shipper    *archiveship.Worker // nil: there is no archive
	room       *room
	handshakes seldom
	claim      *claim // to be the only process that runs as this member
	// members is node, for log lines of any goroutine.
	members atomic.Pointer[node.Node]
	own     reserved

	conns budget.Connections
	crowd *crowd
	// serving becomes true once every door accepts clients.
	serving atomic.Bool
	// failed gets the first error that ends the service.
	failed  chan error
	wg      sync.WaitGroup
	unwatch context.CancelFunc // ends the look at certificates and free disk
	bound   []string           // name=address of everything that listens, for people
}

// shutdownPatience is how long requests may take to finish after a signal; a supervisor's own patience is mostly 10 s or more.
const (
	shutdownPatience = 5 * time.Second
	// handoverPatience is about as long as an election takes: if the others are gone too, waiting longer is of no use.
	handoverPatience = 1500 * time.Millisecond
)

// Start brings everything up, in the order in which it can be refused without having changed anything: files, ports, then
// the data directory. It returns once every door serves; ctx ends a start that waits for other members.
func Start(ctx context.Context, su *Setup, log *slog.Logger) (_ *Server, err error) {
	s := &Server{setup: su, log: log, room: newRoom(su.Node.Dir, su.Node.WALDir, log), handshakes: seldom{log: log}, failed: make(chan error, 1), conns: budget.ConnectionsOf(su.Node.MemoryBytes, port.OpenFiles())}
	s.own.s = s
	su.Join.PeerConns = s.conns.Peers
	// The doors' own listeners open only when the member is ready. A port that is bound but not served would hold clients away from other
	// members. So they are tried now, and the data directory is not touched if one is in use.
	tried := slices.Clone(su.Peers)
	for _, d := range su.Services {
		tried = append(tried, d.Places...)
	}
	if su.Admin != nil {
		tried = append(tried, *su.Admin)
	}
	for _, p := range tried {
		if err := p.Try(); err != nil {
			return nil, err
		}
	}
	if err := su.checkData(); err != nil {
		return nil, su.Advise(err)
	}
	watching, done := context.WithCancel(context.Background())
	s.unwatch = done
	s.wg.Go(func() { su.watchCertificates(watching, log) })
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	s.host = s.newHost(ctx)
	for _, d := range su.Services {
		if d.Prepare != nil {
			if err := d.Prepare(ctx, s.host); err != nil {
				return nil, err
			}
		}
	}
	if su.Adopt != nil {
		if err := su.Adopt(log); err != nil {
			return nil, err
		}
	}
	if su.Admin != nil {
		if err := s.openAdmin(); err != nil {
			return nil, err
		}
	}
	ident, identity := node.ReadIdentity(disk.OS(), su.Node.Dir)
	if identity == nil {
		if s.claim, err = claimMember(su.Node.Dir, ident.Member); err != nil {
			return nil, err
		}
	}
	if err = s.startNode(ctx); err != nil {
		return nil, su.Advise(err)
	}
	if identity != nil {
		_, member := s.node.IDs()
		if s.claim, err = claimMember(su.Node.Dir, member); err != nil {
			return nil, err
		}
	}
	s.wg.Go(func() { s.room.run(watching) })
	s.wg.Go(func() { s.crowd.run(watching) })
	// Workers act only while this member leads; they end with the node.
	levels := level.Options{Hold: su.HoldLevel, Logger: log}
	founds := errors.Is(identity, node.ErrNoIdentity) && su.Join.Join == ""
	if founds {
		levels.Settle = time.Millisecond // a cluster that begins now has no older build to go back to
	}
	s.wg.Go(level.New(s.node, levels).Run)
	s.wg.Go(workerroom.New(s.node, su.Node.Shares.Ledger).Run)
	if su.Archive != nil {
		s.shipArchive()
	}
	for _, d := range su.Services {
		if d.Work != nil {
			d.Work(s.host)
		}
	}
	if s.admin != nil {
		s.admin.Attach(s.node)
	}
	if err := s.waitReady(ctx); err != nil {
		return nil, err
	}
	if founds && !su.HoldLevel && len(s.node.Members()) == 1 {
		s.waitFirstLevel(ctx)
	}
	for _, d := range su.Services {
		if d.Open != nil {
			if err := d.Open(s.host); err != nil {
				return nil, err
			}
		}
	}
	s.serving.Store(true)
	return s, nil
}

// newHost is the doors' Host, as far as it is known before the node runs.
func (s *Server) newHost(ctx context.Context) *doors.Host {
	conns := port.NewConnLimit(s.conns.Doors)
	conns.Failed = s.handshakeFailed
	s.crowd = &crowd{log: s.log, now: time.Now, conns: conns, raise: "--memory", told: map[string]time.Time{}}
	if budget.ConnectionsOf(s.setup.Node.MemoryBytes, 1<<30).Doors > s.conns.Doors {
		s.crowd.raise = "the limit of open files (LimitNOFILE, ulimit -n)"
	}
	return &doors.Host{Dir: s.setup.Node.Dir, Founder: len(s.setup.Join.Peers) == 0 && s.setup.Join.Join == "",
		Conns: conns, SideConns: s.conns.Side, Ack: s.setup.Ack, Steps: new(meter.Steps), Log: s.log, Reserved: s.own.Members, Doors: s.own.Doors,
		Go: func(fn func()) { s.wg.Go(fn) }, Serve: s.goServe, Fail: s.fail, Serving: s.serving.Load, Starting: ctx,
		Bound: func(at ...string) { s.own.listens(at); s.bound = slices.Concat(at, s.bound) },
		Aside: func(at ...string) { s.own.listens(at); s.bound = append(s.bound, at...) }}
}

// handshakeFailed logs a connection on which no TLS could be agreed. It may be called from any goroutine.
func (s *Server) handshakeFailed(from string, err error) {
	s.handshakes.warn("a TLS handshake failed", "from", from, "err", err)
}

// openAdmin serves operators from now on, so that they can see what the start waits for.
func (s *Server) openAdmin() error {
	l, err := s.setup.Admin.Listen()
	if err != nil {
		return err
	}
	s.bound = append(s.bound, "admin="+l.Addr().String())
	l = port.Limit(l, s.conns.Side)
	if s.setup.Admin.TLS != nil {
		l = tls.NewListener(l, s.setup.Admin.TLS)
	}
	opt := admin.Options{Version: cli.Version, Steps: s.host.Steps, Watch: port.Watch, DoorsServe: s.serving.Load, Logger: s.log,
		ErrorLog: port.HandshakeErrors(s.handshakeFailed)}
	opt.Sections = []admin.Section{s.section(), s.room.section(), s.crowd.section(), s.memorySection()}
	if s.setup.Archive != nil {
		opt.Sections = append(opt.Sections, s.archiveSection())
	}
	for _, d := range s.setup.Services {
		opt.Sections = append(opt.Sections, d.Admin)
	}
	s.admin = admin.New(opt)
	s.goServe("admin", func() error { return s.admin.Serve(l) })
	return nil
}

// startNode opens or makes the data directory and runs the member.
func (s *Server) startNode(ctx context.Context) (err error) {
	cfg, opt := s.setup.Doors.Equip(s.setup.Node), s.setup.Join
	s.host.Machines = cfg.Machines
	opt.Notify = func(text string) {
		s.log.Info(text)
		if s.admin != nil {
			s.admin.Waiting(text)
		}
	}
	for _, p := range s.setup.Peers {
		s.bound = append(s.bound, "peer="+p.Addr)
	}
	cfg.Logger, cfg.Steps = slog.New(named{s.log.Handler(), s.memberName}), s.host.Steps
	if s.setup.Archive != nil {
		cfg.Retain = append(cfg.Retain, archiveship.RetainName)
	}
	cfg.OnFatal = func(err error) { s.fail(fatal(err)) }
	s.node, err = node.Start(ctx, cfg, opt)
	s.members.Store(s.node)
	s.host.Node = s.node
	if err == nil {
		s.began()
	}
	return err
}

// memberName is the name of a member by its id in hexadecimal, "" if that is not known.
func (s *Server) memberName(id string) string {
	n := s.members.Load()
	if n == nil {
		return ""
	}
	for _, m := range n.Members() {
		if fmt.Sprintf("%x", m.ID) == id {
			return m.Name
		}
	}
	return ""
}

// Node is the running member.
func (s *Server) Node() *node.Node { return s.node }

// Failed gets the first error that ends the service.
func (s *Server) Failed() <-chan error { return s.failed }

// Host is the Host given to the doors of this server.
func (s *Server) Host() *doors.Host { return s.host }

// waitReady returns once an entry of the current term is applied here: before that no door may open (DECISIONS A11). A learner
// must have caught up as well: a client that sees it ready may promote it at once, as with etcd.
func (s *Server) waitReady(ctx context.Context) error { return waitReady(ctx, s.node, s.failed, s.log) }

// starting is the part of a node that waitReady uses; its test has a fake.
type starting interface {
	Status() node.Status
	Linearize(ctx context.Context) error
	LeaderChanged() <-chan struct{}
	WaitsFor() string
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
			if err == nil && !m.Status().Joining { // else the leader makes it a voter in a moment, and clients would be refused till then
				return nil
			}
		}
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			st := m.Status()
			log.Info(waitsFor(&st, m), "applied", st.Applied)
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

// firstLevelWait bounds how long a server that founds a cluster keeps its doors closed for the level.
const firstLevelWait = 10 * time.Second

// waitFirstLevel returns once the cluster that this member alone has founded is at the level of its build. The first client would be refused
// what that level brought, a few milliseconds after it read "ready". A level that does not come, comes while the doors are open.
func (s *Server) waitFirstLevel(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstLevelWait)
	defer cancel()
	for s.node.ClusterLevel() < s.node.KnownLevel() {
		select {
		case <-time.After(time.Millisecond):
		case <-s.node.StoppedC():
			return
		case <-ctx.Done():
			return
		}
	}
}

// waitsFor names the reason why a member is not ready.
func waitsFor(st *node.Status, m starting) string {
	switch {
	case st.Ready && st.Joining:
		return "catching up with the leader, which makes this member a voter then"
	case st.Ready:
		return "catching up with the leader"
	case st.Leader != 0:
		return "receiving from the leader what this member lacks"
	}
	return cmp.Or(m.WaitsFor(), "waiting for an entry of the new leader")
}

// Shutdown ends the service in an order that leaves no client waiting: report not ready, hand over leadership, finish requests,
// stop the member.
func (s *Server) Shutdown() error {
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
	s.endDoors(ctx, func(door string, err error) { s.log.Warn("requests cut", "door", door, "err", err) })
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
func (s *Server) others() bool {
	me := s.node.Status().MemberID
	for _, m := range s.node.Members() {
		if m.ID != me && !m.Learner && m.Name != "" {
			return true
		}
	}
	return false
}

// abandon stops everything at once, after a start that failed.
func (s *Server) abandon() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // cut what is left
	s.endDoors(ctx, func(string, error) {})
	if s.node != nil {
		s.node.Stop()
	}
	if s.admin != nil {
		s.admin.Shutdown(ctx)
	}
	s.claim.release()
	s.unwatch()
	s.wg.Wait()
	for _, d := range s.setup.Services {
		if d.Close != nil {
			d.Close()
		}
	}
}

// endDoors ends all doors; cut hears of those that had to end requests.
func (s *Server) endDoors(ctx context.Context, cut func(door string, err error)) {
	for i, d := range s.setup.Services {
		if d.Shutdown == nil {
			continue
		}
		if err := d.Shutdown(ctx); err != nil {
			cut(s.setup.Doors[i].Name, err)
		}
	}
}

// goServe runs a door; its error ends the service.
func (s *Server) goServe(name string, serve func() error) {
	s.wg.Go(func() {
		if err := serve(); err != nil {
			s.fail(fmt.Errorf("serve %s: %w; start it again", name, err))
		}
	})
}

func (s *Server) fail(err error) {
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

// Addresses lists what listens, doors first.
func (s *Server) Addresses() string { return strings.Join(s.bound, " ") }
