package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// opening is what was found about a database and its replica when an agent takes them over.
type opening struct {
	files *capture.Database // nil: there is no database and nothing to restore
	chain *replica.Chain
	owner uint64
	// ahead: the database has more than the replica, which begins with it.
	ahead bool
	// resumed: this disk was the last to write, and had stored everything: no fence was needed.
	resumed bool
}

// stopError is what no later attempt can change: writes are refused, and a person has to decide.
type stopError struct{ text string }

func (e *stopError) Error() string { return e.text }

func stopf(format string, args ...any) error { return &stopError{fmt.Sprintf(format, args...)} }

// open tries to open the database, outside the loop, which is not called meanwhile but by what that brings.
func (d *database) open(now time.Time) time.Duration {
	if d.jobs > 0 {
		return later
	}
	look := d.agent.cfg.Files.LookAt(d.target.Path)
	if d.nowhere && look == d.missing && len(d.waiters) == 0 {
		return -1 // there was nothing, and nothing has come
	}
	pause := d.pause
	if d.nowhere && look != d.missing || d.endedSince(d.opened) {
		pause = 20 * time.Millisecond
	}
	if wait := d.opened.Add(pause).Sub(now); wait > 0 {
		return wait
	}
	d.opened, d.jobs = now, d.jobs+1
	d.async(func(ctx context.Context) func() {
		o, err := d.takeOver(ctx)
		return func() {
			d.jobs--
			d.missing = look
			d.take(o, err, now)
		}
	})
	return later
}

// leaving reports whether the agent ends with this database, which is not open and need not be: there is none, or an attempt that began
// after the agent was to end did not succeed.
func (d *database) leaving() bool {
	d.mu.Lock()
	ending, abandoned, fenced := !d.ending.IsZero(), d.abandoned, d.phase == gate.Fenced
	d.mu.Unlock()
	switch {
	case !ending:
		return false
	case abandoned, fenced:
		return true
	}
	return d.jobs == 0 && (d.nowhere && d.agent.cfg.Files.LookAt(d.target.Path) == d.missing || d.tried && !d.endedSince(d.opened))
}

// endedSince reports whether the agent was to end with this database after t.
func (d *database) endedSince(t time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ending.After(t)
}

// take begins with what was found by an attempt that began at began.
func (d *database) take(o *opening, err error, began time.Time) {
	d.tried, d.nowhere = true, false
	var stop *stopError
	switch {
	case errors.Is(err, capture.ErrMode) && !final(err):
		o = &opening{}
		d.uncaptured(err)
		d.clear(alarmOpen)
		fallthrough
	case err == nil && o.files == nil:
		if err == nil {
			d.clear(alarmOpen, alarmCapture)
			d.failed(nil)
		}
		// Nothing to replicate yet. Writes are let through: the first that is committed makes the replica.
		d.pause, d.nowhere = d.agent.cfg.Interval, true
		d.enter(gate.Open, "")
		d.nothing(began)
		return
	case errors.As(err, &stop):
		d.trouble(err)
		d.clear(alarmOpen, alarmCapture)
		d.raise(alarmRefused, err.Error())
		d.enter(gate.Fenced, err.Error())
		d.failed(err)
		return
	case err != nil:
		d.pause = min(max(2*d.pause, 100*time.Millisecond), 5*time.Second)
		d.trouble(err)
		d.raise(alarmOpen, err.Error())
		d.enter(gate.Opening, err.Error())
		d.failed(err)
		return
	}
	d.clear(alarmOpen, alarmCapture)
	d.failed(nil)
	d.pause, d.files, d.owner, d.wasWAL = 0, o.files, o.owner, true
	d.epoch, d.alone = o.chain.Epoch, o.resumed
	if o.resumed {
		d.epoch++
	}
	d.head, d.stored = o.chain.Head, o.chain.Head
	d.known = slices.Clone(o.chain.Files)
	d.changed, d.stale = d.now(), !o.resumed
	d.through = d.seq
	d.makeLevels(o.chain)
	if err := d.begin(o); err != nil {
		d.fail(err)
		return
	}
	d.log.Info("database is followed", "txid", d.head.TXID.String(), "replica", d.target.URL, "ack", d.target.Ack.String())
	d.enter(gate.Open, "")
}

// begin sends the first group: the whole database if the replica is empty, what differs if the database is ahead, and behind a fence page 1 as
// it is, so that nothing that others have on their way can be taken for the file behind the fence.
func (d *database) begin(o *opening) error {
	var err error
	for tries := range 500 {
		if tries > 0 {
			d.agent.cfg.Files.Pause(2 * time.Millisecond) // connections that are in the way are in a transaction, for which nobody waits yet
		}
		var changed, g *capture.Group
		changed, err = o.files.Capture()
		switch {
		case err != nil:
		case d.head.Empty(), o.ahead:
			changed.Release()
			d.epoch = max(d.epoch, 1)
			g, err = o.files.CaptureView(o.files.All)
		case changed != nil:
			g = changed
		case d.head.Fence:
			g, err = o.files.View(func(yield func(uint32) bool) { yield(1) })
		default:
			return nil
		}
		if err != nil && !errors.Is(err, walfile.ErrBusy) && !errors.Is(err, capture.ErrChanged) {
			return err
		}
		if err == nil {
			g.Before = 0 // it leads from the replica's head to here, whatever was captured before
			d.ship(g)
			return nil
		}
	}
	return err
}

// nothing answers callers of Sync that came before it was found that there is nothing to store. A commit is never answered so: it may have
// been made meanwhile.
func (d *database) nothing(began time.Time) {
	left := d.waiters[:0]
	for _, w := range d.waiters {
		if w.conn == nil && w.came.Before(began) {
			w.answer(gate.Done, nil)
			continue
		}
		left = append(left, w)
	}
	if d.waiters = left; len(left) > 0 {
		d.pause = 0
	}
}

// takeOver compares database and replica and makes this agent the replica's owner.
func (d *database) takeOver(ctx context.Context) (_ *opening, err error) {
	select {
	case d.agent.opening <- struct{}{}:
		defer func() { <-d.agent.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	fs := d.agent.cfg.FS
	k, _ := d.readState()
	o := &opening{}
	o.files, err = d.openFiles(ctx)
	if err != nil && !errors.Is(err, walfile.ErrAbsent) {
		return nil, err
	}
	defer func() {
		if err != nil && o.files != nil {
			o.files.Close()
		}
	}()
	var before *replica.Chain
	if err := d.ask(ctx, func(ctx context.Context) (err error) { before, err = d.target.Replica.Read(ctx); return }); err != nil {
		return nil, err
	}
	last := before.Head
	if last.Empty() {
		if k.TXID != 0 {
			return nil, stopf("%s is empty, and this database was stored there up to TXID %s; give its replica back, or remove %s to begin a new one",
				d.target.URL, k.TXID, filepath.Join(d.side, "state"))
		}
		o.chain = before
		if o.files == nil {
			return o, nil
		}
		if o.files.State().Pages == 0 {
			o.files.Close()
			o.files = nil
			return o, nil
		}
	}
	o.owner = d.agent.newOwner()
	local := replica.Checksum(0)
	if o.files != nil {
		local = replica.Checksum(o.files.State().Sum)
	}
	if k.Clean && (k.Owner == last.Owner || k.Next == last.Owner) && k.TXID == last.TXID && !last.Empty() && local == last.Post && len(before.Ahead) == 0 {
		// No fence: nothing of this owner's is on its way. But a copy of this disk may do the same at this moment, so the first group is sent alone, under
		// a number of its own: of the two one gets the name.
		o.chain, o.resumed = before, true
		return o, d.writeState(known{Owner: last.Owner, Next: o.owner, TXID: last.TXID, Checksum: last.Post})
	}
	if o.files != nil && !last.Empty() && local != last.Post && !(k.Owner != 0 && (last.Owner == k.Owner || last.Owner == k.Next)) &&
		!(k.Clean && k.Checksum == local && k.TXID <= last.TXID) && !d.isPrefix(ctx, o, before) {
		// Before the fence: whoever has the replica goes on.
		return nil, d.strange(last)
	}
	mine := !last.Empty() && k.Owner != 0 && (last.Owner == k.Owner || last.Owner == k.Next)
	if mine {
		// This disk wrote last, and does again: whichever of the two is found behind a crash in between.
		if err := d.writeState(known{Owner: last.Owner, Next: o.owner, TXID: k.TXID, Checksum: k.Checksum, Boot: k.Boot, Clean: k.Clean}); err != nil {
			return nil, err
		}
	}
	if !last.Empty() {
		if err := d.ask(ctx, func(ctx context.Context) (err error) { o.chain, err = d.target.Replica.TakeOver(ctx, o.owner); return }); err != nil {
			return nil, err
		}
		if mine {
			if mine, err = d.wrote(ctx, k, last, o.chain); err != nil {
				return nil, err
			}
		}
	}
	head := o.chain.Head
	switch {
	case o.files == nil:
		err = d.restore(ctx, o)
	case last.Empty(), local == head.Post:
	case mine && (k.Clean || k.Boot == bootID(fs)):
		o.ahead = true
	case mine:
		// The machine was started anew, and what it had not made durable is gone: the replica may know more than the disk, the disk more than the
		// replica. The replica has whatever was acknowledged as stored, so it is what counts where the two cannot be told apart.
		if o.ahead, err = d.goesOn(ctx, o, before); err == nil && !o.ahead {
			d.log.Warn("the database is not a continuation of its replica since the machine was started anew; it is kept aside and restored")
			err = d.replace(ctx, o, true)
		}
	case k.Checksum == local && k.TXID <= head.TXID && k.Clean, d.isPrefix(ctx, o, o.chain):
		// What this disk has was stored, and others have gone on from there.
		err = d.replace(ctx, o, false)
	default:
		return nil, d.strange(head)
	}
	if err == nil {
		err = d.toWAL(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	return o, d.writeState(known{Owner: o.owner, TXID: head.TXID, Checksum: head.Post})
}

// wrote reports whether this disk, known by k, wrote the last group before the fence that chain ends with. Before the fence it was so of last, but until
// the fence stood another may have taken over and gone on, with a copy of this disk for example: then what it acknowledged counts, and this database is
// behind it, not ahead. A fence of our own says nothing about it: an attempt may have ended behind it before anything was compared.
func (d *database) wrote(ctx context.Context, k known, last replica.Head, chain *replica.Chain) (bool, error) {
	if _, fence := last.Next(); chain.Head.TXID == fence && last.Fence && last.Owner == k.Owner {
		return true, nil // the state names an owner once it has compared
	}
	var group replica.File
	for _, f := range chain.Files {
		if f.Level == 0 && !f.Fence && f.Max > group.Max {
			group = f
		}
	}
	if group.Max == 0 {
		return false, nil
	}
	var h replica.Header
	if err := d.ask(ctx, func(ctx context.Context) (err error) { h, _, err = d.target.Replica.Stat(ctx, group); return }); err != nil {
		return false, err
	}
	return h.NodeID == k.Owner || h.NodeID == k.Next, nil
}

// strange is the refusal of a database that is not its replica's.
func (d *database) strange(head replica.Head) error {
	return stopf("%s and its replica %s (TXID %s) have gone different ways; to keep the replica's move the file away, to keep the file's give a new place",
		d.target.Path, d.target.URL, head.TXID)
}

// goesOn reports whether the database's WAL is the one that the replica's last group was captured from, and reaches behind it.
func (d *database) goesOn(ctx context.Context, o *opening, before *replica.Chain) (bool, error) {
	var last replica.File
	for _, f := range before.Files {
		if f.Level == 0 && f.Size > replica.FenceSize && f.Max > last.Max {
			last = f
		}
	}
	if last.Max == 0 {
		return false, nil
	}
	var h replica.Header
	if err := d.ask(ctx, func(ctx context.Context) (err error) { h, _, err = d.target.Replica.Stat(ctx, last); return }); err != nil {
		return false, err
	}
	salt := o.files.State().Salt
	return h.WALOffset > 0 && h.WALSalt1 == binary.BigEndian.Uint32(salt[:]) && h.WALSalt2 == binary.BigEndian.Uint32(salt[4:]) &&
		o.files.End() >= h.WALOffset+h.WALSize, nil
}

// isPrefix reports whether the database is a state that the replica has passed through, as far as it is known.
func (d *database) isPrefix(ctx context.Context, o *opening, chain *replica.Chain) bool {
	files := slices.Clone(chain.Files)
	if err := d.ask(ctx, func(ctx context.Context) error { return d.target.Replica.Fill(ctx, files) }); err != nil {
		d.log.Warn("read what states the replica has", "err", err) // then those that the manifest names have to do
	}
	local := replica.Checksum(o.files.State().Sum)
	return slices.ContainsFunc(files, func(f replica.File) bool { return f.Post == local && f.Post != 0 })
}

// replace puts the replica's database in the place of the one that is there, which is removed or kept aside.
func (d *database) replace(ctx context.Context, o *opening, keep bool) error {
	if !o.files.Alone() {
		return fmt.Errorf("%s has gone on to TXID %s, and %s is open; close it, so that it can be restored", d.target.URL, o.chain.Head.TXID, d.target.Path)
	}
	o.files.Close()
	o.files = nil
	if keep {
		d.rename()
	} else {
		for _, suffix := range []string{"-wal", "-shm", ""} {
			if err := d.agent.cfg.FS.Remove(d.target.Path + suffix); err != nil && suffix == "" {
				return err
			}
		}
	}
	return d.restore(ctx, o)
}

func (d *database) restore(ctx context.Context, o *opening) error {
	d.log.Info("restore", "from", d.target.URL, "txid", o.chain.Head.TXID.String())
	if err := d.agent.cfg.Restore(ctx, d.target.Replica, d.target.Path); err != nil {
		return err
	}
	files, err := capture.OpenBy(d.agent.cfg.Files, d.target.Path)
	if err != nil {
		return err
	}
	o.files = files
	if s := replica.Checksum(files.State().Sum); s != o.chain.Head.Post {
		return stopf("%s restored from %s has checksum %x, and the replica says %x", d.target.Path, d.target.URL, s, o.chain.Head.Post)
	}
	return nil
}

// ask does a small request or a few, with a time limit.
func (d *database) ask(ctx context.Context, f func(ctx context.Context) error) error {
	d.agent.requests.add()
	ctx, cancel := d.agent.cfg.Timeout(ctx, 6*attempt)
	defer cancel()
	return f(ctx)
}

func (d *database) readState() (known, error) {
	b, err := d.agent.cfg.FS.ReadFile(filepath.Join(d.side, "state"))
	if err != nil {
		return known{}, err
	}
	k, ok := decodeState(b)
	if !ok {
		return known{}, errors.New("damaged")
	}
	return k, nil
}

// writeState writes k. Without a boot id it is of this boot: database and replica were compared. An attempt that has not compared them keeps the
// boot id of the state before, or the next attempt would take a disk that lost commits for one that has lost none.
func (d *database) writeState(k known) error {
	if k.Boot == "" {
		k.Boot = bootID(d.agent.cfg.FS)
	}
	return d.agent.cfg.FS.WriteFileAtomic(filepath.Join(d.side, "state"), k.encode())
}

func (a *Agent) newOwner() uint64 { return a.cfg.Random() | 1 }
