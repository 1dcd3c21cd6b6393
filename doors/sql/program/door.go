// Package program is the sql door as the program sees it: MySQL's protocol, the transactions behind it and their machine.
package program

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/worker"
	doorsql "github.com/holdfastdb/holdfast/doors/sql"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/serve/port"
)

// claim is the door's share of --memory: locks, and what packets take.
const claim = "tables"

// lane is the door's lane of the log (core/node/lane.go).
const lane node.Lane = 3

// Door is the sql door.
var Door = serve.Door{
	Name:     "sql",
	Settings: func() serve.Settings { return new(settings) },
	Machines: func(budget.Shares) []machine.Machine { return []machine.Machine{sqlmachine.New()} },
	Specs:    []*machine.Spec{&sqlmachine.Spec},
	Lanes: func(share budget.Shares) []node.LaneSpec {
		return []node.LaneSpec{{Number: lane, Name: "sql", Level: sqlpart.Level, Bytes: max(int(share.Lane)/2, 9<<20)}}
	},
	Claims: func(on bool) []budget.Claim {
		if !on {
			return nil
		}
		return []budget.Claim{{Name: claim, Weight: 20, Floor: 16 << 20, Ceiling: 512 << 20}}
	},
	Rows: "sc the catalogue, sd databases, st tables, sn their numbers, sr rows and entries of indexes",
	Try: func(at cli.Address, _ string) []string {
		host, p, err := net.SplitHostPort(at.String())
		if err != nil {
			return nil
		}
		return []string{fmt.Sprintf("mysql -h %s -P %s -u root -e 'SELECT VERSION()'", host, p)}
	},
	StatusLines: func(fields map[string]json.RawMessage) (state string, notes []string) {
		var s Status
		if fields["sql"] == nil || json.Unmarshal(fields["sql"], &s) != nil {
			return "", nil
		}
		return fmt.Sprintf("%d SQL sessions, %d tables", s.Sessions, s.Tables), nil
	},
}

// settings are the door's flags.
type settings struct{ at cli.Address }

// Options implements serve.Settings.
func (s *settings) Options() []serve.Option {
	return []serve.Option{
		{Name: "sql", Arg: "ADDR", Default: "off", Door: true, Help: "tables over MySQL's protocol, unfinished (docs/SQL.md has what it refuses), or off",
			Set: func(v string) error { return cli.SetAddress(&s.at, v) }},
	}
}

// Listens implements serve.Settings.
func (s *settings) Listens() []serve.Listen {
	return []serve.Listen{{Flag: "sql", At: s.at, Risk: "nobody could log in there, because there are no SQL users yet"}}
}

// Check implements serve.Settings.
func (s *settings) Check() error {
	if !s.at.Off() && !s.at.Loopback() {
		return cli.Usagef("serve: --sql %s is beyond loopback; SQL users are not built yet, and root may come from loopback alone", s.at.String())
	}
	return nil
}

// Service implements serve.Settings.
func (s *settings) Service(c *serve.Common) (*serve.Service, error) {
	r := &running{share: c.Shares.Of(claim), log: c.Log}
	service := &serve.Service{Admin: r.section(), Work: r.work, Open: r.open, Shutdown: r.shutdown}
	if !s.at.Off() {
		r.at = &serve.Place{Network: "tcp", Addr: s.at.String(), Flag: "--sql", Protocols: port.Protocols{TLS: c.Clients()}}
		service.Places = append(service.Places, *r.at)
	}
	return service, nil
}

// running is the door in one server. Its functions are called in order, those of serve.Service from one goroutine.
type running struct {
	at    *serve.Place // nil: the door is off
	share int64
	log   *slog.Logger

	host   *serve.Host
	tables *sqlmachine.Machine
	worker *txn.Worker
	door   *doorsql.Door // nil: off, or not open yet
}

// leastShare is what a member has for transactions of a door that is on elsewhere only.
const leastShare = 16 << 20

// work keeps the locks of each term in which this member leads.
func (r *running) work(h *serve.Host) {
	r.host = h
	r.tables = serve.Machine[*sqlmachine.Machine](h)
	if r.at == nil {
		return
	}
	r.worker = txn.New(h.Node, txn.Options{View: func() (store.View, error) { return h.Node.View() }, Lane: lane, LockBytes: max(r.share, leastShare) / 2})
	r.door = doorsql.New(doorsql.Options{Catalogue: r.tables.Catalogue, Worker: r.worker, TLS: r.at.Protocols.TLS, Accounts: rootFromLoopback{}, Leader: r.leader, Ack: h.Ack, Member: h.Node,
		Room: newRoom(max(r.share, leastShare) / 2)}) // the other half is that of the locks
	h.Go(r.worker.Run)
	h.Go(r.clean)
}

// cleanEvery is how long the member waits before it tries again to drop what another leader has left half built.
const cleanEvery = time.Second

// clean drops indexes that a leader before has left half built, in each term in which this member leads. Clients need not wait for it: such an
// index is read by nobody.
func (r *running) clean() {
	worker.Lead(r.host.Node, func(_ uint64, over <-chan struct{}) {
		for r.door.Clean(context.Background()) != nil {
			if r.host.Node.Tasks().Wait(cleanEvery, over, r.host.Node.StoppedC()) >= 0 {
				return
			}
		}
		r.host.Node.Tasks().Wait(task.Forever, over, r.host.Node.StoppedC())
	}, nil)
}

// rootFromLoopback is the only account until there are users.
type rootFromLoopback struct{}

// Account implements wire.Accounts.
func (rootFromLoopback) Account(user string, from net.Addr) (wire.Account, bool) {
	at, ok := from.(*net.TCPAddr)
	return wire.Account{Plugin: wire.CachingSHA2}, ok && at.IP.IsLoopback() && user == "root"
}

// open binds the address and serves.
func (r *running) open(h *serve.Host) error {
	if r.at == nil {
		return nil
	}
	r.log.Warn("the sql door lets root in without a password, from loopback alone", "sql", r.at.Addr)
	l, err := r.at.Wait(h.Starting, h.Log)
	if err != nil {
		return err
	}
	h.Bound("sql=" + l.Addr().String())
	h.Serve("sql", func() error { return r.door.Listen(l, h.Conns) })
	return nil
}

// leader is the name of the member that leads, "" if none is known.
func (r *running) leader() string {
	id := r.host.Node.Status().Leader
	for _, m := range r.host.Node.Members() {
		if m.ID == id {
			return m.Name
		}
	}
	return ""
}

func (r *running) shutdown(ctx context.Context) error {
	if r.door == nil {
		return nil
	}
	return r.door.Shutdown(ctx)
}
