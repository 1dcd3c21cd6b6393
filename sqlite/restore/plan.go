package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/superfly/ltx"

	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// Target says which state is meant: that of a TXID, the last one whose time is not after Time, or with neither the newest.
type Target struct {
	TXID replica.TXID
	Time time.Time
}

func (t Target) String() string {
	switch {
	case t.TXID != 0:
		return "TXID " + t.TXID.String()
	case !t.Time.IsZero():
		return t.Time.UTC().Format(time.RFC3339Nano)
	}
	return "the newest state"
}

// ErrNotThere: the replica does not have the state that was asked for.
var ErrNotThere = errors.New("the replica does not have it")

// ErrEmpty: there is no replica.
var ErrEmpty = errors.New("there is no replica")

// plan is the files that make a state. The first has the whole database; each other begins at most one TXID behind its predecessor's end
// and goes further.
type plan struct {
	Files []replica.File `json:"files"`
	// The state's place; Post 0: it has no checksum.
	TXID     replica.TXID     `json:"txid"`
	Post     replica.Checksum `json:"post"`
	Pages    uint32           `json:"pages"`
	PageSize uint32           `json:"page_size"`
	Time     time.Time        `json:"time"`
}

// extend adds to files, which end at a TXID or are none, the files that lead on to at most upTo. Of the possible next files it always takes
// the furthest. No other choice of overlapping files goes further.
func extend(files, all []replica.File, upTo replica.TXID) []replica.File {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b replica.File) int { return cmp.Compare(a.Min, b.Min) })
	var best *replica.File
	for i, at := 0, reached(files); ; at = best.Max {
		for ; i < len(all) && all[i].Min <= at+1; i++ {
			if f := &all[i]; f.Max <= upTo && (best == nil || better(f, best)) {
				best = f
			}
		}
		if best == nil || best.Max <= at {
			return files
		}
		files = append(files, *best)
	}
}

// better prefers the furthest file, then the one with less known data, then the compacted one.
func better(a, b *replica.File) bool {
	return cmp.Or(cmp.Compare(a.Max, b.Max), cmp.Compare(a.Min, b.Min), cmp.Compare(a.Level, b.Level)) > 0
}

// reached is where files end.
func reached(files []replica.File) replica.TXID {
	if len(files) == 0 {
		return 0
	}
	return files[len(files)-1].Max
}

// newPlan finds the files for a target in a chain, without those of the names in bad.
func newPlan(ctx context.Context, r *replica.Replica, c *replica.Chain, to Target, bad map[string]bool) (*plan, error) {
	if c.Head.Empty() {
		return nil, ErrEmpty
	}
	all := slices.DeleteFunc(slices.Clone(c.Files), func(f replica.File) bool { return bad[r.Name(f)] })
	upTo := c.Head.TXID
	switch {
	case to.TXID > upTo:
		return nil, fmt.Errorf("%s: %w, which ends with %s", to, ErrNotThere, upTo)
	case to.TXID != 0:
		upTo = to.TXID
	case !to.Time.IsZero():
		var err error
		if upTo, err = lastBefore(ctx, r, all, to.Time); err != nil {
			return nil, err
		}
		if f := hidden(c.Files, all, upTo, to.Time); f != nil {
			return nil, fmt.Errorf("%s: %w: %s may be what was there then, and is damaged", to, ErrNotThere, r.Name(*f))
		}
		if upTo == 0 {
			return nil, fmt.Errorf("%s: %w, which begins later", to, ErrNotThere)
		}
	}
	p := &plan{Files: extend(nil, all, upTo)}
	// A state of a time is the last one that there is a file for. Any other is meant exactly.
	if at := reached(p.Files); at < upTo {
		return nil, missing(c.Files, all, at, upTo, to)
	}
	last := p.Files[len(p.Files)-1]
	h, t, err := stat(ctx, r, last)
	if err != nil {
		return nil, err
	}
	if most := plausible(p.Files); int64(h.Commit) > most {
		return nil, &replica.Fault{Name: r.Name(last), Reason: fmt.Sprintf("it says that the database has %d pages, and the files cannot hold more than %d", h.Commit, most)}
	}
	p.TXID, p.Post, p.Pages, p.PageSize, p.Time = last.Max, t.PostApplyChecksum, h.Commit, h.PageSize, timeOf(h)
	if last.Post != 0 && last.Post != p.Post {
		return nil, &replica.Fault{Name: r.Name(last), Reason: fmt.Sprintf("it says that the database's checksum is %s, and the manifest says %s",
			p.Post, last.Post)}
	}
	return p, nil
}

// missing says why a state cannot be made.
func missing(files, all []replica.File, at, upTo replica.TXID, to Target) error {
	ends := func(f replica.File) bool { return f.Max == upTo }
	if to.TXID != 0 && !slices.ContainsFunc(files, ends) {
		above := replica.TXID(0)
		for _, f := range all {
			if f.Max > upTo && (above == 0 || f.Max < above) {
				above = f.Max
			}
		}
		return fmt.Errorf("%s: %w: the nearest are %s and %s", to, ErrNotThere, at, above)
	}
	if at == 0 {
		return fmt.Errorf("%s: %w: no file has the whole database at or before it", to, ErrNotThere)
	}
	return fmt.Errorf("%s: %w: no file that is whole goes on from %s", to, ErrNotThere, at)
}

// lastBefore is the last TXID that a file ends with and whose time is not after t; 0: none. Times ascend with TXIDs.
func lastBefore(ctx context.Context, r *replica.Replica, files []replica.File, t time.Time) (replica.TXID, error) {
	ends := slices.Clone(files)
	// Of the files with one end, that of level 0 has the commit's time.
	slices.SortFunc(ends, func(a, b replica.File) int { return cmp.Or(cmp.Compare(a.Max, b.Max), cmp.Compare(a.Level, b.Level)) })
	ends = slices.CompactFunc(ends, func(a, b replica.File) bool { return a.Max == b.Max })
	var failed error
	n := sort.Search(len(ends), func(i int) bool {
		f := ends[i]
		if f.Time.IsZero() && failed == nil {
			var h ltx.Header
			h, _, failed = stat(ctx, r, f)
			f.Time = time.UnixMilli(h.Timestamp)
		}
		return f.Time.After(t)
	})
	if failed != nil {
		return 0, failed
	}
	if n == 0 {
		return 0, nil
	}
	return ends[n-1].Max, nil
}

// pageLeast is the least size of a page in a file: its header, its place in the index, and 512 equal bytes in LZ4.
const pageLeast = 16

// plausible bounds the pages of a database that files make. A header is proved only when its file was read, and room is made before.
func plausible(files []replica.File) (pages int64) {
	for _, f := range files {
		pages += f.Size / pageLeast
	}
	return pages + 1 // the page that is never stored
}

// hidden is a file that is not in whole. It may end with a later state of the time t than upTo, whole's last; nil: none.
func hidden(files, whole []replica.File, upTo replica.TXID, t time.Time) *replica.File {
	next := replica.TXID(0) // the first end behind upTo
	for _, f := range whole {
		if f.Max > upTo && (next == 0 || f.Max < next) {
			next = f.Max
		}
	}
	for i, f := range files {
		if f.Max > upTo && (next == 0 || f.Max < next) && (f.Time.IsZero() || !f.Time.After(t)) {
			return &files[i]
		}
	}
	return nil
}

// timeOf is when what a file has was captured.
func timeOf(h ltx.Header) time.Time { return time.UnixMilli(h.Timestamp).UTC() }
