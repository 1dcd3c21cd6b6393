package machine

import (
	"errors"

	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// Txn answers a Txn that writes nothing, without going through the log. ErrTooLarge refuses the whole answer.
//
// A Txn on single current keys is first tried without a View, which would take the store's central lock twice. If nothing was published
// from before its first lookup to after its last, all of them were of one state. Otherwise it is done again with a View.
func (m *Machine) Txn(t *kvpart.Txn, maxBytes int64) (*kvpart.TxnResult, error) {
	if singleKeys(t) {
		m.gate.RLock()
		version, _ := m.gate.Version()
		p := pinned{view: present{m.st}, sums: m.pub}
		m.gate.RUnlock()
		if res, err := p.readTxn(t, maxBytes); m.gate.Same(version) {
			return m.counted(res), err
		}
	}
	p := m.pin(rangesIn(nil, t)...)
	defer p.view.Close()
	res, err := p.readTxn(t, maxBytes)
	return m.counted(res), err
}

// present is the store as it is at each lookup.
type present struct{ store.Reader }

func (present) Close() error { return nil }

// singleKeys reports whether t compares and reads only single keys at the current revision, in all branches.
func singleKeys(t *kvpart.Txn) bool {
	for i := range t.Compare {
		if len(t.Compare[i].End) > 0 {
			return false
		}
	}
	for _, branch := range [2][]kvpart.Op{t.Then, t.Else} {
		for i := range branch {
			switch op := &branch[i]; {
			case op.Range != nil && (len(op.Range.End) > 0 || op.Range.Revision > 0), op.Txn != nil && !singleKeys(op.Txn):
				return false
			}
		}
	}
	return true
}

// counted counts the ranges of an answer, nil if there is none.
func (m *Machine) counted(res *kvpart.TxnResult) *kvpart.TxnResult {
	if res != nil {
		m.stats.countReads(rangesOf(res))
	}
	return res
}

func (p *pinned) readTxn(t *kvpart.Txn, maxBytes int64) (*kvpart.TxnResult, error) {
	path, err := decidePath(nil, t, p)
	if err != nil {
		return nil, err
	}
	if err := p.judge(t, path); err != nil {
		return nil, err
	}
	b := answerBudget{max: maxBytes}
	res, err := p.txn(t, &path, &b)
	if err != nil {
		return nil, err
	}
	res.Revision = p.rev
	return res, nil
}

// rangesIn appends the ranges of a Txn, those of both branches: which is taken is decided later, on the state of the same moment.
func rangesIn(ranges []*kvpart.Range, t *kvpart.Txn) []*kvpart.Range {
	for _, branch := range [2][]kvpart.Op{t.Then, t.Else} {
		for i := range branch {
			switch op := &branch[i]; {
			case op.Range != nil:
				ranges = append(ranges, op.Range)
			case op.Txn != nil:
				ranges = rangesIn(ranges, op.Txn)
			}
		}
	}
	return ranges
}

// judge refuses a Txn that asks for a revision that is not there, before any of it is read.
func (p *pinned) judge(t *kvpart.Txn, path []bool) error {
	rest := path
	var walk func(t *kvpart.Txn) error
	walk = func(t *kvpart.Txn) error {
		ops := branch(t, rest[0])
		rest = rest[1:]
		for i := range ops {
			switch op := &ops[i]; {
			case op.Range != nil:
				if rej := judgeRange(op.Range, p.rev, p.compacted); rej != nil {
					switch rej.Code {
					case kvpart.Compacted:
						return ErrCompacted
					case kvpart.FutureRevision:
						return ErrFutureRevision
					}
					return rej
				}
			case op.Txn != nil:
				if err := walk(op.Txn); err != nil {
					return err
				}
			case op.Put != nil || op.Delete != nil:
				return errors.New("read txn: it writes")
			}
		}
		return nil
	}
	return walk(t)
}

func (p *pinned) txn(t *kvpart.Txn, path *[]bool, b *answerBudget) (*kvpart.TxnResult, error) {
	res := &kvpart.TxnResult{Succeeded: (*path)[0]}
	*path = (*path)[1:]
	ops := branch(t, res.Succeeded)
	res.Ops = make([]kvpart.OpResult, len(ops))
	for i := range ops {
		var err error
		switch op := &ops[i]; {
		case op.Range != nil:
			res.Ops[i].Range, err = p.answer(op.Range, b)
		case op.Txn != nil:
			res.Ops[i].Txn, err = p.txn(op.Txn, path, b)
		}
		if err != nil {
			return nil, err
		}
	}
	return res, nil
}
