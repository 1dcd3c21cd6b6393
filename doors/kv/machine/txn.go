package machine

import (
	"bytes"
	"cmp"

	"github.com/holdfastdb/holdfast/core/entry"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// judgeTxn decides every branch first, all against the state before the Txn: nested compares do not see outer writes, as in etcd. Then it
// carries the taken branches out in memory.
func (m *Machine) judgeTxn(p *plan, t *kvpart.Txn) (*entry.Rejection, error) {
	src := &entrySource{m: m, bound: len(m.entry.writes)}
	path, err := decidePath(p.path, t, src)
	if err != nil {
		return nil, err
	}
	p.path = path
	if p.part.Must && !path[0] {
		return reject(kvpart.CompareFailed, ""), nil
	}
	next := path
	return m.judgeOps(p, t, &next)
}

// source is the state that compares are evaluated on: it yields every key of an interval in order, and reads values only if
// asked for.
type source interface {
	scan(key, end []byte, rev int64) (scanner, error)
}

// decidePath appends one verdict per Txn, in the order in which the taken branches meet them.
func decidePath(path []bool, t *kvpart.Txn, src source) ([]bool, error) {
	ok := true
	for i := range t.Compare {
		holds, err := compareHolds(&t.Compare[i], src)
		if err != nil {
			return nil, err
		}
		if !holds {
			ok = false
			break
		}
	}
	path = append(path, ok)
	ops := branch(t, ok)
	for i := range ops {
		if ops[i].Txn != nil {
			var err error
			if path, err = decidePath(path, ops[i].Txn, src); err != nil {
				return nil, err
			}
		}
	}
	return path, nil
}

func branch(t *kvpart.Txn, ok bool) []kvpart.Op {
	if ok {
		return t.Then
	}
	return t.Else
}

// compareHolds reports whether c holds for every key in its interval. An interval without keys compares as one key of which
// everything is zero, except that nothing is true of a missing value.
func compareHolds(c *kvpart.Compare, src source) (bool, error) {
	sc, err := src.scan(c.Key, c.End, 0)
	if err != nil {
		return false, err
	}
	defer sc.close()
	for n := 0; ; n++ {
		ok, err := sc.next()
		if err != nil {
			return false, err
		}
		if !ok {
			if n == 0 {
				return c.Target != kvpart.CompareValue && verdict(c.Result, compareMeta(c, &meta{})), nil
			}
			return true, nil
		}
		v, err := sc.version()
		if err != nil {
			return false, err
		}
		var order int
		if c.Target == kvpart.CompareValue {
			value, err := sc.value()
			if err != nil {
				return false, err
			}
			order = bytes.Compare(value, c.Value)
		} else {
			order = compareMeta(c, &v.meta)
		}
		if !verdict(c.Result, order) {
			return false, nil
		}
	}
}

// compareMeta orders the compared number of a version against the one asked for; an unknown target compares equal.
func compareMeta(c *kvpart.Compare, mt *meta) int {
	switch c.Target {
	case kvpart.CompareVersion:
		return cmp.Compare(mt.version, c.Int)
	case kvpart.CompareCreate:
		return cmp.Compare(mt.create, c.Int)
	case kvpart.CompareMod:
		return cmp.Compare(mt.mod, c.Int)
	case kvpart.CompareLease:
		return cmp.Compare(mt.lease, c.Int)
	}
	return 0
}

// verdict applies a relation; an unknown one holds, as in etcd.
func verdict(r kvpart.CompareResult, order int) bool {
	switch r {
	case kvpart.CompareEqual:
		return order == 0
	case kvpart.CompareNotEqual:
		return order != 0
	case kvpart.CompareGreater:
		return order > 0
	case kvpart.CompareLess:
		return order < 0
	}
	return true
}

// judgeOps walks the taken branches. path yields the verdict of each Txn met.
func (m *Machine) judgeOps(p *plan, t *kvpart.Txn, path *[]bool) (*entry.Rejection, error) {
	ops := branch(t, (*path)[0])
	*path = (*path)[1:]
	for i := range ops {
		var rej *entry.Rejection
		var err error
		switch op := &ops[i]; {
		case op.Put != nil:
			rej, err = m.judgePut(p, op.Put)
		case op.Delete != nil:
			rej, err = m.judgeDelete(p, op.Delete)
		case op.Range != nil:
			p.ranges++
			rej = judgeRange(op.Range, m.now.rev, m.now.compacted)
		case op.Txn != nil:
			rej, err = m.judgeOps(p, op.Txn, path)
		}
		if rej != nil || err != nil {
			return rej, err
		}
	}
	return nil, nil
}

// judgeRange refuses a Range inside a Txn that asks for a revision that is not there. rev is the revision in front of the Txn. A negative
// revision is refused here once anything was compacted although a plain Range takes it for the current one: so does etcd.
func judgeRange(r *kvpart.Range, rev, compacted int64) *entry.Rejection {
	switch {
	case len(r.Key) == 0:
		return reject(kvpart.Malformed, "empty key")
	case r.Order > kvpart.SortDescend || r.Target > kvpart.SortByValue:
		return reject(kvpart.Malformed, "unknown sort")
	case r.Revision == 0:
	case r.Revision > rev:
		return reject(kvpart.FutureRevision, "")
	case r.Revision < compacted:
		return reject(kvpart.Compacted, "")
	}
	return nil
}
