package sql

import (
	"slices"

	"github.com/holdfastdb/holdfast/doors/sql/engine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
)

// mostLocks bounds the rows of holdfast.locks that are of locks nobody waits for.
const mostLocks = 10_000

// sessions returns those that a session may see.
func (c *clients) sessions(by *engine.Session) (all []*session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.all { // any order: lists are sorted when they are shown
		if sees(by, s) {
			all = append(all, s)
		}
	}
	return all
}

// transactions returns the transactions that a session may see. Those that belong to no session are for who sees all.
func (d *Door) transactions(by *engine.Session) (all []engine.Transaction) {
	for _, s := range d.clients.sessions(by) {
		if tx := s.doing.tx.Load(); tx != nil {
			all = append(all, engine.Transaction{Shown: tx.Show(), Session: s.client.ID, User: s.accountName, Level: engine.Level(s.doing.level.Load())})
		}
	}
	if by.SeesAll() {
		for _, left := range d.worker.Left() {
			all = append(all, engine.Transaction{Shown: left})
		}
	}
	return all
}

// locks returns the locks that a session may see: those which a session that it sees has, or waits for.
func (d *Door) locks(by *engine.Session) (all []engine.Lock, more bool) {
	locked, more := d.worker.Locks(mostLocks)
	of := map[uint64]*engine.Lock{} // by the number of the locks' owner; of a Lock the session and for how long it waits
	term := d.worker.Term()
	for _, s := range d.clients.sessions(by) {
		if tx := s.doing.tx.Load(); tx != nil && tx.Term() == term {
			of[tx.ID()] = &engine.Lock{WaiterSession: s.client.ID, Waits: tx.Waits()}
		}
		if h := s.doing.hold.Load(); h != nil && h.Term() == term {
			id, waits := h.Owner()
			of[id] = &engine.Lock{WaiterSession: s.client.ID, Waits: waits}
		}
	}
	for _, l := range locked {
		one, holder, waiter := engine.Lock{Locked: l}, of[l.Holder], of[l.Waiter]
		if holder == nil && waiter == nil && !by.SeesAll() {
			continue
		}
		if holder != nil {
			one.HolderSession = holder.WaiterSession
		}
		if waiter != nil {
			one.WaiterSession, one.Waits = waiter.WaiterSession, waiter.Waits
		}
		all = append(all, one)
	}
	return slices.Clip(all), more
}

// shows has others see a transaction of the session; nil: it has none.
func (s *session) shows(tx *txn.Tx) {
	s.doing.level.Store(int32(s.level))
	s.doing.tx.Store(tx)
}
