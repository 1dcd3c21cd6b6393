package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

// mostMoves is how often a takeover judges anew because the replica went on meanwhile, before the attempt ends.
const mostMoves = 20

// takeOver compares database and replica and makes this agent the replica's owner: decide says how.
func (d *database) takeOver(ctx context.Context) (*opening, error) {
	select {
	case d.agent.opening <- struct{}{}:
		defer func() { <-d.agent.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := d.inPlace(); err != nil {
		return nil, err
	}
	if _, err := d.agent.cfg.Places.Check(d.place); err != nil {
		return nil, err // a second name may be a backup's, and go again
	}
	for range mostMoves {
		s, err := d.survey(ctx)
		if errors.Is(err, replica.ErrMoved) {
			continue
		}
		if err != nil {
			return nil, err
		}
		o, err := d.carryOut(ctx, s, decide(&s.view))
		if err != nil {
			s.close()
		}
		if !errors.Is(err, replica.ErrMoved) {
			return o, err
		}
	}
	return nil, fmt.Errorf("%s goes on all the time: its owner stores without a pause; end that one first", d.target.URL)
}

// carryOut does what was decided. Everything that can fail is done before the fence, which is the commit point of a takeover. replica.ErrMoved:
// nothing was done, because what was judged has changed.
func (d *database) carryOut(ctx context.Context, s *survey, dec decision) (*opening, error) {
	o := &opening{files: s.files, chain: s.chain, owner: d.agent.newOwner(), known: s.present, mend: len(s.faults) > 0}
	switch dec.do {
	case toWait:
		s.close()
		if s.unread != nil {
			return nil, &waitError{dec.says, s.unread}
		}
		return &opening{}, nil
	case toLater:
		return nil, errors.New(dec.says)
	case toRefuse:
		return nil, &stopError{dec.says}
	}
	if !d.target.SingleWriter {
		err := d.ask(ctx, d.target.Replica.Conditional)
		if errors.Is(err, objstore.ErrUnconditional) {
			return nil, stopf("%s: %v, so that two agents would write over each other; use a store that does, or, if no other agent ever has this replica, --single-writer",
				d.target.URL, err)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := d.ask(ctx, func(ctx context.Context) error {
		id, err := d.target.Replica.Identity(ctx, true)
		if err == nil {
			d.replicaID = id
		}
		return err
	}); err != nil {
		return nil, err
	}
	if dec.do != toRestore && dec.do != toUpdate {
		err := d.toWAL(ctx, o)
		if s.files = o.files; err != nil {
			return nil, err
		}
	}
	switch dec.do {
	case toBegin:
		d.announce(dec)
		return o, d.writeState(known{Owner: o.owner})
	case toResume:
		// This owner has no uploads in flight. But a copy of this disk may do the same at this moment. So the first group is sent alone,
		// under a number of its own: only one of the two gets the name.
		o.resumed = true
		head := s.chain.Head
		return o, d.writeState(known{Owner: head.Owner, Next: o.owner, TXID: head.TXID, Checksum: head.Post})
	case toRestore, toUpdate:
		return d.replace(ctx, s, o, dec)
	}
	return d.goOn(ctx, s, o, dec)
}

// waitError is why a database that is there is not followed. It is looked at again when it has changed.
type waitError struct {
	text string
	why  error
}

func (e *waitError) Error() string { return e.text }
func (e *waitError) Unwrap() error { return e.why }

// announce logs the decision, when it is certain.
func (d *database) announce(dec decision) {
	switch {
	case dec.says == "":
	case dec.warn:
		d.log.Warn(dec.says)
	default:
		d.log.Info(dec.says)
	}
}

// goOn fences and goes on with the database that is here.
func (d *database) goOn(ctx context.Context, s *survey, o *opening, dec decision) (*opening, error) {
	chain := *s.chain
	if chain.Head = s.there.head; chain.Head.Post == 0 { // the content of the damaged end is unknown
		chain.Head.Post = s.here.sum
	}
	if chain.Head.Pages == 0 {
		chain.Head.Pages, chain.Head.PageSize = o.files.State().Pages, o.files.State().PageSize
	}
	// The state records the comparison before the fence names the new owner: after a crash in between, either is consistent.
	k := known{Next: o.owner, TXID: chain.Head.TXID, Checksum: chain.Head.Post}
	if s.mine() {
		// The fence may fail. The next attempt must still know that the machine was started anew since this disk wrote last.
		k.Owner, k.Clean, k.Boot = s.here.state.Owner, s.here.state.Clean, s.here.state.Boot
		if s.there.head.Fence && s.there.head.Owner == s.here.state.Next {
			k.Owner = s.here.state.Next
		} else if s.there.groupBy == s.here.state.Next && k.Owner != s.there.groupBy {
			k.Owner = s.there.groupBy
		}
	}
	if err := d.writeState(k); err != nil {
		return nil, err
	}
	var after *replica.Chain
	// COMMIT POINT: the previous owner stores nothing more.
	if err := d.ask(ctx, func(ctx context.Context) (err error) {
		after, err = d.target.Replica.Fence(ctx, &chain, o.owner)
		return
	}); err != nil {
		return nil, err
	}
	d.announce(dec)
	o.chain, o.ahead, o.renew, o.branch = after, o.ahead || dec.do != toTake, dec.do == toRenew, s.here.record != nil
	o.known = d.without(after.Files, s.faults)
	return o, d.writeState(known{Owner: o.owner, TXID: after.Head.TXID, Checksum: after.Head.Post})
}

// without leaves out the files that faults name.
func (d *database) without(files []replica.File, faults []*replica.Fault) []replica.File {
	return slices.DeleteFunc(slices.Clone(files), func(f replica.File) bool {
		name := d.target.Replica.Name(f)
		return slices.ContainsFunc(faults, func(fault *replica.Fault) bool { return fault.Name == name && !fault.Gap })
	})
}

// replace restores the replica's newest state, takes the replica over, and puts the database in the place of the existing one, which is
// kept aside.
func (d *database) replace(ctx context.Context, s *survey, o *opening, dec decision) (*opening, error) {
	r := d.target.Replica
	how := restore.Options{From: d.target.Path, To: d.target.Path, Aside: true, FS: d.agent.cfg.FS,
		Note: func(text string) { d.log.Warn("restore", "note", text) }}
	d.log.Info("restore", "from", d.target.URL, "txid", s.there.head.TXID.String())
	p, err := d.agent.cfg.Prepare(ctx, r, how)
	if err != nil {
		return nil, fmt.Errorf("restore %s: %w", d.target.URL, err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			d.log.Warn("let go of a restore", "err", err)
		}
	}()
	if err := s.unchanged(); err != nil {
		return nil, err
	}
	// COMMIT POINT: the previous owner stores nothing more. Its files stored since the restore began are added below.
	if err := d.ask(ctx, func(ctx context.Context) (err error) { o.chain, err = r.TakeOver(ctx, o.owner); return }); err != nil {
		return nil, err
	}
	head := o.chain.Head
	if err := p.Advance(ctx); err != nil {
		d.log.Info("restore again: what was stored meanwhile cannot be added", "why", err)
		if err := p.Close(); err != nil {
			return nil, err
		}
		if p, err = d.agent.cfg.Prepare(ctx, r, how); err != nil {
			return nil, fmt.Errorf("restore %s: %w", d.target.URL, err)
		}
	}
	// The restore has read the manifest again, and the previous owner may have replaced it since the fence. The files that this owner names come from
	// the manifest that it is going to replace.
	if err := d.ask(ctx, func(ctx context.Context) (err error) { o.chain, err = r.Read(ctx); return }); err != nil {
		return nil, err
	}
	if o.chain.Head.TXID != head.TXID {
		return nil, fmt.Errorf("%s was taken over by another agent: %w", d.target.URL, replica.ErrMoved)
	}
	if made := p.Restored(); made.Checksum != head.Post {
		return nil, stopf("%s as restored from %s has checksum %s, and the replica says %s; `holdfast sqlite verify %s` tells which file is wrong", d.target.Path, d.target.URL, made.Checksum, head.Post, restore.Place(d.target.URL))
	}
	if err := s.unchanged(); err != nil {
		return nil, err
	}
	s.close()
	suffix := ".aside-"
	if s.here.state.Fenced {
		suffix = ".fenced-"
	}
	kept, err := d.setAside(suffix)
	if err != nil {
		return nil, err
	}
	switch {
	case kept == "":
	case dec.says == "":
		d.log.Warn("what was left of a database is kept aside", "kept", kept)
	default:
		d.log.Warn(dec.says, "kept", kept)
	}
	made, err := p.Finish(ctx)
	if err != nil {
		return nil, fmt.Errorf("restore %s: %w", d.target.URL, err)
	}
	if d.agent.cfg.Restored != nil {
		d.agent.cfg.Restored(d.target.Path, made)
	}
	if o.files, err = d.openFiles(ctx); err != nil {
		return nil, err
	}
	s.files = o.files // closed with s if what follows fails
	if sum := replica.Checksum(o.files.State().Sum); sum != head.Post {
		return nil, fmt.Errorf("%s was written to while it was restored: %w", d.target.Path, replica.ErrMoved)
	}
	o.known = d.without(o.chain.Files, s.faults)
	if err := d.writeState(known{Owner: o.owner, TXID: head.TXID, Checksum: head.Post}); err != nil {
		return nil, err
	}
	return o, restore.RemoveRecord(d.agent.cfg.FS, d.target.Path)
}

// unchanged reports replica.ErrMoved if the database is no longer what was judged, or another program has opened it.
func (s *survey) unchanged() error {
	if s.files == nil {
		return nil
	}
	if !s.files.Alone() {
		return fmt.Errorf("%s was opened by another program: %w", s.path, replica.ErrMoved)
	}
	if s.files.Rollback() {
		return nil // no program can write to it
	}
	g, err := s.files.Capture()
	if g != nil {
		g.Release()
		return fmt.Errorf("%s was written to: %w", s.path, replica.ErrMoved)
	}
	return err
}

// setAside renames the files at the database's path, so that no program takes them for the replica's state and no data is lost. It returns
// the new name; "": there was nothing. No program may have it open. The database goes first: its WAL alone is found again.
func (d *database) setAside(suffix string) (kept string, err error) {
	path, f := d.target.Path, d.agent.cfg.FS
	names, err := f.List(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	base := filepath.Base(path)
	there := func(name string) bool {
		return slices.Contains(names, name) && !(name == base && d.isEmpty()) // an application made it, and has written nothing
	}
	name := base + suffix + d.now().UTC().Format("20060102T150405.000Z")
	if !there(base) {
		// An attempt that ended between the renames left the WAL: it belongs to the database that went last.
		for _, other := range names {
			if strings.HasPrefix(other, base+suffix) && !strings.HasSuffix(other, "-wal") && !strings.HasSuffix(other, "-shm") && !strings.HasSuffix(other, "-journal") && !there(other+"-wal") {
				name = other
			}
		}
	}
	for _, end := range []string{"", "-wal", "-shm", "-journal"} {
		if !there(base + end) {
			continue
		}
		if err := f.Rename(path+end, filepath.Join(filepath.Dir(path), name+end)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("keep %s aside: %w", path+end, err)
		}
		kept = filepath.Join(filepath.Dir(path), name)
	}
	if kept == "" {
		return "", nil
	}
	return kept, f.SyncDir(filepath.Dir(path))
}

// isEmpty reports whether the file at the database's path has no content.
func (d *database) isEmpty() bool {
	f, err := d.agent.cfg.FS.Open(d.target.Path)
	if err != nil {
		return false
	}
	defer f.Close() // nothing was written
	n, err := f.Size()
	return err == nil && n == 0
}
