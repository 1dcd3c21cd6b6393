package engine

import (
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// The variables that bound the snapshot of a transaction: how many seconds that of one lives which has locked a row, and how many bytes any of them may pin in
// the store. Who may manage accounts may have more than the defaults, everybody may have less.
const (
	viewAgeVariable   = "holdfast_view_seconds"
	viewBytesVariable = "holdfast_view_bytes"
	mostViewAge       = 31536000
	// viewBytes is the default: more than a dump of a large database has rewritten beside it, and bounded by what the store has anyhow.
	viewBytes = 16 << 30
)

// ViewLimit is what the session's variables say of the snapshots of its transactions.
func (s *Session) ViewLimit() txn.ViewLimit { return s.viewLimit }

// firstViewLimit is what it is before any is set.
var firstViewLimit = txn.ViewLimit{Age: node.ViewAge, Bytes: viewBytes}

// number returns a variable that is a number.
func (s *Session) number(name string, def int64) int64 {
	v, err := s.GetSessionVariable(nil, name)
	if n, ok := integer(v); err == nil && ok {
		return n
	}
	return def
}

// judgeViews takes in what SET has set, and takes back what the session's account may not have. Error: 1227.
func (s *Session) judgeViews() error {
	defer func() {
		s.viewLimit = txn.ViewLimit{Age: s.seconds(viewAgeVariable, int64(node.ViewAge/time.Second)), Bytes: s.number(viewBytesVariable, viewBytes)}
	}()
	if s.SeesAll() {
		return nil
	}
	for name, most := range map[string]int64{viewAgeVariable: int64(node.ViewAge / time.Second), viewBytesVariable: viewBytes} { // any order: each by itself
		if s.number(name, most) <= most {
			continue
		}
		if err := s.SetSessionVariable(s.quiet(), name, most); err != nil {
			return err
		}
		return wire.Errorf(1227, "Access denied; you need (at least one of) the ALL privilege(s) on *.* to set %s above %d", name, most)
	}
	return nil
}
