package machine

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// ErrUnexpected: a row is not what the leader has seen when it decided. Only a machine that verifies finds out.
var ErrUnexpected = errors.New("row is not the one that the transaction has seen")

// seen is what an entry of the log has done so far, which the store does not have yet.
type seen struct {
	written map[string]uint64 // by key: hashes of rows
	emptied [][2][]byte       // ranges of keys
}

func newSeen() *seen { return &seen{written: map[string]uint64{}} }

func (s *seen) wrote(key []byte, hash uint64) { s.written[string(key)] = hash }

// empty notes that the keys from lower to upper were deleted.
func (s *seen) empty(lower, upper []byte) {
	for key := range s.written { // any order: each is judged by itself
		if within([]byte(key), lower, upper) {
			delete(s.written, key)
		}
	}
	s.emptied = append(s.emptied, [2][]byte{lower, upper})
}

// hash returns the hash of a row as this entry has left it. false: this entry has not touched it.
func (s *seen) hash(key []byte) (uint64, bool) {
	if h, ok := s.written[string(key)]; ok {
		return h, true
	}
	for _, e := range s.emptied {
		if within(key, e[0], e[1]) {
			return 0, true
		}
	}
	return 0, false
}

func within(key, lower, upper []byte) bool {
	return bytes.Compare(key, lower) >= 0 && bytes.Compare(key, upper) < 0
}

// hashOf is what a Read has of a row: 0 if there is none.
func hashOf(value []byte, exists bool) uint64 {
	if !exists {
		return 0
	}
	return max(1, xxhash.Sum64(value))
}

// Hash returns the Hash of a Read for a row with this value, without the row's head.
func Hash(value []byte) uint64 { return hashOf(value, true) }

// stored is the hash of a row as everything before this command has left it.
func (m *Machine) stored(table, index uint64, key []byte) (uint64, error) {
	full := append(AppendPrefix(nil, table, index), key...)
	if h, ok := m.seen.hash(full); ok {
		return h, nil
	}
	value, ok, err := m.st.Get(nil, full)
	if ok && err == nil && index == 0 {
		_, value, err = Row(value)
	}
	return hashOf(value, ok), err
}

// expect holds a commit against the rows that there are. An insert must find none, an update and a delete must find one, and each row that was
// read must be there as it was seen.
func (m *Machine) expect(p *sqlpart.Part) error {
	if err := m.expectOthers(p); err != nil {
		return err
	}
	own := map[string]bool{} // by key: a row as this commit leaves it
	for i := range p.Tables {
		w := &p.Tables[i]
		for rest := w.Ops; len(rest) > 0; {
			var op sqlpart.Op
			var err error
			if op, rest, err = sqlpart.NextOp(rest); err != nil {
				return err
			}
			key := string(append(AppendPrefix(nil, w.Table, op.Index), op.Key...))
			there, ok := own[key]
			if op.Action == sqlpart.Retract {
				continue
			}
			if !ok {
				h, err := m.stored(w.Table, op.Index, op.Key)
				if err != nil {
					return err
				}
				there = h != 0
			}
			if there == (op.Action == sqlpart.Insert) {
				return fmt.Errorf("%w: table %d index %d key %x is there: %v, and action %d", ErrUnexpected, w.Table, op.Index, op.Key, there, op.Action)
			}
			own[key] = op.Action != sqlpart.Delete
		}
	}
	for i := range p.Reads {
		r := &p.Reads[i]
		h, err := m.stored(r.Table, r.Index, r.Key)
		if err != nil {
			return err
		}
		if h != r.Hash {
			return fmt.Errorf("%w: table %d index %d key %x has hash %x, and %x was read", ErrUnexpected, r.Table, r.Index, r.Key, h, r.Hash)
		}
	}
	return nil
}

// expectOthers holds what a transaction writes and has read against what other ones have staged: those rows are locked.
func (m *Machine) expectOthers(p *sqlpart.Part) error {
	for _, s := range m.staged { // any order: each is judged by itself, and one error stops the member
		if s.id == p.Tx {
			continue
		}
		free := func(table, index uint64, key []byte) error {
			if _, has := s.tables[table]; !has {
				return nil
			}
			piece := AppendPiece(nil, s.id, append(AppendPrefix(nil, table, index), key...))
			h, seen := m.seen.hash(piece)
			if !seen {
				value, ok, err := m.st.Get(nil, piece)
				if err != nil {
					return err
				}
				h = hashOf(value, ok)
			}
			if h != 0 {
				return fmt.Errorf("%w: transaction %d has staged table %d index %d key %x, committed %v", ErrUnexpected, s.id, table, index, key,
					s.state == stateCommitted)
			}
			return nil
		}
		for i := range p.Tables {
			w := &p.Tables[i]
			for rest := w.Ops; len(rest) > 0; {
				var op sqlpart.Op
				var err error
				if op, rest, err = sqlpart.NextOp(rest); err == nil {
					err = free(w.Table, op.Index, op.Key)
				}
				if err != nil {
					return err
				}
			}
		}
		for i := range p.Reads {
			if err := free(p.Reads[i].Table, p.Reads[i].Index, p.Reads[i].Key); err != nil {
				return err
			}
		}
	}
	return nil
}
