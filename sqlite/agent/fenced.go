package agent

import (
	"context"
	"errors"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// fenced ends the database: another agent has its replica. Writes are refused at once. The files get another name when no program has them open.
func (d *database) fenced() {
	if d.in(gate.Fenced) {
		return
	}
	d.log.Error("another agent has taken the replica over; what it does not have is kept aside", "replica", d.target.URL, "txid", d.stored.TXID.String())
	d.enter(gate.Fenced, "another agent has taken "+d.target.URL+" over")
	d.raise(alarmRefused, "another agent has taken "+d.target.URL+" over")
	d.answerAll(gate.WasFenced, replica.ErrFenced)
	mine := make([]replica.File, 0, len(d.ships))
	for _, s := range d.ships {
		if s.there {
			mine = append(mine, s.file) // behind the fence: without an owner
		}
	}
	// The next agent on this disk finds it there if this one ends before the files are renamed.
	if err := d.writeState(known{Owner: d.owner, TXID: d.stored.TXID, Checksum: d.stored.Post, Fenced: true}); err != nil {
		d.log.Warn("write the state", "err", err)
	}
	d.leave()
	d.losing = true
	if d.retire(); d.losing {
		d.log.Warn("a program has the database open; it is kept aside when that program has ended")
	}
	if len(mine) > 0 {
		d.async(func(ctx context.Context) func() {
			if err := d.ask(ctx, func(ctx context.Context) error { return d.removeOrphans(ctx, mine) }); err != nil {
				d.log.Warn("remove what nobody needs; it stays in the store and does no harm", "err", err)
			}
			return func() {}
		})
	}
}

// retire renames the files of a database that is another owner's, if no program has them open. It returns when to look again, -1: never.
func (d *database) retire() time.Duration {
	if !d.losing {
		return -1
	}
	if used, err := d.used(); used || err != nil {
		if err != nil {
			d.trouble(err)
		}
		return d.agent.cfg.Interval
	}
	kept, err := d.setAside(".fenced-")
	if err != nil {
		d.trouble(err)
		return d.agent.cfg.Interval
	}
	d.losing = false
	if kept != "" {
		d.log.Warn("what the database had is kept aside", "kept", kept)
	}
	if err := d.agent.cfg.FS.Remove(d.side + "/state"); err != nil {
		d.log.Warn("forget the replica", "err", err) // it names an owner that is no more: the next agent finds no file and restores
	}
	return -1
}

// used reports whether another program has the database open. The agent itself must not.
func (d *database) used() (bool, error) {
	f, err := d.agent.cfg.Files.Open(d.target.Path)
	switch {
	case errors.Is(err, walfile.ErrExclusive):
		return true, nil
	case errors.Is(err, walfile.ErrAbsent):
		return false, nil
	case err != nil:
		return false, err
	}
	defer f.Close()
	return f.Live() && !f.Alone(), nil
}
