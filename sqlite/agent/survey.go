package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// survey is the result of a look at database and replica: the view, and the means to carry out the decision. It has to be closed.
type survey struct {
	view
	files   *capture.Database // nil: there is no database that can be followed
	unread  error             // why there is none; nil: there is no file, or an empty one
	chain   *replica.Chain
	present []replica.File // the chain's files that are there and whole, by their names, sizes, heads and ends
	faults  []*replica.Fault
}

func (s *survey) close() {
	if s.files != nil {
		s.files.Close()
	}
}

// survey looks at database and replica. Nothing is changed. replica.ErrMoved: the owner has gone on meanwhile, so that it is to be done again.
func (d *database) survey(ctx context.Context) (_ *survey, err error) {
	s := &survey{view: view{path: d.target.Path, url: restore.Place(d.target.URL), side: d.side}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := d.lookHere(ctx, s); err != nil {
		return nil, err
	}
	if err := d.ask(ctx, func(ctx context.Context) error { return d.lookThere(ctx, s) }); err != nil {
		if s.unread != nil {
			err = s.unread // it holds for any content there
		}
		return nil, err
	}
	return s, nil
}

// lookHere is the part of survey that looks at this disk.
func (d *database) lookHere(ctx context.Context, s *survey) (err error) {
	fs, h := d.agent.cfg.FS, &s.here
	h.boot = bootID(fs)
	h.state, h.stated, err = d.readState()
	if err != nil {
		return err
	}
	switch h.record, err = restore.ReadRecord(fs, d.target.Path); {
	case errors.Is(err, restore.ErrBadRecord):
		d.log.Warn("the record of a restore is damaged, and says nothing", "err", err)
	case err != nil:
		return err
	}
	if h.free, err = fs.Free(filepath.Dir(d.target.Path)); err != nil {
		return err
	}
	s.files, err = d.openFiles(ctx)
	switch {
	case errors.Is(err, walfile.ErrAbsent):
	case errors.Is(err, walfile.ErrNoDatabase):
		h.file, h.why, s.unread = strange, err.Error(), err
	case errors.Is(err, capture.ErrMode):
		h.file, h.why, s.unread = unshared, err.Error(), err
	case err != nil:
		return err
	case s.files.State().Pages == 0:
		s.files.Close()
		s.files = nil
	default:
		h.file, h.sum, h.open = aDatabase, replica.Checksum(s.files.State().Sum), !s.files.Alone()
	}
	return nil
}

// lookThere is the part of survey that looks at the replica.
func (d *database) lookThere(ctx context.Context, s *survey) (err error) {
	r, t := d.target.Replica, &s.there
	if t.identity, err = r.Identity(ctx, false); err != nil {
		return err
	}
	var end *replica.Fault // of the chain's last file
	if s.chain, err = r.Read(ctx); err != nil && (!errors.As(err, &end) || s.chain == nil) {
		return err
	}
	c := s.chain
	t.head, t.manifest, t.inFlight = c.Head, c.Damage != nil, len(c.Ahead)
	t.fenced = slices.ContainsFunc(c.Files, func(f replica.File) bool { return f.Fence })
	t.foreign = !c.Head.Empty() && c.Head.Post == 0 && end == nil
	if c.Head.Empty() || t.foreign {
		return nil
	}
	here, faults, err := r.Present(ctx, c.Files)
	if err != nil {
		return err
	}
	if end != nil {
		here = slices.DeleteFunc(here, func(f replica.File) bool { return r.Name(f) == end.Name && !end.Gap })
		if !slices.ContainsFunc(faults, func(f *replica.Fault) bool { return f.Name == end.Name }) {
			faults = append(faults, end)
		}
	}
	whole, more, err := r.Whole(ctx, here)
	if err != nil {
		return err
	}
	s.present, s.faults = whole, append(faults, more...)
	if err := d.lookAtLast(ctx, s); err != nil {
		return err
	}
	if len(s.faults) > 0 { // or the owner has replaced files meanwhile, and has removed those
		if moved, err := r.Moved(ctx); err != nil || moved {
			return errors.Join(err, replica.ErrMoved)
		}
	}
	t.states = map[replica.Checksum]bool{}
	for _, f := range s.present {
		if f.Post != 0 {
			t.states[f.Post] = true
		}
		if f.Max == t.head.TXID && t.head.Post == 0 {
			t.head.Post = f.Post // another file ends where the damaged one does
		}
	}
	if t.last = replica.Reach(s.present, t.head.TXID); t.last < t.head.TXID {
		t.damage = "what leads to TXID " + t.head.TXID.String() + " is not there"
		if len(s.faults) > 0 {
			t.damage = s.faults[0].Error()
		}
	}
	t.needBytes = uint64(t.head.Pages)*uint64(t.head.PageSize) + restore.Spare
	return nil
}

// lookAtLast reads who wrote the last group, and whether the WAL here goes on from it. A file that is damaged is no longer present then.
func (d *database) lookAtLast(ctx context.Context, s *survey) error {
	t, chain := &s.there, s.chain
	var end replica.File // the chain's last file
	for _, f := range chain.Files {
		if f.Level == 0 && f.Max > end.Max {
			end = f
		}
		if !f.Fence {
			t.group = max(t.group, f.Max)
		}
	}
	last, h, err := d.lastWhole(ctx, s, func(f replica.File) bool { return !f.Fence })
	if err != nil || last.Max == 0 {
		return err
	}
	if t.head.Pages == 0 {
		t.head.Pages, t.head.PageSize = h.Commit, h.PageSize
	}
	if s.files != nil && !s.files.Rollback() && h.WALOffset > 0 && last.Level == 0 {
		salt := s.files.State().Salt
		if h.WALSalt1 == binary.BigEndian.Uint32(salt[:]) && h.WALSalt2 == binary.BigEndian.Uint32(salt[4:]) {
			if s.here.further, err = d.goesOnFrom(ctx, s, last, h); err != nil {
				return err
			}
		}
	}
	switch {
	case last.Max == t.group:
		t.groupBy = h.NodeID
	case end.Fence: // the group before it may be any owner's
	case t.head.Owner != 0:
		t.groupBy = t.head.Owner
	default:
		// Groups that follow a group or a fence are its owner's.
		before, h, err := d.lastWhole(ctx, s, func(f replica.File) bool { return f.Level == 0 })
		if err != nil {
			return err
		}
		fence := slices.ContainsFunc(chain.Files, func(f replica.File) bool { return f.Fence && f.Max > before.Max })
		if before.Max != 0 && !fence {
			t.groupBy = h.NodeID
		}
	}
	return nil
}

// lastWhole finds the last present file that fits and has the expected head and end, and returns its header. Those that are not are no
// longer present then. A file without a Max: there is none. Of two that end at one TXID it is the one of the lower level, which comes
// first.
func (d *database) lastWhole(ctx context.Context, s *survey, fits func(f replica.File) bool) (last replica.File, h replica.Header, err error) {
	for {
		last = replica.File{}
		for _, f := range s.present {
			if fits(f) && f.Max > last.Max {
				last = f
			}
		}
		if last.Max == 0 {
			return last, h, nil
		}
		h, t, err := d.target.Replica.Stat(ctx, last)
		var fault *replica.Fault
		name := d.target.Replica.Name(last)
		switch {
		case errors.As(err, &fault):
		case errors.Is(err, objstore.ErrAbsent):
			fault = &replica.Fault{Name: name, Reason: "it is not there", Absent: true}
		case err != nil:
			return last, h, err
		case last.Post != 0 && t.PostApplyChecksum != last.Post:
			fault = &replica.Fault{Name: name, Reason: "it is another file than the manifest says"}
		default:
			return last, h, nil
		}
		s.faults = append(s.faults, fault)
		s.present = slices.DeleteFunc(s.present, func(f replica.File) bool { return f == last })
	}
}

// mostCompared bounds the group that is compared with the WAL, in bytes. A larger one counts as another: the database is kept aside then.
const mostCompared = 64 << 20

// goesOnFrom reports whether the WAL here has the frames that a group was read from.
func (d *database) goesOnFrom(ctx context.Context, s *survey, group replica.File, h replica.Header) (bool, error) {
	if group.Size > mostCompared {
		return false, nil
	}
	in, err := d.target.Replica.Open(ctx, group, 0, -1)
	if err != nil {
		return false, err
	}
	defer in.Close() // it was read
	c, err := restore.ReadFile(in)
	if err != nil {
		return false, nil // a damaged file says nothing
	}
	return s.files.Holds(h.WALOffset, h.WALSize, c.Pages, h.Commit)
}
