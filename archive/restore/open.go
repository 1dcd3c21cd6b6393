package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/objstore"
)

// Archive reads one timeline of an archive. It changes nothing there. One goroutine at a time.
type Archive struct {
	Timeline uint64

	store objstore.Store
	tasks task.Runner
}

// Mark is a place along the log.
type Mark struct {
	Index  uint64
	WallNs int64 // time along the log there, ns since 1970; 0: not known
}

// Time is the mark's in UTC.
func (m Mark) Time() time.Time { return time.Unix(0, m.WallNs).UTC() }

func (m Mark) String() string {
	if m.WallNs == 0 {
		return fmt.Sprintf("index %d", m.Index)
	}
	return fmt.Sprintf("index %d, %s", m.Index, m.Time().Format(time.RFC3339Nano))
}

// ErrNoArchive: nothing lies where an archive was looked for.
var ErrNoArchive = errors.New("no archive is there")

// SeveralError: an archive has several timelines, and none was named.
type SeveralError struct{ Timelines []TimelineInfo }

// TimelineInfo is a timeline and how far it goes. Err is why that could not be read.
type TimelineInfo struct {
	Timeline uint64
	End      Mark
	Err      error
}

func (e *SeveralError) Error() string {
	var b strings.Builder
	if b.WriteString("there are several timelines:"); len(e.Timelines) == 1 {
		b.Reset()
		b.WriteString("there is one timeline:")
	}
	for i, t := range e.Timelines {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %016x up to ", t.Timeline)
		if t.Err != nil {
			fmt.Fprintf(&b, "(%v)", t.Err)
		} else {
			b.WriteString(t.End.String())
		}
	}
	return b.String()
}

// Open reads which timelines there are. timeline 0 is the only one. tasks is where objects are fetched ahead and pauses are waited for; nil:
// goroutines. Errors: ErrNoArchive, *SeveralError, the store's and ctx's.
func Open(ctx context.Context, s objstore.Store, timeline uint64, tasks task.Runner) (*Archive, error) {
	if tasks == nil {
		tasks = task.Goroutines{}
	}
	a := &Archive{Timeline: timeline, store: s, tasks: tasks}
	found, err := a.timelines(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case len(found) == 0:
		return nil, ErrNoArchive
	case timeline == 0 && len(found) == 1:
		a.Timeline = found[0]
		return a, nil
	}
	several := &SeveralError{}
	for _, t := range found {
		if t == timeline {
			return a, nil
		}
		one := *a
		one.Timeline = t
		end, err := one.End(ctx)
		if ctx.Err() != nil {
			return nil, err
		}
		several.Timelines = append(several.Timelines, TimelineInfo{Timeline: t, End: end, Err: err})
	}
	return nil, several
}

// timelines lists what the names begin with. A list goes from one to the next without those between.
func (a *Archive) timelines(ctx context.Context) (all []uint64, err error) {
	for after := ""; ; {
		var at string
		for l, err := range a.store.List(ctx, "", after) {
			if err != nil {
				return nil, err
			}
			at = l.Name
			break
		}
		if at == "" {
			return all, nil
		}
		dir, _, slash := strings.Cut(at, "/")
		t, _, ok := format.ParseSpanName(dir + "/00000000000000000001")
		if ok && slash {
			all = append(all, t)
		}
		if after = at; slash {
			after = dir + "0" // which sorts behind a slash
		}
	}
}

// snapshots lists the indexes at which there are manifests, upwards.
func (a *Archive) snapshots(ctx context.Context) (all []uint64, err error) {
	list := &names{a: a, prefix: format.SnapshotsName(a.Timeline)}
	for {
		l, ok, err := list.next(ctx)
		if err != nil || !ok {
			return all, err
		}
		if _, index, ok := format.ParseManifestName(l.Name); ok {
			all = append(all, index)
		}
	}
}

// manifest reads the one at index.
func (a *Archive) manifest(ctx context.Context, index uint64) (*format.Manifest, error) {
	name := format.ManifestName(a.Timeline, index)
	b, err := a.get(ctx, name)
	if err != nil {
		return nil, err
	}
	return format.DecodeManifest(name, b)
}

// End is the last place that the archive has something of, whether or not all before it is there. Errors: ErrNoArchive; an *archive.Fault of
// the newest object; the store's and ctx's.
func (a *Archive) End(ctx context.Context) (Mark, error) {
	snapshots, err := a.snapshots(ctx)
	if err != nil {
		return Mark{}, err
	}
	var end Mark
	if n := len(snapshots); n > 0 {
		m, err := a.manifest(ctx, snapshots[n-1])
		if err != nil {
			return Mark{}, err
		}
		end = Mark{m.Index, m.WallNs}
	}
	after, err := a.before(ctx, end.Index+1)
	if err != nil {
		return Mark{}, err
	}
	var last []string // the newest names: an earlier one may go further, if another leader has cut the log there
	for list := a.spanNames(after); ; {
		l, ok, err := list.next(ctx)
		if err != nil {
			return Mark{}, err
		}
		if !ok {
			break
		}
		if _, _, ok := format.ParseSpanName(l.Name); ok {
			last = append(last, l.Name)
			last = last[max(0, len(last)-besideSpans-1):]
		}
	}
	for i, name := range slices.Backward(last) {
		s, err := a.span(ctx, name)
		var f *format.Fault
		switch {
		case (errors.As(err, &f) || errors.Is(err, objstore.ErrAbsent)) && i+1 < len(last):
			continue // the reader of the log judges it
		case err != nil:
			return Mark{}, err
		}
		if s.Last > end.Index {
			end.Index = s.Last
			for e := range s.Entries() {
				ns, err := node.WallOf((*node.Entry)(&e))
				if err != nil {
					return Mark{}, entryError(s.Name, e.Index, err)
				}
				end.WallNs = max(end.WallNs, ns)
			}
		}
	}
	if end.Index == 0 {
		return Mark{}, ErrNoArchive
	}
	return end, nil
}

// entryError names an entry that cannot be read, though it is as it was written.
func entryError(name string, index uint64, err error) error {
	return fmt.Errorf("archive object %s, entry %d: %w", name, index, err)
}
