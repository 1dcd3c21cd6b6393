package machine

import (
	"fmt"

	"github.com/holdfastdb/holdfast/core/entry"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// maxEncoded bounds the branches of one transaction in bytes as encoded: payloads, URLs and names.
const maxEncoded = sagapart.MaxTransaction + 512<<10

// plan is what Check hands to Do. Check changes nothing but the cache.
type plan struct {
	part *sagapart.Part
	slot *slot
	// encoded are a Begin's branches, or those of a Register that are new; names those of a Begin.
	encoded []byte
	names   names
	defined []byte                  // of a Submit that gives a prepared transaction other options: its definition's next row
	options sagapart.Options        // and those options
	fresh   []sagapart.Branch       // of a Register: branches to add
	again   []sagapart.BranchResult // of a Register: branches that were there
	topic   *topicSlot
	unsub   int // of an Unsubscribe: the subscriber's place
}

func reject(code entry.Code, format string, args ...any) *entry.Rejection {
	return &entry.Rejection{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// wrongStatus is the rejection of a part for a transaction that is not where it should be.
func wrongStatus(s *slot) *entry.Rejection {
	return &entry.Rejection{Code: sagapart.WrongStatus, Detail: s.status.String()}
}

// Check implements machine.Machine.
func (m *Machine) Check(_ *entry.Stamp, body []byte) (any, *entry.Rejection, error) {
	p := &m.part
	if err := p.Decode(body); err != nil {
		if sagapart.Foreign(err) {
			return nil, nil, err
		}
		return nil, reject(sagapart.Malformed, "%v", err), nil
	}
	pl := &m.plan
	*pl = plan{part: p}
	var rej *entry.Rejection
	var err error
	switch p.Kind {
	case sagapart.Begin, sagapart.Submit:
		rej, err = m.checkBegin(pl, p.Begin)
	case sagapart.Change:
		rej, err = m.checkChange(pl, p.Change)
	case sagapart.Register:
		rej, err = m.checkRegister(pl, p.Register)
	case sagapart.Subscribe, sagapart.Unsubscribe, sagapart.Drop:
		rej, err = m.checkTopic(pl)
	}
	if rej != nil || err != nil {
		return nil, rej, err
	}
	return pl, nil, nil
}

// Readable implements machine.Machine.
func (m *Machine) Readable(body []byte) error {
	var p sagapart.Part
	if err := p.Decode(body); err != nil && sagapart.Foreign(err) {
		return err
	}
	return nil // malformed in another way: Check rejects it
}

func (m *Machine) checkBegin(pl *plan, g *sagapart.BeginPart) (rej *entry.Rejection, err error) {
	if pl.slot, err = m.find(g.Gid); err != nil {
		return nil, err
	}
	s := pl.slot
	switch {
	case !s.exists:
		return m.checkBranches(pl, g), nil
	case g.Fresh:
		return wrongStatus(s), nil
	case pl.part.Kind == sagapart.Submit && s.status == sagapart.Prepared:
		return nil, m.redefine(pl, g)
	case g.Exists, s.status == g.Status, s.status == sagapart.Prepared:
		return nil, nil
	}
	return wrongStatus(s), nil
}

// redefine makes the definition's row of a prepared transaction with the options that its submit gives, if they differ.
func (m *Machine) redefine(pl *plan, g *sagapart.BeginPart) error {
	row := pl.slot.defined
	if row == nil {
		var ok bool
		var err error
		if row, ok, err = m.st.Get(m.row[:0], appendDefinitionKey(m.key[:0], pl.slot.number)); err != nil {
			return fmt.Errorf("read transaction %d: %w", pl.slot.number, err)
		} else if !ok {
			return fmt.Errorf("transaction %d of gid %q has no definition: %w", pl.slot.number, pl.slot.gid, errCorrupt)
		}
		m.row = row[:0]
	}
	first, rest, err := splitDefinition(row)
	if err != nil {
		return err
	}
	d, inline, err := sagapart.TakeDefinition(rest)
	if err != nil {
		return fmt.Errorf("definition row %x: %w: %w", clip(row), errCorrupt, err)
	}
	if d.Take(&g.Definition) {
		m.defined = append(sagapart.AppendDefinition(wire.AppendBytes(m.defined[:0], first), &d), inline...)
		pl.defined = m.defined
	}
	pl.options = d.Options
	return nil
}

// checkBranches judges the branches of a new transaction and encodes them.
func (m *Machine) checkBranches(pl *plan, g *sagapart.BeginPart) *entry.Rejection {
	if n := len(g.Branches); n > 0 {
		pl.names.list = make([]name, 0, n)
	}
	for i := range g.Branches {
		b := &g.Branches[i]
		if pl.names.place(b.ID, b.Op) >= 0 {
			return reject(sagapart.Malformed, "branch %s %s is there twice", b.ID, b.Op)
		}
		pl.names.add(b.ID, b.Op, g.Status == sagapart.Prepared)
	}
	m.branches = sagapart.AppendBranches(m.branches[:0], g.Branches)
	if pl.encoded = m.branches; len(pl.encoded) > maxEncoded {
		return reject(sagapart.TooLarge, "branches of %d bytes, more than %d", len(pl.encoded), maxEncoded)
	}
	return nil
}

func (m *Machine) checkChange(pl *plan, c *sagapart.ChangePart) (rej *entry.Rejection, err error) {
	if pl.slot, err = m.find(c.Gid); err != nil {
		return nil, err
	}
	s := pl.slot
	switch {
	case !s.exists:
		return reject(sagapart.NotFound, "%s", c.Gid), nil
	case c.Number != 0 && c.Number != s.number:
		return reject(sagapart.NotFound, "%s is %d by now and not %d", c.Gid, s.number, c.Number), nil
	case s.status.Final() || !c.From.Has(s.status): // a transaction that has ended never changes, with any From
		return wrongStatus(s), nil
	}
	for _, r := range c.Results {
		if int(r.Branch) >= len(s.branches) {
			return reject(sagapart.NoBranch, "branch %d of %d", r.Branch, len(s.branches)), nil
		}
	}
	return nil, nil
}

func (m *Machine) checkRegister(pl *plan, g *sagapart.RegisterPart) (rej *entry.Rejection, err error) {
	if pl.slot, err = m.find(g.Gid); err != nil {
		return nil, err
	}
	s := pl.slot
	switch {
	case !s.exists:
		return reject(sagapart.NotFound, "%s", g.Gid), nil
	case s.status != sagapart.Prepared:
		return wrongStatus(s), nil
	}
	if err := m.readNames(s); err != nil {
		return nil, err
	}
	var own names // of the part itself: a name in it twice is one branch
	for i := range g.Branches {
		b := &g.Branches[i]
		at := s.names.place(b.ID, b.Op)
		if at < 0 {
			if at = own.place(b.ID, b.Op); at >= 0 {
				at += len(s.branches)
			}
		}
		if at >= 0 {
			pl.again = append(pl.again, sagapart.BranchResult{Branch: uint32(at), Status: b.Status})
			continue
		}
		own.add(b.ID, b.Op, false)
		pl.fresh = append(pl.fresh, *b)
	}
	if n := len(s.branches) + len(pl.fresh); n > sagapart.MaxBranches {
		return reject(sagapart.TooLarge, "%d branches, more than %d", n, sagapart.MaxBranches), nil
	}
	if len(pl.fresh) > 0 {
		m.branches = sagapart.AppendBranches(m.branches[:0], pl.fresh)
		pl.encoded = m.branches
		if n := s.head.size + int64(len(pl.encoded)); n > maxEncoded {
			return reject(sagapart.TooLarge, "branches of %d bytes, more than %d", n, maxEncoded), nil
		}
	}
	return nil, nil
}

// readNames reads the names of a transaction's branches unless they are known. The names of a transaction changed in this entry are always
// known, so that its rows in the store are whole.
func (m *Machine) readNames(s *slot) error {
	if s.named {
		return nil
	}
	_, inline, _, err := readTransaction(m.st, s.number)
	if err != nil {
		return err
	}
	all, err := readBranches(m.st, s.number, inline, &s.head)
	if err != nil {
		return err
	}
	for i := range all {
		s.names.add(all[i].ID, all[i].Op, true)
	}
	s.named = true
	m.cache.resize(s)
	return nil
}
