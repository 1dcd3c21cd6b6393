package sql

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/engine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// clients are the sessions of a door. Any goroutine.
type clients struct {
	mu    sync.Mutex
	all   map[uint32]*session // by connection; guarded by mu
	build *background         // guarded by mu; nil: none runs
}

func (c *clients) enter(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[uint32]*session{}
	}
	c.all[s.client.ID] = s
}

func (c *clients) leave(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[s.client.ID] == s {
		delete(c.all, s.client.ID)
	}
}

func (c *clients) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.all))
}

// doing is what a session does, for others to see. The session's goroutine writes it.
type doing struct {
	statement atomic.Pointer[engine.Statement] // that runs; nil: none
	since     atomic.Int64                     // it runs, or none does: Unix nanoseconds
	database  atomic.Pointer[string]           // the default one; nil: none yet
	state     atomic.Pointer[string]           // how far the statement is; nil: it says nothing of that
	tx        atomic.Pointer[txn.Tx]           // that is open, or is about to be committed; nil: none
	level     atomic.Int32                     // of tx
	hold      atomic.Pointer[txn.Hold]         // what is locked beyond transactions; nil: nothing
}

func (d *doing) begin(st *engine.Statement) {
	d.since.Store(time.Now().UnixNano())
	d.statement.Store(st)
}

// end ends the statement that runs, if one does, and returns how long it ran.
func (d *doing) end(database string) (took time.Duration) {
	now := time.Now().UnixNano()
	took = max(time.Duration(now-d.since.Swap(now)), 0)
	d.statement.Store(nil)
	d.state.Store(nil)
	if was := d.database.Load(); was == nil || *was != database {
		d.in(database)
	}
	return took
}

func (d *doing) in(database string) { d.database.Store(&database) }

// waits reports whether the session waits for a lock.
func (d *doing) waits() bool {
	if tx := d.tx.Load(); tx != nil && tx.Waits() > 0 {
		return true
	}
	h := d.hold.Load()
	if h == nil {
		return false
	}
	_, waits := h.Owner()
	return waits > 0
}

// say notes how far the statement is.
func (d *doing) say(state string) { d.state.Store(&state) }

// sees reports whether one session may see and end what another one does.
func sees(by *engine.Session, s *session) bool {
	return by.SeesAll() || by.Account() == s.accountName
}

// visible returns the clients that a session may see.
func (d *Door) visible(by *engine.Session) (all []engine.Process) {
	now := time.Now().UnixNano()
	d.clients.mu.Lock()
	defer d.clients.mu.Unlock()
	if b := d.clients.build; b != nil && by.SeesAll() {
		all = append(all, engine.Process{ID: backgroundID, User: backgroundUser, Since: time.Duration(max(now-b.doing.since.Load(), 0)),
			Statement: b.text, Database: b.database, State: *b.doing.state.Load()})
	}
	for _, s := range d.clients.all { // any order: the list is sorted when it is shown
		if !sees(by, s) {
			continue
		}
		c := engine.Process{ID: s.client.ID, User: s.client.User, Since: time.Duration(max(now-s.doing.since.Load(), 0))}
		if s.client.Addr != nil {
			c.Host = s.client.Addr.String()
		}
		if st := s.doing.statement.Load(); st != nil {
			if c.Statement = st.Text; st.Kind == engine.KindAccount {
				c.Statement = engine.Hidden
			}
			if state := s.doing.state.Load(); state != nil {
				c.State = *state
			} else if s.doing.waits() {
				c.State = "waiting for a lock"
			}
		}
		if database := s.doing.database.Load(); database != nil {
			c.Database = *database
		}
		all = append(all, c)
	}
	return all
}

// kill is KILL.
func (d *Door) kill(by *engine.Session, id uint32, whole bool) error {
	d.clients.mu.Lock()
	s, b := d.clients.all[id], d.clients.build
	d.clients.mu.Unlock()
	switch {
	case id == backgroundID && b != nil && by.SeesAll():
		b.kill()
		return nil
	case s == nil:
		return wire.Errorf(1094, "Unknown thread id: %d", id)
	case !sees(by, s):
		return wire.Errorf(1095, "You are not owner of thread %d", id)
	case !d.server.Kill(id, whole):
		return wire.Errorf(1094, "Unknown thread id: %d", id)
	}
	return nil
}

// counters are what SHOW STATUS shows: MySQL's names, for what this server counts.
func (d *Door) counters() []engine.Counter {
	n, all, running := d.Counts(), uint64(0), int64(0)
	for _, k := range n.Kinds { // any order: a sum
		all += k
	}
	d.clients.mu.Lock()
	for _, s := range d.clients.all { // any order: a sum
		if s.doing.statement.Load() != nil {
			running++
		}
	}
	connected := int64(len(d.clients.all))
	d.clients.mu.Unlock()
	return []engine.Counter{
		{Name: "Com_begin", Value: int64(n.Kinds[engine.KindBegin.String()])},
		{Name: "Com_commit", Value: int64(n.Kinds[engine.KindCommit.String()])},
		{Name: "Com_rollback", Value: int64(n.Kinds[engine.KindRollback.String()])},
		{Name: "Com_select", Value: int64(n.Kinds[engine.KindRead.String()] + n.Kinds[engine.KindLock.String()])},
		{Name: "Connections", Value: int64(d.server.Connections())},
		{Name: "Innodb_row_lock_current_waits", Value: int64(d.worker.Waiting())},
		{Name: "Questions", Value: int64(all)},
		{Name: "Threads_connected", Value: connected},
		{Name: "Threads_running", Value: running},
		{Name: "Uptime", Value: int64(time.Since(d.began) / time.Second)},
	}
}
