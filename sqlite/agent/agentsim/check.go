package agentsim

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

// The rules. A Failure names one of them.
const (
	Panic     = "panic"
	Model     = "the model of SQLite is wrong"
	Durable   = "a commit that was acknowledged is in every later restore"
	OneWriter = "acknowledged commits follow each other"
	Names     = "names are created once, by condition, and mean what they say"
	Chain     = "the chain is of states that the database had"
	LevelRule = "a file of a level comes after the groups that it has"
	Retention = "every moment within the retention can be restored"
	Manifest  = "the manifest names what is there"
	Followed  = "what was committed is stored, when nothing is in the way"
	Ended     = "an agent that stops without an error has stored everything"
	GoesOn    = "one owner goes on"
)

var background = context.Background()

// acknowledged judges that a program is told that c is stored.
func (l *ledger) acknowledged(m *machine, c *commit) {
	w := l.w
	w.rep.Acked++
	if l.acked != nil && !l.acked.within(c) && !c.within(l.acked) {
		w.fail(OneWriter, "%s acknowledges commit %d, and commit %d of %s, which was acknowledged before, is of another line", m.name, c.number,
			l.acked.number, l.acked.on)
		return
	}
	if l.acked == nil || l.acked.within(c) {
		l.acked = c
	}
	l.durable(w.chance(1, 12))
}

// durable judges that the replica has the last commit that was acknowledged: that its head does, or that a restore does.
func (l *ledger) durable(whole bool) {
	w := l.w
	if l.acked == nil {
		return
	}
	w.rep.Judged++
	r := l.raw()
	c, err := r.Read(background)
	if err != nil {
		w.fail(Durable, "commit %d of %s was acknowledged, and the replica cannot be read: %v", l.acked.number, l.acked.on, err)
		return
	}
	sum := c.Head.Post
	if whole {
		pages, err := restored(background, r, restore.Target{})
		if err != nil {
			w.fail(Durable, "commit %d of %s was acknowledged, and a restore says: %v", l.acked.number, l.acked.on, err)
			return
		}
		sum = sumOf(pages)
	}
	is := l.commits[sum]
	if is == nil {
		w.fail(Chain, "the replica's head %s has checksum %s, and no database had", c.Head.TXID, sum)
	} else if !l.acked.within(is) {
		w.fail(Durable, "commit %d of %s was acknowledged, and the replica ends at TXID %s with commit %d of %s, which is without it", l.acked.number,
			l.acked.on, c.Head.TXID, is.number, is.on)
	}
}

// before is the chain as it is before a file of a level arrives.
func (l *ledger) before(name string) *replica.Chain {
	if f, ok := replica.Bucket.Parse(name); !ok || f.Level == 0 {
		return nil
	}
	c, err := l.raw().Read(background)
	if err != nil {
		return nil // the name exists, or created says why this is wrong
	}
	return c
}

// created judges a file that has just arrived.
func (l *ledger) created(m *machine, name string, data []byte, chain *replica.Chain) {
	w := l.w
	f, ok := replica.Bucket.Parse(name)
	if !ok {
		if !strings.HasPrefix(name, "holdfast/") {
			w.fail(Names, "%s creates %s", m.name, name)
		}
		return
	}
	c, err := restore.ReadFile(bytes.NewReader(data))
	if err != nil {
		w.fail(Names, "%s creates %s: %v", m.name, name, err)
		return
	}
	f.Size, f.Pre, f.Post, f.Time = int64(len(data)), c.Header.PreApplyChecksum, c.Trailer.PostApplyChecksum, time.UnixMilli(c.Header.Timestamp)
	f.Fence = f.Level == 0 && len(c.Pages) == 0
	s := &stored{file: f, header: c.Header, at: l.commits[f.Post], came: w.wall()}
	l.files[name] = s
	l.order = append(l.order, s)
	switch {
	case c.Header.MinTXID != f.Min || c.Header.MaxTXID != f.Max:
		w.fail(Names, "%s creates %s, which is %s-%s", m.name, name, c.Header.MinTXID, c.Header.MaxTXID)
	case f.Fence != (len(data) == replica.FenceSize):
		w.fail(Names, "%s creates %s with %d pages and %d bytes", m.name, name, len(c.Pages), len(data))
	case f.Level > 0:
		w.rep.Levels++
		l.levelCreated(m, name, s, chain)
	default:
		l.groupCreated(m, name, s)
	}
}

func (l *ledger) groupCreated(m *machine, name string, s *stored) {
	w := l.w
	c, err := l.raw().Read(background)
	if err != nil {
		w.fail(Chain, "%s has created %s, and now the replica cannot be read: %v", m.name, name, err)
		return
	}
	if s.linked = slicesHas(c.Files, s.file); !s.linked {
		return // an orphan, ahead of uploads in flight, or under a removed name
	}
	w.rep.Groups++
	if s.file.Fence {
		w.rep.Fences++
	}
	// Those that were ahead of it are part of the chain with it.
	for _, other := range l.order {
		if f := other.file; f.Level == 0 && !other.linked && !other.gone && f.Max <= c.Head.TXID && slicesHas(c.Files, f) {
			other.linked = true
		}
	}
	if s.at == nil {
		w.fail(Chain, "%s creates %s with the checksum %s, which no database had", m.name, name, s.file.Post)
	}
}

func slicesHas(files []replica.File, f replica.File) bool {
	for _, g := range files {
		if g.Level == f.Level && g.Min == f.Min && g.Max == f.Max {
			return true
		}
	}
	return false
}

func (l *ledger) levelCreated(m *machine, name string, s *stored, chain *replica.Chain) {
	w := l.w
	switch {
	case chain == nil || chain.Head.TXID < s.file.Max:
		w.fail(LevelRule, "%s creates %s, and the chain has not come to its end", m.name, name)
	case s.at == nil:
		w.fail(Chain, "%s creates %s with the checksum %s, which no database had", m.name, name, s.file.Post)
	case s.file.Max == chain.Head.TXID && chain.Head.Post != s.file.Post:
		w.fail(LevelRule, "%s creates %s, whose end is another state than the chain's", m.name, name)
	}
	for _, g := range l.order {
		if g.file.Level == 0 && g.linked && g.file.Max == s.file.Max && g.file.Post != s.file.Post {
			w.fail(LevelRule, "%s creates %s, whose end is another state than the group's", m.name, name)
		}
	}
}

// replaced judges a manifest that has just arrived.
func (l *ledger) replaced(m *machine, name string, data []byte) {
	w := l.w
	if name != replica.ManifestName {
		return
	}
	man, err := replica.DecodeManifest(data)
	if err != nil {
		w.fail(Manifest, "%s writes a manifest that is none: %v", m.name, err)
		return
	}
	for _, f := range man.Files {
		if s := l.files[replica.Bucket.Name(f)]; s == nil || s.gone {
			w.fail(Manifest, "%s writes a manifest that names %s, which is not there", m.name, f)
			return
		} else if f.Post != s.file.Post || f.Size != s.file.Size || f.Fence != s.file.Fence {
			w.fail(Manifest, "%s writes a manifest that says something else of %s than is there", m.name, f)
			return
		}
	}
	l.durable(false)
}

// deleting judges what is about to be removed.
func (l *ledger) deleting(m *machine, names []string) {
	w := l.w
	c, err := l.raw().Read(background)
	if err != nil {
		return // it was told when that came to be
	}
	for _, name := range names {
		s := l.files[name]
		if s == nil || s.gone {
			continue
		}
		switch {
		case s.linked && s.file.Fence:
			w.fail(Names, "%s removes the fence %s", m.name, s.file)
		case s.linked && s.file.Max == c.Head.TXID && s.file.Level == 0:
			w.fail(Names, "%s removes %s, the last of the chain", m.name, s.file)
		case c.Manifest != nil && slicesHas(c.Manifest.Files, s.file):
			w.fail(Manifest, "%s removes %s, which the manifest names", m.name, s.file)
		}
	}
}

// deleted judges what is left.
func (l *ledger) deleted(m *machine, names []string) {
	for _, name := range names {
		if s := l.files[name]; s != nil && !s.gone {
			s.gone = true
			l.w.rep.Removed++
		}
	}
	l.retained(3)
}

// retained judges some moments within the retention: commits captured a while before each must be in a restore to it.
func (l *ledger) retained(moments int) {
	w := l.w
	groups := l.groups()
	if len(groups) == 0 || w.failure != nil {
		return
	}
	now := w.wall()
	window := now.Add(-w.cfg.retention)
	// coarse bounds how far apart the states are that are kept: a file of level 1 is due a quarter of it after a change. Uploads that the store holds
	// make it later. Where the store failed, groups wait for it, and a file of level 1 has more of them.
	coarse := 4 * (w.cfg.levels[0] + 2*w.cfg.interval + time.Second)
	r := l.raw()
	for i := range moments + 1 {
		at := window
		if i > 0 {
			at = window.Add(time.Duration(w.rng.Int64N(int64(w.cfg.retention))))
		}
		var need *stored
		for _, g := range groups {
			after := coarse
			if w.upset(g.file.Time.Sub(begin)-time.Second, at.Sub(begin)) {
				after = time.Minute
			}
			if !g.came.Add(after).After(at) {
				need = g
			}
		}
		if need == nil || need.at == nil {
			continue // nothing was stored then
		}
		files, err := restore.Files(background, r, restore.Target{Time: at})
		var pages [][]byte
		if err == nil {
			pages, err = assemble(background, r, files)
		}
		if err != nil {
			l.list()
			w.fail(Retention, "a restore to %v: %v; %s of %v was there", at.Sub(begin), err, need.file, need.file.Time.Sub(begin))
			return
		}
		last := files[len(files)-1]
		if last.Max < need.file.Max {
			w.fail(Retention, "a restore to %v ends with %s, and %s of %v was there", at.Sub(begin), last, need.file, need.file.Time.Sub(begin))
		}
		if is := l.commits[sumOf(pages)]; is == nil || is != l.files[replica.Bucket.Name(last)].at {
			w.fail(Chain, "a restore to %v ends with %s and gives another state", at.Sub(begin), last)
		}
		w.rep.Judged++
	}
}

// list writes the bucket's content into the trace.
func (l *ledger) list() {
	for _, s := range l.there() {
		l.w.note("there is %s of %v, commit %d, linked %v", s.file, s.file.Time.Sub(begin), number(s.at), s.linked)
	}
}
