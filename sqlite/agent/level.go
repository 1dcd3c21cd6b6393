package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// snapshotLevel is Litestream's.
const snapshotLevel = 9

// level is one of the replica's levels above 0. Its files are made from the database: the changes since the previous file.
type level struct {
	number int
	every  time.Duration
	from   replica.Head // where its last file ends, and the next begins
	dirty  pageSet      // changed since
	due    time.Time    // zero: nothing has changed
}

func (l *level) note(g *capture.Group, now time.Time) {
	if l.due.IsZero() {
		l.due = now.Add(l.every)
	}
	if l.number == snapshotLevel {
		return
	}
	for _, p := range g.Pages {
		l.dirty.add(p.Number)
	}
}

// makeLevels begins every level at the head.
func (d *database) makeLevels(c *replica.Chain) {
	d.levels = nil
	for i, every := range d.agent.cfg.Levels {
		d.levels = append(d.levels, &level{number: i + 1, every: every, from: c.Head})
	}
	snap := &level{number: snapshotLevel, every: d.agent.cfg.Snapshot}
	for _, f := range c.Files {
		if f.Snapshot() && f.Max > snap.from.TXID {
			snap.from = replica.Head{TXID: f.Max, Time: f.Time}
		}
	}
	if !c.Head.Empty() && snap.from.TXID != c.Head.TXID {
		snap.due = snap.from.Time.Add(d.agent.cfg.Snapshot)
	}
	d.levels = append(d.levels, snap)
}

// snapshotNow makes a snapshot due.
func (d *database) snapshotNow() {
	for _, l := range d.levels {
		if l.number == snapshotLevel {
			l.due = d.now()
		}
	}
}

// dueSoon reports whether a level is due so soon that resting is not worth it.
func (d *database) dueSoon(now time.Time) bool {
	at := d.nextDue()
	return !at.IsZero() && at.Sub(now) < d.agent.restful()
}

// nextDue is when the next level is; zero: none.
func (d *database) nextDue() (at time.Time) {
	for _, l := range d.levels {
		if !l.due.IsZero() && (at.IsZero() || l.due.Before(at)) {
			at = l.due
		}
	}
	return at
}

// levelsDue makes the files of levels that are due. They are put when every group up to their end is stored.
func (d *database) levelsDue(now time.Time) {
	if d.view || d.head.Fence {
		return
	}
	for _, l := range d.levels {
		if l.due.IsZero() || now.Before(l.due) {
			continue
		}
		if !d.files.Open() && d.files.Reopen() != nil {
			return // the next capture finds out why
		}
		if l.number != snapshotLevel && !l.dirty.any || d.head.TXID == l.from.TXID {
			l.due, l.from = time.Time{}, d.head
			continue
		}
		if !d.makeFile(l) {
			return
		}
	}
}

// makeFile makes the next file of a level and sends it: false if it does not work out at the moment.
func (d *database) makeFile(l *level) bool {
	pages := l.dirty.All
	if l.number == snapshotLevel {
		pages = d.files.All
	}
	g, err := d.files.View(pages)
	if err != nil {
		return false // something was committed meanwhile
	}
	// Its time is that of the state, not of the file. A restore to a time looks for the state of then, also if the file was made late.
	h := replica.Header{PageSize: g.PageSize, Commit: g.State.Pages, MinTXID: l.from.TXID + 1, MaxTXID: d.head.TXID, Timestamp: d.head.Time.UnixMilli(),
		PreApplyChecksum: l.from.Post, NodeID: d.owner}
	if l.number == snapshotLevel {
		h.MinTXID, h.PreApplyChecksum = 1, 0
	}
	post := replica.Checksum(g.Sum)
	f := replica.File{Level: l.number, Min: h.MinTXID, Max: h.MaxTXID, Pre: h.PreApplyChecksum, Post: post, Time: d.head.Time}
	body := replica.Body(func(w io.Writer) error { return replica.WriteGroup(w, h, g.Each, post) })
	stream := g.Bytes() > mostKept/3
	if stream {
		d.view = true
	} else {
		var b bytes.Buffer
		err := body(&b)
		g.Release()
		if err != nil {
			d.files.Doubt()
			return false
		}
		body, f.Size = replica.Bytes(b.Bytes()), int64(b.Len())
	}
	from, dirty := l.from, l.dirty
	l.from, l.due = d.head, time.Time{}
	l.dirty.clear()
	d.jobs++
	times := d.times
	send := func() {
		d.async(func(ctx context.Context) func() {
			var err error
			if stream {
				err = measure(&f, body)
			}
			if err == nil {
				err = d.put(ctx, f.String(), f.Size, func(ctx context.Context) error { return d.target.Replica.PutLevel(ctx, f, body) })
			}
			return func() {
				d.jobs--
				if times != d.times {
					return
				}
				if stream {
					g.Release()
					d.view = false
				}
				switch {
				case err == nil:
					d.known = append(d.known, f)
					d.stale, d.tidy = true, time.Time{}
					d.log.Info("file of a level", "file", f.String(), "bytes", f.Size)
				case errors.Is(err, replica.ErrFenced):
					d.fenced()
				case isSwapped(err):
					d.swapped(err)
				default:
					// The next one covers what this one would have.
					l.from = from
					for p := range dirty.All {
						l.dirty.add(p)
					}
					l.due = d.now().Add(later)
					d.trouble(err)
					d.log.Warn("file of a level", "file", f.String(), "err", err)
				}
			}
		})
	}
	if d.seq == d.through {
		send()
	} else {
		d.waiting = append(d.waiting, parked{d.seq, send})
	}
	return true
}

// parked is a level's file that ends with a group that is not stored yet.
type parked struct {
	seq  uint64
	send func()
}
