package sql

import (
	"context"

	"github.com/holdfastdb/holdfast/doors/sql/account"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// account runs a statement about accounts. As in MySQL, one that changes them commits the open transaction before.
func (s *session) account(ctx context.Context, st *account.Statement, to *wire.Answer) error {
	if !st.Reads() {
		if err := s.commit(); err != nil {
			return err
		}
	}
	a, err := s.d.opt.Users.Run(ctx, s.user, st, s.s.GetCurrentDatabase())
	if err != nil {
		return err
	}
	if st.Reads() {
		to.Columns(linesUnder(a.Heading))
		for _, line := range a.Lines {
			to.Text(line)
		}
		to.End(0)
		return nil
	}
	if a.Wrote != nil {
		s.acked.session.Wrote = a.Wrote
	}
	s.s.ClearWarnings()
	for _, n := range a.Notes {
		s.s.Note(n.Code, n.Text)
	}
	to.OK(wire.Done{Warnings: uint16(len(a.Notes))})
	return nil
}

// linesUnder is the one column of SHOW GRANTS.
func linesUnder(heading string) []wire.Column {
	return []wire.Column{{Name: heading, Type: wire.VarString, Collation: 45, Length: 4096, Decimals: 31}}
}
