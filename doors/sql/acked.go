package sql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
	"github.com/holdfastdb/holdfast/serve/ack"
)

// archiveWait bounds how long an answer waits for the archive. MySQL's clients name no deadline. MySQL's own sessions wait as long for another
// member (rpl_semi_sync_source_timeout).
const archiveWait = 10 * time.Second

// acked is what the command that runs has to wait for, where the session waits for the archive.
type acked struct {
	session ack.Session // its last write
	saw     bool        // the answer tells more than that the write took effect
}

// wrote notes what a transaction has written.
func (s *session) wrote(tx *txn.Tx) {
	if res := tx.Wrote(); res != nil {
		s.acked.session.Wrote = res
	}
}

// defaultAck gives the session the server's level.
func (s *session) defaultAck() {
	if err := s.s.SetAck(s.d.opt.Ack.Default.String()); err != nil {
		panic(fmt.Sprintf("the server's own level is refused: %v", err)) // the two lists of levels differ
	}
}

// judgeAck takes back a level that this server does not have.
func (s *session) judgeAck() error {
	if _, err := s.d.opt.Ack.Level(s.s.Ack()); err != nil {
		s.defaultAck()
		return wire.Errorf(1231, "Variable 'holdfast_ack' can't be set to the value of 'archive': this server has no archive (--archive)")
	}
	return nil
}

// Hold implements wire.Session. The answers of a session that waits for the archive tell nothing that could be lost with every member.
func (s *session) Hold(ctx context.Context) error {
	s.turn.Leave() // the client may read slowly
	if !s.d.opt.Ack.Archiving {
		return nil
	}
	level, err := s.d.opt.Ack.Level(s.s.Ack())
	if err != nil || level != ack.Archive {
		return nil
	}
	index := s.d.opt.Member.ReadIndex()
	if wrote := s.acked.session.Wrote; wrote != nil && !s.acked.saw {
		index = wrote.Pos.Index
	}
	if s.d.opt.Member.ArchivedIndex() >= index {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, archiveWait)
	defer cancel()
	err = s.acked.session.Hold(ctx, s.d.opt.Member, index)
	var not *ack.NotArchived
	switch {
	case err == nil:
		return nil
	case errors.As(err, &not):
		s.d.counts.fail(errDuringCommit)
		return wire.Errorf(errDuringCommit, "Got error during COMMIT: the transaction is committed, %v; do not send it again", not)
	case errors.Is(err, context.DeadlineExceeded):
		s.d.counts.fail(errTooLong)
		return wire.Errorf(errTooLong, "Query execution was interrupted, maximum statement execution time exceeded: what it tells is not archived yet")
	}
	return s.words(err)
}

// Numbers of MySQL's errors.
const (
	errDuringCommit = 1180
	errTooLong      = 3024
)
