package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/door/admin"
	doorkv "github.com/holdfastdb/holdfast/door/kv"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/node"
	"github.com/holdfastdb/holdfast/worker/lease"
)

// server is everything one `holdfast serve` runs. It is owned by the goroutine that runs the command.
type server struct {
	cfg   *config
	log   *slog.Logger
	admin *admin.Admin // nil: off
	kv    *doorkv.Door // nil: off
	node  *node.Node
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
	// handoverPatience is about what an election would take: when the others are gone too, waiting longer helps nobody.
	handoverPatience = 1500 * time.Millisecond
)

// start brings everything up, in the order in which it can be refused without having changed anything: files, ports, then
// the data directory. It returns once every door serves; ctx ends a start that waits for other members.
func start(ctx context.Context, cfg *config, log *slog.Logger) (_ *server, err error) {
	certs, err := loadCertificates(cfg, log)
	if err != nil {
		return nil, err
	}
	s := &server{cfg: cfg, log: log, failed: make(chan error, 1)}
	// The doors' own listeners are opened only when the member is ready: a port that is bound but not served would hold
	// clients that could go to another member. So these two are tried now, and the data directory is not touched if
	// somebody has them.
	for _, try := range []struct {
		flag string
		at   address
	}{{"kv", cfg.kv}, {"peer", cfg.peer}} {
		if try.at.off() {
			continue
		}
		l, err := listen(try.flag, try.at)
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
	if !cfg.admin.off() {
		l, err := listen("admin", cfg.admin)
		if err != nil {
			return nil, err
		}
		s.bound = append(s.bound, "admin="+l.Addr().String())
		if certs != nil && !cfg.admin.loopback() {
			l = tls.NewListener(l, certs.clients())
		}
		s.admin = admin.New(admin.Options{Version: version, Steps: steps, DoorsServe: s.serving.Load, Logger: log})
		s.goServe("admin", func() error { return s.admin.Serve(l) })
	}

	if s.node, err = s.startNode(ctx, certs, steps); err != nil {
		return nil, advise(err, cfg)
	}
	if s.admin != nil {
		s.admin.Attach(s.node)
	}
	// Workers act only while this member leads; they end with the node.
	leases := lease.New(s.node)
	s.wg.Go(leases.Run)
	if err := s.waitReady(ctx); err != nil {
		return nil, err
	}
	if !cfg.kv.off() {
		l, err := listen("kv", cfg.kv)
		if err != nil {
			return nil, err
		}
		s.bound = append([]string{"kv=" + l.Addr().String()}, s.bound...)
		s.kv = doorkv.New(s.node, doorkv.Options{TLS: certs.clients(), QuotaBytes: quota(cfg.kvQuota), Steps: steps,
			MaxResultBytes: int64(cfg.memory) / 16, MaxFlightBytes: int64(cfg.memory) / 8})
		s.goServe("kv", func() error { return s.kv.Serve(l) })
	}
	s.serving.Store(true)
	return s, nil
}

// startNode opens or makes the data directory and runs the member.
func (s *server) startNode(ctx context.Context, certs *certificates, steps *meter.Steps) (*node.Node, error) {
	cfg := s.cfg
	opt := node.StartOptions{Name: cfg.name, PeerTLS: certs.members(), Join: cfg.join, Notify: func(text string) {
		s.log.Info(text)
		if s.admin != nil {
			s.admin.Waiting(text)
		}
	}}
	if opt.Name == "" {
		opt.Name = hostName()
	}
	if !cfg.peer.off() {
		opt.PeerAddr = cfg.peer.String()
		s.bound = append(s.bound, "peer="+opt.PeerAddr)
	}
	for _, p := range cfg.peers {
		if opt.Peers == nil {
			opt.Peers = map[string]string{}
		}
		opt.Peers[p.name] = p.address.String()
	}
	return node.Start(ctx, node.Config{
		Dir:         cfg.data,
		ClientURLs:  clientURLs(cfg, certs != nil),
		MemoryBytes: cfg.memory,
		Logger:      s.log,
		Steps:       steps,
		OnFatal: func(err error) {
			s.fail(fatal(err))
		},
	}, opt)
}

// waitReady returns once an entry of the current term is applied here: before that no door may open (DECISIONS A11).
func (s *server) waitReady(ctx context.Context) error {
	told := time.Now()
	for {
		changed := s.node.LeaderChanged()
		if s.node.Status().Ready {
			return nil
		}
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			s.log.Info("waiting for a leader; a majority of the members must run")
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond): // being ready is not a change of leader
		case err := <-s.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// shutdown ends the service in the order in which nobody is left waiting: say so, hand over leadership, finish requests,
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
		if err := s.kv.Shutdown(ctx); err != nil {
			s.log.Warn("requests cut", "door", "kv", "err", err)
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

// abandon stops what runs, without ceremony.
func (s *server) abandon() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // cut what is left
	if s.kv != nil {
		s.kv.Shutdown(ctx)
	}
	if s.node != nil {
		s.node.Stop()
	}
	if s.admin != nil {
		s.admin.Shutdown(ctx)
	}
	s.wg.Wait()
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

// listen binds a port or says in one line why not.
func listen(flag string, a address) (net.Listener, error) {
	l, err := net.Listen("tcp", a.String())
	if err == nil {
		return l, nil
	}
	why, next := err.Error(), "give another --"+flag
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		why, next = "the port is in use", fmt.Sprintf("stop what listens there or give another --%s", flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why, next = "this machine has no such address", fmt.Sprintf("give --%s an address of this machine", flag)
	case errors.Is(err, syscall.EACCES):
		why, next = "ports below 1024 need a privilege", fmt.Sprintf("give --%s a higher port", flag)
	}
	return nil, fmt.Errorf("listen on --%s %s: %s; %s", flag, a, why, next)
}

// advise adds what to do to an error of the start, where the node's own sentence does not say it.
func advise(err error, cfg *config) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case strings.Contains(err.Error(), "in use by another process"):
		return fmt.Errorf("open --data %s: another process uses it; stop that one or give another --data", cfg.data)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("open --data %s: %s; give a directory this user can write", cfg.data, reason(err))
	}
	return fmt.Errorf("open --data %s: %w", cfg.data, err)
}

// quota turns the flag's 0 = no limit into the door's convention.
func quota(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

// clientURLs is where the member list sends clients.
func clientURLs(cfg *config, secure bool) []string {
	if cfg.kv.off() {
		return nil
	}
	a := cfg.kv
	if a.wildcard() { // listening everywhere: the address members use is the best guess at one clients can dial
		switch self, ok := findPeer(cfg.peers, cfg.name); {
		case ok:
			a.host = self.host
		case !cfg.peer.off():
			a.host = cfg.peer.host
		default:
			a.host = hostName()
		}
	}
	if secure {
		return []string{"https://" + a.String()}
	}
	return []string{"http://" + a.String()}
}

func hostName() string {
	if h, err := os.Hostname(); err == nil && h != "" {
		return h
	}
	return "holdfast"
}
