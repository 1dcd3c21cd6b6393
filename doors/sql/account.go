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
	heading, lines, notes, err := s.d.opt.Users.Run(ctx, s.user, st, s.s.GetCurrentDatabase())
	if err != nil {
		return err
	}
	if st.Reads() {
		to.Columns(linesUnder(heading))
		for _, line := range lines {
			to.Text(line)
		}
		to.End(0)
		return nil
	}
	s.s.ClearWarnings()
	for _, n := range notes {
		s.s.Note(n.Code, n.Text)
	}
	to.OK(wire.Done{Warnings: uint16(len(notes))})
	return nil
}

// linesUnder is the one column of SHOW GRANTS.
func linesUnder(heading string) []wire.Column {
	return []wire.Column{{Name: heading, Type: wire.VarString, Collation: 45, Length: 4096, Decimals: 31}}
}
