// Package ack is the durability dial of the doors: the level that a session has asked for, and the gate at which its answers wait. The
// level belongs to the waiting client and never to a command, so nothing of it is in the log. How a refusal or a missed deadline looks on
// the wire is each door's.
//
// A session of level Archive sees nothing that could be lost with every member. The archive must hold the log before a write is answered
// with success, and before the rows of a read are shown.
package ack

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
)

// Level is the durability that an answer waits for.
type Level uint8

const (
	// Commit: a majority of the members has synced it, and it is applied here. Every answer waits for that.
	Commit Level = iota
	// Archive: the archive holds it too.
	Archive
)

// Where a request says its level.
const (
	Header   = "Holdfast-Ack" // of HTTP
	Metadata = "holdfast-ack" // of gRPC
)

// ParseLevel reads a level's name.
func ParseLevel(s string) (Level, error) {
	switch s {
	case "commit":
		return Commit, nil
	case "archive":
		return Archive, nil
	}
	return 0, fmt.Errorf("%s is commit or archive, not %.64q", Metadata, s)
}

// String implements fmt.Stringer.
func (l Level) String() string {
	if l == Archive {
		return "archive"
	}
	return "commit"
}

// Dial is a server's offer of levels. The zero Dial is of one without an archive.
type Dial struct {
	// Archiving: this server has an archive.
	Archiving bool
	// Default is the level of a request that does not name one; Archive only with an archive.
	Default Level
}

// Level returns the level of a request that asks for level, "" if it names none: the higher of that and the server's own. An error is for
// the client; nothing has been done for it then.
func (d Dial) Level(level string) (Level, error) {
	if level == "" {
		return d.Default, nil
	}
	l, err := ParseLevel(level)
	if err == nil && l == Archive && !d.Archiving {
		err = fmt.Errorf("%s is archive, but this server has no archive: start it with --archive", Metadata)
	}
	return l, err
}

// Member is the gate's view of a node. *node.Node is the one.
type Member interface {
	Archived(ctx context.Context, index uint64) error
	ArchivedIndex() uint64
	ReadIndex() uint64
}

// NotArchived: a write has taken effect, and was not archived by the deadline. It may be later. It must not be sent again: it is answered
// with what no client library repeats by itself.
type NotArchived struct {
	At   entry.Position
	Term uint64
}

// Error implements error: the text is the same at every door.
func (e *NotArchived) Error() string {
	return fmt.Sprintf("written at %v@%d, not archived", e.At, e.Term)
}

// Read returns once all is archived that this member can have shown before the call. Errors: Archived's.
func Read(ctx context.Context, m Member) error { return m.Archived(ctx, m.ReadIndex()) }

// Margins of an answer that must be there before its client stops waiting.
const (
	mostAhead  = 50 * time.Millisecond
	aheadShare = 10 // of the time there is
)

// Ahead returns a context that ends a little before ctx, when the client stops waiting: by 50 ms, or a tenth of the time left. Otherwise
// the client library would answer for this server, and its user would not hear where the write is.
func Ahead(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end.Add(-min(mostAhead, max(0, time.Until(end))/aheadShare)))
}
