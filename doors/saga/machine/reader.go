package machine

import (
	"fmt"
	"math"

	"github.com/holdfastdb/holdfast/core/store"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// The readers of single transactions and topics. They are safe for concurrent use with Apply, and what one call returns is of one
// applied index. Errors are the store's, which may be transient, or that a row is damaged.

// attempts is how often a reader reads without a View before it takes one.
const attempts = 3

// read calls f with a reader of one applied index. It is the store itself if no entry became visible meanwhile, which the gate's version
// tells, else a View. f may be called several times; its last call counts.
func (m *Machine) read(f func(r store.Reader) error) error {
	for range attempts {
		version, open := m.gate.Version()
		if !open {
			m.gate.Await()
			continue
		}
		if err := f(m.st); m.gate.Same(version) {
			return err
		}
	}
	v := m.view()
	defer v.Close()
	return f(v)
}

// view is the rows as of one applied index. The caller closes it.
func (m *Machine) view() store.View {
	m.gate.RLock()
	defer m.gate.RUnlock()
	return m.st.NewView()
}

// Find returns the transaction of a gid with its branches; nil, nil if there is none. Any goroutine.
func (m *Machine) Find(gid string) (t *Transaction, err error) {
	err = m.read(func(r store.Reader) (err error) {
		t, err = Read(r, gid)
		return err
	})
	return t, err
}

// FindNumber is Find by the machine's number.
func (m *Machine) FindNumber(number uint64) (t *Transaction, err error) {
	err = m.read(func(r store.Reader) (err error) {
		t, err = readNumber(r, number)
		return err
	})
	return t, err
}

// Brief is Find without the branches, which may be a thousand times as large: for callers that need only the status.
func (m *Machine) Brief(gid string) (t *Transaction, err error) {
	err = m.read(func(r store.Reader) error {
		number, ok, err := numberOf(r, gid)
		if t = nil; ok && err == nil {
			t, _, _, err = readTransaction(r, number)
		}
		return err
	})
	return t, err
}

// BriefNumber is Brief by the machine's number.
func (m *Machine) BriefNumber(number uint64) (t *Transaction, err error) {
	err = m.read(func(r store.Reader) (err error) {
		t, _, _, err = readTransaction(r, number)
		return err
	})
	return t, err
}

// Read is Find in any reader of the store that is of one applied index, such as a View of the node.
func Read(r store.Reader, gid string) (*Transaction, error) {
	number, ok, err := numberOf(r, gid)
	if err != nil || !ok {
		return nil, err
	}
	t, err := readNumber(r, number)
	if t == nil && err == nil {
		err = fmt.Errorf("transaction %d of gid %q has no definition: %w", number, gid, errCorrupt)
	}
	return t, err
}

// numberOf finds the number of a gid's transaction, false if there is none.
func numberOf(r store.Reader, gid string) (number uint64, found bool, err error) {
	row, ok, err := r.Get(nil, appendGidKey(nil, gid))
	if err != nil {
		return 0, false, fmt.Errorf("read gid: %w", err)
	}
	if ok {
		number, err = decodeNumber(row)
	}
	return number, ok, err
}

// readNumber reads a transaction with its branches; nil if there is none.
func readNumber(r store.Reader, number uint64) (*Transaction, error) {
	t, inline, h, err := readTransaction(r, number)
	if t == nil || err != nil {
		return nil, err
	}
	all, err := readBranches(r, number, inline, &h)
	if err != nil {
		return nil, err
	}
	if len(all) > 0 {
		t.Branches = make([]Branch, len(all))
	}
	for i := range all {
		b := &h.branches[i]
		all[i].Status = b.status
		t.Branches[i] = Branch{Branch: all[i], Created: b.created, Updated: b.updated}
		if b.status.Final() {
			t.Branches[i].Finished = b.updated
		}
	}
	return t, nil
}

// readTransaction reads a transaction without its branches; nil if there is none. inline is its first branches, if they have no row.
func readTransaction(r store.Reader, number uint64) (t *Transaction, inline []byte, h head, err error) {
	row, ok, err := r.Get(nil, appendDefinitionKey(nil, number))
	switch {
	case err != nil:
		return nil, nil, h, fmt.Errorf("read transaction: %w", err)
	case !ok:
		return nil, nil, h, nil
	}
	d, err := decodeDefinition(row)
	if err != nil {
		return nil, nil, h, err
	}
	h, err = readHead(r, number, &d)
	if err != nil {
		return nil, nil, h, err
	}
	return &Transaction{Number: number, Definition: d.Definition, Head: h.view(), BranchBytes: h.size, Bytes: int64(len(row) + len(h.reason) + len(h.result))}, d.inline, h, nil
}

// readHead reads a head: its row, or the definition's initial head.
func readHead(r store.Reader, number uint64, d *definition) (head, error) {
	row, ok, err := r.Get(nil, appendHeadKey(nil, number))
	switch {
	case err != nil:
		return head{}, fmt.Errorf("read transaction: %w", err)
	case !ok:
		return d.head, nil
	}
	return decodeHead(row)
}

// readBranches reads the branches of a transaction: those inline in its definition, and those of rows of their own.
func readBranches(r store.Reader, number uint64, inline []byte, h *head) (all []sagapart.Branch, err error) {
	if len(inline) > 0 {
		if all, err = takeBranches(nil, inline); err != nil {
			return nil, err
		}
	}
	for i := range h.chunks {
		row, ok, err := r.Get(nil, appendBranchesKey(nil, number, i))
		switch {
		case err != nil:
			return nil, fmt.Errorf("read branches: %w", err)
		case !ok:
			return nil, fmt.Errorf("transaction %d has no branches %d: %w", number, i, errCorrupt)
		}
		if all, err = takeBranches(all, row); err != nil {
			return nil, err
		}
	}
	if len(all) != len(h.branches) {
		return nil, fmt.Errorf("transaction %d has %d branches and not %d: %w", number, len(all), len(h.branches), errCorrupt)
	}
	return all, nil
}

// Topic returns a topic; nil, nil if there is none. Any goroutine.
func (m *Machine) Topic(name string) (t *Topic, err error) {
	err = m.read(func(r store.Reader) (err error) {
		t, err = readTopic(r, name)
		return err
	})
	return t, err
}

// Topics lists the names of up to limit topics behind after, in order. Any goroutine.
func (m *Machine) Topics(after string, limit int) (names []string, err error) {
	from := appendTopicKey(nil, after)
	if after != "" {
		from = append(from, 0)
	}
	v := m.view()
	defer v.Close()
	it, err := v.NewIter(from, []byte{letter, spaceTopic + 1})
	if err != nil {
		return nil, fmt.Errorf("read topics: %w", err)
	}
	defer it.Close()
	for ok := it.First(); ok && len(names) < limit; ok = it.Next() {
		names = append(names, string(it.Key()[2:]))
	}
	return names, it.Error()
}

// Reads is how much a List may read. The row that goes beyond is read whole.
type Reads struct{ Rows, Bytes int }

// Listed is one transaction of a list.
type Listed struct {
	Number uint64
	// Transaction is nil where the list has no room for more than numbers: BriefNumber reads it.
	Transaction *Transaction
	// Bytes is its size without its branches.
	Bytes int64
}

// List lists up to limit transactions with numbers below before (0: from the newest), newest first and without branches. Beyond the first
// room bytes it returns the numbers alone, because a thousand transactions may exceed the caller's room. All others are of one applied
// index. next is the value of before for the next call; 0: there is no more. A call takes off most what it has read, and ends when that is
// spent. So it may return fewer than limit, even none, and a next. Any goroutine.
func (m *Machine) List(before uint64, limit, room int, most *Reads, f Filter) (all []Listed, next uint64, err error) {
	if f.Gid != "" {
		return m.listOne(before, f)
	}
	if before == 0 {
		before = math.MaxUint64
	}
	v := m.view()
	defer v.Close()
	it, err := v.NewIter([]byte{letter, spaceDefinition}, appendDefinitionKey(nil, before))
	if err != nil {
		return nil, 0, fmt.Errorf("list transactions: %w", err)
	}
	defer it.Close()
	for ok := it.Last(); ok; ok = it.Prev() {
		if len(all) >= limit || most.Rows <= 0 || most.Bytes < 0 {
			return all, next, nil
		}
		if next, err = splitNumberKey(it.Key()); err != nil {
			return nil, 0, err
		}
		row, err := it.Value()
		if err != nil {
			return nil, 0, fmt.Errorf("list transactions: %w", err)
		}
		most.Rows--
		most.Bytes -= len(row)
		t, err := f.take(v, next, row)
		if err != nil {
			return nil, 0, err
		}
		if t != nil {
			texts := len(t.Reason) + len(t.Result)
			most.Bytes -= texts
			one := Listed{Number: next, Bytes: t.Bytes}
			if room -= len(row) + texts; room >= 0 {
				one.Transaction = t
			}
			all = append(all, one)
		}
	}
	return all, 0, it.Error()
}

// take returns the transaction of a definition's row, nil if the filter does not let it pass.
func (f *Filter) take(r store.Reader, number uint64, row []byte) (*Transaction, error) {
	d, err := decodeDefinition(row)
	if err != nil {
		return nil, err
	}
	if f.Mode != 0 && d.Mode != f.Mode || f.From != 0 && d.created < f.From || f.To != 0 && d.created > f.To {
		return nil, nil
	}
	h, err := readHead(r, number, &d)
	if err != nil || f.Status != 0 && h.status != f.Status {
		return nil, err
	}
	return &Transaction{Number: number, Definition: d.Definition, Head: h.view(), BranchBytes: h.size, Bytes: int64(len(row) + len(h.reason) + len(h.result))}, nil
}

// Passes reports whether the filter lets a transaction pass.
func (f *Filter) Passes(t *Transaction) bool {
	return (f.Gid == "" || f.Gid == t.Gid) && (f.Mode == 0 || t.Mode == f.Mode) && (f.Status == 0 || t.Status == f.Status) &&
		(f.From == 0 || t.Created >= f.From) && (f.To == 0 || t.Created <= f.To)
}

// listOne is List of a gid, of which there is one transaction at most.
func (m *Machine) listOne(before uint64, f Filter) ([]Listed, uint64, error) {
	t, err := m.Brief(f.Gid)
	if err != nil || t == nil || before != 0 && t.Number >= before || !f.Passes(t) {
		return nil, 0, err
	}
	return []Listed{{t.Number, t, t.Bytes}}, 0, nil
}
