// Package program is the sql door as the program sees it: MySQL's protocol, the transactions behind it and their machine.
package program

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/worker"
	doorsql "github.com/holdfastdb/holdfast/doors/sql"
	"github.com/holdfastdb/holdfast/doors/sql/account"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/serve/port"
)

// The door's shares of --memory: what packets take, the locks of all transactions, and the statements that clients have prepared.
const claimPackets, claimLocks, claimPrepared = "packets", "locks", "prepared"

// leastPackets, leastLocks and leastPrepared are what the door works with. A transaction that locks some ten thousand rows fits into leastLocks.
// Few clients prepare many statements: those borrow.
const leastPackets, leastLocks, leastPrepared = 8 << 20, 4<<20 - leastPrepared, 256 << 10

// lane is the door's lane of the log (core/node/lane.go).
const lane node.Lane = 3

// keptPart of Go's limit is what all statements together may keep in memory to join, sort, group and lock rows. It is no claim: an honest client uses it for
// moments, and as a claim it would be missing in the caches always. Claims are seldom full all at once.
const keptPart = 3

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
		return []budget.Claim{
			{Name: claimPackets, Weight: 10, Floor: leastPackets, Ceiling: 256 << 20},
			{Name: claimLocks, Weight: 36, Floor: leastLocks, Ceiling: 96<<20 - leastPrepared},
			{Name: claimPrepared, Floor: leastPrepared, Ceiling: 256 << 20, Kind: budget.Open}}
	},
	Rows: "sc the catalogue, sd databases, st tables, sn their numbers, sr rows and entries of indexes, sx transactions that are staged, sp their rows",
	Try: func(at cli.Address, _ string) []string {
		host, p, err := net.SplitHostPort(at.String())
		if err != nil {
			return nil
		}
		return []string{fmt.Sprintf("mariadb -h %s -P %s -u root -e 'SELECT VERSION()'", host, p)}
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
type settings struct {
	at cli.Address
	// unnamed: nobody has named the address. What is in its way does not refuse the start.
	unnamed bool
}

// Unnamed implements serve.Yielding.
func (s *settings) Unnamed() { s.unnamed = true }

// Yield implements serve.Yielding.
func (s *settings) Yield() { s.at = cli.Address{} }

// Options implements serve.Settings.
func (s *settings) Options() []serve.Option {
	return []serve.Option{
		{Name: "sql", Arg: "ADDR", Default: "127.0.0.1:3306", Door: true, Help: "tables over MySQL's protocol (docs/SQL.md has what it refuses), or off; without this flag off where the port is taken",
			Set: func(v string) error { return cli.SetAddress(&s.at, v) }},
	}
}

// Listens implements serve.Settings.
func (s *settings) Listens() []serve.Listen {
	return []serve.Listen{{Flag: "sql", At: s.at, GuardedByTLS: true, Risk: "rows could be read and changed on their way"}}
}

// Check implements serve.Settings.
func (s *settings) Check() error { return nil }

// Service implements serve.Settings.
func (s *settings) Service(c *serve.Common) (*serve.Service, error) {
	r := &running{shares: c.Shares, idents: c.Shares.RoomOfIdents, log: c.Log}
	service := &serve.Service{Admin: r.section(), Work: r.work, Open: r.open, Shutdown: r.shutdown}
	if !s.at.Off() {
		r.at = &serve.Place{Network: "tcp", Addr: s.at.String(), Flag: "--sql", Yields: s.unnamed, Protocols: port.Protocols{TLS: c.Clients()}}
		service.Places = append(service.Places, *r.at)
	}
	return service, nil
}

// running is the door in one server. Its functions are called in order, those of serve.Service from one goroutine.
type running struct {
	at     *serve.Place // nil: the door is off
	off    atomic.Bool  // the address could not be bound
	shares budget.Shares
	idents func() int64 // bytes that rows of accounts may have
	log    *slog.Logger

	host   *serve.Host
	tables *sqlmachine.Machine
	users  *account.Users
	worker *txn.Worker
	door   *doorsql.Door // nil: off, or not open yet
}

// work keeps the locks of each term in which this member leads.
func (r *running) work(h *serve.Host) {
	r.host = h
	r.tables = serve.Machine[*sqlmachine.Machine](h)
	if r.at == nil {
		return
	}
	r.worker = txn.New(h.Node, txn.Options{View: func() (store.View, error) { return h.Node.View() }, Newest: h.Node.Get, Snapshot: h.Node.View, Staged: r.tables.Staged, Lane: lane,
		LockBytes: max(r.shares.Of(claimLocks), leastLocks)})
	r.shares.Ledger.Hold(claimLocks, budget.Holder{Held: r.worker.HeldLocks, Bound: r.worker.BoundLocks})
	r.users = account.New(account.Options{State: h.Node.Ident().State, Confirm: r.confirm, MaxBytes: r.idents,
		Propose: func(ctx context.Context, parts ...entry.Part) (*entry.Result, error) {
			return h.Node.Propose(ctx, node.LaneSystem, parts...)
		}})
	packets := max(r.shares.Of(claimPackets), leastPackets)
	prepared := &preparedRoom{most: func() int64 { return r.shares.Ledger.Room(claimPrepared) }}
	r.shares.Ledger.Hold(claimPrepared, budget.Holder{Held: prepared.Held})
	r.door = doorsql.New(doorsql.Options{Catalogue: r.tables.Catalogue, Worker: r.worker, TLS: r.at.Protocols.TLS, Users: r.users, Key: newKey(), Leader: r.leader, Ack: h.Ack, Member: h.Node,
		Room: newRoom(packets), Prepared: prepared, MaxPacket: maxPacket(packets), MaxAllKept: r.shares.GoLimit / keptPart})
	h.Go(r.worker.Run)
	h.Go(r.clean)
}

// mostPacket is MySQL's default of max_allowed_packet.
const mostPacket = 64 << 20

// maxPacket is the largest packet that fits into the memory for packets: a client that asks for @@max_allowed_packet is not told of more. MySQL
// has it in whole KiB.
func maxPacket(room int64) int { return int(min(room, mostPacket)) &^ 1023 }

// cleanEvery is how long the member waits before it tries again to go on with what another leader has left half built.
const cleanEvery = time.Second

// clean goes on with indexes that a leader before has left half built, in each term in which this member leads. Clients need not wait for it: such an
// index is read by nobody.
func (r *running) clean() {
	done := func(table string, err error) {
		if err != nil {
			r.log.Warn("an index that was begun under another leader is dropped", "table", table, "reason", err)
			return
		}
		r.log.Info("an index that was begun under another leader is built", "table", table)
	}
	worker.Lead(r.host.Node, func(_ uint64, over <-chan struct{}) {
		for r.door.Clean(done) != nil {
			if r.host.Node.Tasks().Wait(cleanEvery, over, r.host.Node.StoppedC()) >= 0 {
				return
			}
		}
		r.host.Node.Tasks().Wait(task.Forever, over, r.host.Node.StoppedC())
	}, nil)
}

// confirmPatience bounds how long a login waits for a leader.
const confirmPatience = 5 * time.Second

// confirm returns when this member has applied everything that was acknowledged before the call.
func (r *running) confirm(ctx context.Context) error {
	ctx, end := context.WithTimeout(ctx, confirmPatience)
	defer end()
	return r.host.Node.Linearize(ctx)
}

// keyBits is the size of the key with which clients without TLS hide their passwords, as in MySQL.
const keyBits = 2048

// newKey returns what makes the member's key when a client first needs it, and keeps it: making one takes some 100 ms.
func newKey() func() (*rsa.PrivateKey, error) {
	return sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, keyBits) })
}

// open binds the address and serves.
func (r *running) open(h *serve.Host) error {
	if r.at == nil {
		return nil
	}
	l, err := r.at.Wait(h.Starting, h.Log)
	if err != nil && r.at.Yields { // the port was free when the server began to start
		r.off.Store(true)
		r.log.Warn(fmt.Sprintf("the sql door stays off: %v", err))
		return nil
	}
	if err != nil {
		return err
	}
	if !r.users.RootHasPassword() {
		r.log.Warn("the sql door lets root in without a password, from loopback alone; ALTER USER root IDENTIFIED BY '…' gives it one", "sql", r.at.Addr)
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
