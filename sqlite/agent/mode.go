package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// errInUse: a program reads or writes the database at the moment when it is to be switched to WAL mode.
var errInUse = errors.New("it is not in WAL mode, and another program has a transaction in it; it is switched when that one has ended")

// openFiles opens the database at the target's path and reads all of it. A database with a rollback journal is opened for comparison only
// (capture.OpenRollback), if this agent may switch it to WAL mode: capture.ErrMode otherwise.
func (d *database) openFiles(ctx context.Context) (*capture.Database, error) {
	files, err := capture.OpenBy(d.agent.cfg.Files, d.target.Path)
	if !errors.Is(err, capture.ErrMode) || !d.maySwitch() {
		return files, err
	}
	for range 3 {
		files, err = capture.OpenRollback(d.target.Path)
		switch {
		case errors.Is(err, walfile.ErrHot):
			// The committed state is not in the file yet. SQLite puts it there, and does so for every program that opens the file: the switch would have come next.
			if err := d.agent.cfg.ToWAL(ctx, d.target.Path); err != nil {
				return nil, switchError(err)
			}
		case errors.Is(err, walfile.ErrWAL):
		default:
			return files, switchError(err)
		}
		if files, err = capture.OpenBy(d.agent.cfg.Files, d.target.Path); !errors.Is(err, capture.ErrMode) {
			return files, err
		}
	}
	return nil, switchError(walfile.ErrBusy)
}

// maySwitch reports whether this agent switches the database to WAL mode: once, when it takes the database over. A program that leaves WAL mode
// afterwards is not fought.
func (d *database) maySwitch() bool { return d.agent.cfg.ToWAL != nil && !d.wasWAL }

// toWAL switches a database that the takeover has decided to keep to WAL mode, if it has a rollback journal, and opens it anew. The switch
// changes the first page, so the database is ahead of its replica then: the first group has all of it.
func (d *database) toWAL(ctx context.Context, o *opening) error {
	if o.files == nil || !o.files.Rollback() {
		return nil
	}
	o.files.Close()
	if err := d.agent.cfg.ToWAL(ctx, d.target.Path); err != nil {
		return switchError(err)
	}
	files, err := capture.OpenBy(d.agent.cfg.Files, d.target.Path)
	if err != nil {
		return err
	}
	o.files, o.ahead, o.resumed = files, true, false
	d.log.Info("the database was switched to WAL mode")
	return nil
}

func switchError(err error) error {
	switch {
	case err == nil, errors.Is(err, walfile.ErrAbsent), errors.Is(err, walfile.ErrMoved):
		return err
	case errors.Is(err, walfile.ErrBusy):
		return errInUse
	}
	return lastingError{fmt.Errorf("it is not in WAL mode, and cannot be switched: %w; run PRAGMA journal_mode=WAL on it as its owner", err)}
}
