package sql

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/account"
	"github.com/holdfastdb/holdfast/doors/sql/engine"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/turn"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
	"github.com/holdfastdb/holdfast/serve/ack"
)

// Options of New.
type Options struct {
	Catalogue func() *sqlmachine.Catalogue
	Worker    *txn.Worker
	TLS       *tls.Config // nil: without
	Users     *account.Users
	Key       func() (*rsa.PrivateKey, error)
	Room      wire.Room
	Prepared  wire.Room // memory of prepared statements; nil: it is not counted
	MaxPacket int       // bytes of a packet; 0: 64 MiB
	MaxKept   int       // engine.Options.MaxKept
	// MaxAllKept is engine.Options.MaxAllKept.
	MaxAllKept int64
	Ack        ack.Dial
	Member     ack.Member // asked where Ack has an archive
	// NoPlans has every statement planned anew. Tests compare with it.
	NoPlans bool
	// NoExecutor has every statement planned by the engine's library. Tests compare with it.
	NoExecutor bool
	// Leader names the member that leads, for clients of one that does not; "": none is known.
	Leader func() string
}

// Door serves clients.
type Door struct {
	opt        Options
	engine     *engine.Engine
	worker     *txn.Worker
	server     *wire.Server
	began      time.Time
	clients    clients
	turns      *turn.Turns
	counts     counts
	statements statements
	texts      texts
	serving
}

// New returns a door. Its Serve begins to serve a connection.
func New(opt Options) *Door {
	d := &Door{opt: opt, worker: opt.Worker, began: time.Now(), turns: turn.New(turn.OneLeft), texts: texts{room: opt.Prepared}}
	d.engine = engine.New(engine.Options{Catalogue: opt.Catalogue, NoPlans: opt.NoPlans, NoExecutor: opt.NoExecutor, MaxPacket: opt.MaxPacket, MaxKept: opt.MaxKept, MaxAllKept: opt.MaxAllKept,
		Operate: engine.Operate{Clients: d.visible, Kill: d.kill, Counters: d.counters,
			Transactions: d.transactions, Locks: d.locks, Digests: d.digests}})
	d.ctx, d.end = context.WithCancel(context.Background())
	d.server = &wire.Server{Version: engine.Version, TLS: opt.TLS, Accounts: opt.Users, Key: opt.Key, Room: opt.Room, MaxPacket: opt.MaxPacket, Collation: 45,
		Entered: d.serving.guests.loggedIn,
		Open: func(_ context.Context, c *wire.Client) (wire.Session, error) {
			s, err := d.newSession(c)
			if err != nil {
				return nil, err
			}
			d.clients.enter(s)
			return s, nil
		}}
	return d
}

// Serve speaks with one client until the connection or ctx ends.
func (d *Door) Serve(ctx context.Context, nc net.Conn) { d.server.Serve(ctx, nc) }

// Sessions is how many clients are logged in.
func (d *Door) Sessions() int64 { return d.clients.count() }

// Plans counts the kept plans.
func (d *Door) Plans() engine.PlanCount { return d.engine.Plans() }

// Clean goes on with the indexes that a leader before has left half built, and returns when that is done. The program calls it when the member begins to lead.
// done is told what has become of a table's indexes: nil, or why they are dropped. Errors: as engine.Clean.
func (d *Door) Clean(done func(table string, err error)) error {
	turn := d.turns.Turn()
	defer turn.End()
	return d.engine.Clean(func() (*txn.Tx, error) {
		tx, err := d.worker.Begin()
		if err == nil {
			tx.TakeTurns(turn)
		}
		return tx, err
	}, engine.Resumed{Begin: d.background, Done: done})
}

// leaderText says where a client may go.
func (d *Door) leaderText() string {
	if d.opt.Leader == nil || d.opt.Leader() == "" {
		return "this member does not lead, and no leader is known"
	}
	return "this member does not lead; connect to " + d.opt.Leader()
}

func (d *Door) statistics() string {
	return fmt.Sprintf("Uptime: %d  Threads: %d", int64(time.Since(d.began).Seconds()), d.clients.count())
}
