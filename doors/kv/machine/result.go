package machine

import (
	"errors"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// result builds the answer of a plan that was carried out. Only the member with the waiting caller does this, after all the plan's writes
// are in memory. Each operation's answer is read "before write n", with n as it stood when that operation ran.
func (m *Machine) result(p *plan) (any, error) {
	switch part := p.part; {
	case part.Put != nil:
		a := answerer{m: m, at: p.start, rev: p.rev - 1}
		return a.put(part.Put)
	case part.Delete != nil:
		a := answerer{m: m, at: p.start, rev: m.revBefore(p), deleted: p.deleted, b: answerBudget{max: m.opt.TxnResultBytes}}
		return a.delete(part.Delete)
	case part.Txn != nil:
		a := answerer{m: m, at: p.start, rev: m.revBefore(p), deleted: p.deleted, path: p.path, b: answerBudget{max: m.opt.TxnResultBytes}}
		r, err := a.txn(part.Txn)
		if err != nil {
			return nil, err
		}
		r.Revision, r.TooLarge = p.rev, a.tooLarge
		return r, nil
	case part.Compact != nil:
		return &kvpart.CompactResult{Revision: p.rev}, nil
	case part.Grant != nil:
		return &kvpart.GrantResult{Revision: p.rev, ID: part.Grant.ID, TTL: part.Grant.TTL}, nil
	case part.Revoke != nil:
		return &kvpart.RevokeResult{Revision: p.rev}, nil
	}
	r := &kvpart.AlarmResult{Revision: p.rev}
	for i := range p.alarms {
		r.Alarms = append(r.Alarms, p.alarms[i].AlarmState)
	}
	return r, nil
}

// revBefore is the revision before a plan of at most one revision.
func (m *Machine) revBefore(p *plan) int64 {
	if len(m.entry.writes) > p.start || p.rest != nil {
		return p.rev - 1
	}
	return p.rev
}

// answerer walks the operations of a plan again, in the same order.
type answerer struct {
	m        *Machine
	at       int // index of the next write
	rev      int64
	wrote    bool
	deleted  []int32
	path     []bool
	mem      arena
	b        answerBudget
	tooLarge bool
}

// now is the revision an operation at this point works at or answers with.
func (a *answerer) now() int64 {
	if a.wrote {
		return a.rev + 1
	}
	return a.rev
}

// prev returns the version write w replaced, in memory of the answer; nil if there was none or the budget is spent.
func (a *answerer) prev(w *write) (*kvpart.KeyValue, error) {
	if !w.old.exists() || a.tooLarge {
		return nil, nil
	}
	if a.b.spend(len(w.slot.key)+int(w.old.valLen)) != nil {
		a.tooLarge = true
		return nil, nil
	}
	var value []byte
	if w.prev != 0 {
		value = a.mem.copy(a.m.entry.writes[w.prev-1].value)
	} else {
		var err error
		if value, err = a.m.storedValue(&a.mem, w.slot, &w.old); err != nil {
			return nil, err
		}
	}
	kv := w.old.keyValue(a.mem.copy(w.slot.key), value)
	return &kv, nil
}

func (a *answerer) put(p *kvpart.Put) (*kvpart.PutResult, error) {
	w := &a.m.entry.writes[a.at]
	a.at++
	a.wrote = true
	r := &kvpart.PutResult{Revision: w.new.mod}
	var err error
	if p.PrevKV {
		r.Prev, err = a.prev(w)
	}
	return r, err
}

func (a *answerer) delete(d *kvpart.DeleteRange) (*kvpart.DeleteResult, error) {
	n := int(a.deleted[0])
	a.deleted = a.deleted[1:]
	r := &kvpart.DeleteResult{Deleted: int64(n)}
	for i := a.at; d.PrevKV && i < a.at+n; i++ { // none of a sweep, which has no writes
		kv, err := a.prev(&a.m.entry.writes[i])
		if err != nil {
			return nil, err
		}
		if kv != nil {
			r.Prevs = append(r.Prevs, *kv)
		}
	}
	a.at += n
	a.wrote = a.wrote || n > 0
	r.Revision = a.now()
	return r, nil
}

func (a *answerer) rangeOp(r *kvpart.Range) (*kvpart.RangeResult, error) {
	if a.tooLarge {
		return &kvpart.RangeResult{Revision: a.now()}, nil
	}
	sc, total, err := a.m.entryRange(r, a.at)
	if err != nil {
		return nil, err
	}
	defer sc.close()
	res, err := collect(r, sc, false, total, &a.b)
	if errors.Is(err, ErrTooLarge) {
		a.tooLarge = true
		res, err = &kvpart.RangeResult{}, nil
	}
	if err != nil {
		return nil, err
	}
	res.Revision = a.now()
	return res, nil
}

func (a *answerer) txn(t *kvpart.Txn) (*kvpart.TxnResult, error) {
	res := &kvpart.TxnResult{Succeeded: a.path[0]}
	a.path = a.path[1:]
	ops := branch(t, res.Succeeded)
	if len(ops) == 0 {
		return res, nil
	}
	res.Ops = make([]kvpart.OpResult, len(ops))
	for i := range ops {
		var err error
		switch op, out := &ops[i], &res.Ops[i]; {
		case op.Put != nil:
			out.Put, err = a.put(op.Put)
		case op.Range != nil:
			out.Range, err = a.rangeOp(op.Range)
		case op.Delete != nil:
			out.Delete, err = a.delete(op.Delete)
		case op.Txn != nil:
			out.Txn, err = a.txn(op.Txn)
		}
		if err != nil {
			return nil, err
		}
	}
	return res, nil
}
