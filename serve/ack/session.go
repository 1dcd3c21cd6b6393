package ack

import (
	"context"

	"github.com/holdfastdb/holdfast/core/entry"
)

// Session is one request, or one stream, at the gate: its level, and its last write. The zero Session is of level Commit. One goroutine owns it.
type Session struct {
	Level Level
	// Wrote is the result of the last command of the request that took effect; nil: there was none.
	Wrote *entry.Result
}

// Session begins that of a request which asks for level, "" if it names none. Errors: Dial.Level's.
func (d Dial) Session(level string) (Session, error) {
	l, err := d.Level(level)
	return Session{Level: l}, err
}

// Waits reports whether the answers wait for the archive.
func (s *Session) Waits() bool { return s.Level == Archive }

// Hold returns once the log is archived up to index. It waits at every level: the door asks Waits before. Errors: *NotArchived with the
// position of the last write, if there was one, so that the client hears that it took effect; otherwise Member.Archived's.
func (s *Session) Hold(ctx context.Context, m Member, index uint64) error {
	err := m.Archived(ctx, index)
	if err != nil && s.Wrote != nil {
		return &NotArchived{At: s.Wrote.Pos, Term: s.Wrote.Term}
	}
	return err
}

// Written notes the result of a command and holds until the command is archived, with all that its result shows. For a rejected command, which
// has written nothing, errors are Member.Archived's.
func (s *Session) Written(ctx context.Context, m Member, res *entry.Result) error {
	if res.Rejection != nil {
		return m.Archived(ctx, res.Pos.Index)
	}
	s.Wrote = res
	return s.Hold(ctx, m, res.Pos.Index)
}
