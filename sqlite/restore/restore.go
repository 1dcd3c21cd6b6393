// Package restore makes a SQLite database from a replica (package replica), and proves a replica without making one. The files may be
// Litestream's. Pages are read newest first, so that each is written once, and all checksums and links of the files are verified on the
// way. The result is the captured state, or an error that names the file.
//
// It is not the agent's view of a replica: it writes nothing there, takes nothing over, and does not care who owns it.
package restore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/superfly/ltx"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// Options say what is restored, and where to.
type Options struct {
	// From is where the replica is, for people, and to know this restore again. To is the database file to make.
	From, To string
	Target   Target
	// Overwrite lets it replace a database, and remove what belonged to that. Its users must have ended.
	Overwrite bool
	// Parallel is how many requests are on their way at once; each takes 2 MiB of memory. 0: 8.
	Parallel int
	// Check is what SQLite is asked; "": nothing, or Quick if the replica has no checksum of the database.
	Check Check
	// Progress hears now and then the bytes read and their total; nil: no calls. Note gets lines for the log.
	Progress func(done, all int64)
	Note     func(text string)
	// Record leaves a record of the restore beside the database, from which the agent knows that it was made on purpose.
	Record bool
	// Aside says that the database at To is moved away before Finish.
	Aside bool
	// FS is where the file is made; nil: the system's, which Check needs.
	FS disk.FS

	every int64 // for tests: durableEvery; 0 is that
}

// Restored is the result of a restore.
type Restored struct {
	TXID     replica.TXID
	Time     time.Time
	Pages    uint32
	PageSize uint32 // bytes
	Files    int
	Bytes    int64 // read by this call
	// Checksum is the database's, and Proved that the replica says the same. Litestream's replicas say nothing.
	Checksum replica.Checksum
	Proved   bool
	Checked  Check
	Resumed  bool // it resumed an earlier call's work
}

// ErrExists: there is a database already.
var ErrExists = errors.New("there is a database already")

// ErrBusy: another restore makes the same file.
var ErrBusy = errors.New("another restore makes the same file")

// ErrSpace: the file system has no room for the database.
var ErrSpace = errors.New("not enough room on the disk")

// durableEvery is how many bytes are read before the work so far is made durable, and is not repeated.
const durableEvery = 64 << 20

// beside are the files that belong to a database.
var beside = []string{"-wal", "-shm", "-journal"}

// restore is one that goes on.
type restore struct {
	r       *replica.Replica
	how     *Options
	fs      disk.FS
	bad     map[string]bool // names of files that are not used
	absent  map[string]bool // names of files that were not there once: they may have been compacted
	out     *Restored
	journal *journal
	total   int64
}

// Restore makes a database file. It is written under another name, beside it, and gets its own at the end, whole and durable. One that was
// interrupted goes on when it is called again with the same replica and target. Damage is a *replica.Fault; where there is another way to the
// same state, that is gone, and Note hears of it. ErrEmpty, ErrNotThere, ErrExists, ErrBusy and ErrSpace are what they say; other errors are
// the store's, the disk's and ctx's.
func Restore(ctx context.Context, r *replica.Replica, how Options) (*Restored, error) {
	p, err := Prepare(ctx, r, how)
	if err != nil {
		return nil, err
	}
	out, err := p.Finish(ctx)
	if cerr := p.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// free refuses a target that is in use.
func (j *restore) free() error {
	dir, base := filepath.Split(j.how.To)
	names, err := j.fs.List(filepath.Clean(dir))
	if err != nil {
		return err
	}
	for _, name := range names {
		for _, suffix := range append([]string{""}, beside...) {
			if name != base+suffix || j.how.Overwrite {
				continue
			}
			if suffix == "" && j.empty() {
				continue
			}
			return fmt.Errorf("%s: %w", filepath.Join(dir, name), ErrExists)
		}
	}
	return nil
}

// empty reports whether the target is a file without content, as one that an application was about to make.
func (j *restore) empty() bool {
	b, err := j.fs.Open(j.how.To)
	if err != nil {
		return false
	}
	defer b.Close() // nothing was written
	n, err := b.Size()
	return err == nil && n == 0
}

// all tries one plan after the other. A file that is damaged is left out of the next one.
func (j *restore) all(ctx context.Context) error {
	var err error
	if j.journal, err = readJournal(j.fs, j.how.To+journalSuffix, j.how); err != nil {
		return err
	}
	j.out.Resumed = j.journal != nil
	var first error
	for {
		if j.journal == nil {
			if err := j.plan(ctx, &first); err != nil {
				return err
			}
		}
		err := j.make(ctx)
		if err == nil {
			return nil
		}
		if !j.around(err, &first) {
			return err
		}
		j.journal, j.out.Resumed = nil, false
	}
}

// around reports whether there may be a way around what err says of a file, and remembers the file. first is the first damage.
func (j *restore) around(err error, first *error) bool {
	var fault *replica.Fault
	switch {
	case !errors.As(err, &fault) || j.bad[fault.Name]:
		return false
	case fault.Absent && !j.absent[fault.Name]: // it was compacted since the plan was made, or it is lost
		j.absent[fault.Name] = true
		j.how.Note(fmt.Sprintf("%v; reading again what there is", err))
		return true
	}
	if j.bad[fault.Name] = true; *first == nil {
		*first = err
	}
	j.how.Note(fmt.Sprintf("%v; going another way, if there is one", err))
	return true
}

// find makes a plan of the replica's files. head is the replica's end.
func (j *restore) find(ctx context.Context, first *error) (p *plan, head replica.Head, err error) {
	for p == nil {
		var c *replica.Chain
		c, err = j.r.Read(ctx)
		var fault *replica.Fault
		switch {
		case errors.As(err, &fault) && c != nil && !fault.Gap:
			j.around(err, first) // the newest file; an earlier state, or another file that ends there, does without it
		case errors.As(err, &fault) && c != nil:
			if *first == nil {
				*first = err
			}
		case err != nil:
			return nil, head, err
		}
		if c.Damage != nil {
			j.how.Note(fmt.Sprintf("%v; what there is was found by listing it", c.Damage))
		}
		if len(c.Ahead) > 0 && j.how.Target == (Target{}) {
			j.how.Note(fmt.Sprintf("%s is not there, and %d files behind it are: they were on their way when their owner died, or it is lost",
				j.r.Name(c.Missing()), len(c.Ahead)))
		}
		head = c.Head
		p, err = newPlan(ctx, j.r, c, j.how.Target, j.bad)
		if errors.Is(err, ErrNotThere) && len(j.bad) > 0 {
			more, e := unnamed(ctx, j.r, c, j.bad)
			if e != nil {
				return nil, head, e
			}
			if len(more) > 0 {
				c.Files = append(c.Files, more...)
				p, err = newPlan(ctx, j.r, c, j.how.Target, j.bad)
			}
		}
		if err != nil && !j.around(err, first) {
			if *first != nil && errors.Is(err, ErrNotThere) {
				err = *first // the damage is why
			}
			return nil, head, err
		}
	}
	return p, head, nil
}

// plan reads the replica, and writes the plan down.
func (j *restore) plan(ctx context.Context, first *error) error {
	p, head, err := j.find(ctx, first)
	if err != nil {
		return err
	}
	j.journal = &journal{Form: journalForm, From: j.how.From, TXID: uint64(j.how.Target.TXID), Time: j.how.Target.Time, Plan: *p,
		Ended: head.TXID.String(), EndedSum: head.Post.String(), Next: len(p.Files) - 1, Seen: newBitmap(p.Pages), Begins: map[string]string{}}
	for _, suffix := range []string{journalSuffix, workSuffix} {
		if err := j.fs.Remove(j.how.To + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return j.space(p)
}

// Spare is how many bytes stay free behind a restore, for the disk's other users.
const Spare = 16 << 20

// space refuses a restore for which there is no room.
func (j *restore) space(p *plan) error {
	dir := filepath.Dir(j.how.To)
	free, err := j.fs.Free(dir)
	if err != nil {
		return err
	}
	if need := uint64(p.Pages)*uint64(p.PageSize) + Spare; free < need {
		return fmt.Errorf("%w: %s has %d MiB left, and the restored database takes %d MiB; make room, or restore to another disk", ErrSpace, dir, free>>20, need>>20)
	}
	return nil
}

// usualMode is the mode of a restored database, less the umask: Litestream's.
const usualMode = 0o644

// create makes the working file. It has the permissions and the owner of the file that it is going to replace, or Litestream's for a new
// file. The application may be another user's.
func (j *restore) create(work string) (disk.File, error) {
	if err := j.fs.Remove(work); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	old, err := j.fs.Stat(j.how.To)
	if errors.Is(err, fs.ErrNotExist) {
		return j.fs.CreateNew(work, usualMode)
	}
	if err != nil {
		return nil, err
	}
	file, err := j.fs.CreateNew(work, 0o600)
	if err != nil {
		return nil, err
	}
	// The owner goes first, because a change of it takes permissions away.
	if err = disk.CopyOwner(old, work); errors.Is(err, fs.ErrPermission) {
		j.how.Note(fmt.Sprintf("%s belongs to another user, and the restored file to this one: change its owner where that matters", j.how.To))
		err = nil
	}
	if err == nil {
		err = j.fs.Chmod(work, old.Mode().Perm())
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, err
	}
	return file, nil
}

// make carries a plan out.
func (j *restore) make(ctx context.Context) (err error) {
	work := j.how.To + workSuffix
	var file disk.File
	if j.out.Resumed {
		if file, err = j.fs.Open(work); errors.Is(err, fs.ErrNotExist) {
			j.journal, j.out.Resumed = nil, false
			var first error
			if err := j.plan(ctx, &first); err != nil {
				return err
			}
			file, err = j.create(work)
		}
	} else {
		file, err = j.create(work)
	}
	if err != nil {
		return err
	}
	defer func() {
		if cerr := file.Close(); err == nil {
			err = cerr
		}
	}()
	p := &j.journal.Plan
	if err := file.Truncate(int64(p.Pages) * int64(p.PageSize)); err != nil {
		return err
	}
	if err := j.read(ctx, file); err != nil {
		return err
	}
	if err := j.judge(); err != nil {
		// The same call begins anew, when the replica may have been mended.
		if rerr := j.fs.Remove(j.how.To + journalSuffix); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			return errors.Join(err, rerr)
		}
		return err
	}
	return file.Sync()
}

// read reads the plan's files from the last to the first and writes the pages that no later one has.
func (j *restore) read(ctx context.Context, file disk.File) (err error) {
	n := j.journal
	var pieces []piece
	for i := n.Next; i >= 0; i-- {
		p := piece{File: n.Plan.Files[i]}
		if i == n.Next && n.At != nil {
			p.from = n.At.Offset
		}
		pieces = append(pieces, p)
		j.total += p.Size - p.from
	}
	in := startFetch(ctx, j.r, pieces, j.how.Parallel)
	defer in.stop()
	out := newSink(file, n.Plan.PageSize, n.XOR)
	defer func() {
		var fault *replica.Fault
		if err != nil && !errors.As(err, &fault) { // the finished work is kept
			if kerr := j.keep(file, out); kerr != nil {
				err = errors.Join(err, kerr)
			}
		}
		out.close()
	}()
	since := int64(0)
	for i := range pieces {
		f := pieces[i]
		was := f.from
		err := j.one(in.file(i), f, out, func(d *decoder) error {
			step := d.at.Offset - was
			since, was, j.out.Bytes = since+step, d.at.Offset, j.out.Bytes+step
			j.progress()
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := out.state(); err != nil {
				return err
			}
			if since < j.how.every || d.old != nil {
				return nil
			}
			at := d.at
			since, n.At = 0, &at
			return j.keep(file, out)
		})
		if err != nil {
			return err
		}
		j.out.Bytes += f.Size - was
		j.out.Files++
		n.Next, n.Head, n.At = n.Next-1, "", nil
	}
	n.Next = 0
	n.XOR, err = out.wait()
	return err
}

func (j *restore) progress() {
	if j.how.Progress != nil {
		j.how.Progress(j.out.Bytes, j.total)
	}
}

// stepPages is how many pages are decoded between two looks around.
const stepPages = 256

// one reads one file. step is called now and then between two pages.
func (j *restore) one(in interface{ Read([]byte) (int, error) }, f piece, out *sink, step func(d *decoder) error) (err error) {
	n := j.journal
	name := j.r.Name(f.File)
	var d *decoder
	if f.from > 0 {
		head, err := n.header()
		if err != nil {
			return err
		}
		d = resumeDecoder(in, head, *n.At)
	} else if d, err = newDecoder(in); err != nil {
		return fault(name, err)
	} else if err := j.begins(name, f.File, d.head); err != nil {
		return err
	}
	raw, err := d.head.MarshalBinary()
	if err != nil {
		return err
	}
	n.Head = hex.EncodeToString(raw)
	for {
		data := out.room()
		page, err := d.next(data)
		if err != nil {
			return fault(name, err)
		}
		if page == 0 {
			break
		}
		if page <= n.Plan.Pages && !n.Seen.has(page) {
			n.Seen.set(page)
			out.put(page)
		}
		if d.at.Pages%stepPages == 0 {
			if err := step(d); err != nil {
				return err
			}
		}
	}
	if err := d.close(); err != nil {
		return fault(name, err)
	}
	return j.ends(name, f.File, d)
}

// fault names the file that an error is about. Errors of the store are not about the file.
func fault(name string, err error) error {
	var f *replica.Fault
	var s *storeError
	switch {
	case errors.As(err, &f):
		return err
	case errors.As(err, &s):
		return s.err
	}
	return &replica.Fault{Name: name, Reason: err.Error()}
}

// begins compares a file's header with its known fields.
func (j *restore) begins(name string, f replica.File, h ltx.Header) error {
	p := &j.journal.Plan
	switch {
	case h.MinTXID != f.Min || h.MaxTXID != f.Max:
		return &replica.Fault{Name: name, Reason: fmt.Sprintf("it is %s under another name", ltx.FormatFilename(h.MinTXID, h.MaxTXID))}
	case h.PageSize != p.PageSize:
		return &replica.Fault{Name: name, Reason: fmt.Sprintf("its pages have %d bytes, and the database's %d", h.PageSize, p.PageSize)}
	case f.Post != 0 && h.PreApplyChecksum != f.Pre:
		return &replica.Fault{Name: name, Reason: "the manifest says another checksum of the database before it"}
	}
	return nil
}

// ends compares a file's trailer with its known fields, and with the header of the next file.
func (j *restore) ends(name string, f replica.File, d *decoder) error {
	post := d.trailer.PostApplyChecksum
	if f.Post != 0 && post != f.Post {
		return &replica.Fault{Name: name, Reason: "the manifest says another checksum of the database behind it"}
	}
	if want := j.journal.Begins[f.Max.String()]; want != "" && want != post.String() {
		return &replica.Fault{Name: name, Reason: fmt.Sprintf("it ends with the database's checksum %s, and the next file begins with %s", post, want)}
	}
	if d.head.PreApplyChecksum != 0 {
		j.journal.Begins[(f.Min - 1).String()] = d.head.PreApplyChecksum.String()
	}
	return nil
}

// keep makes durable what was done, and writes down what that is.
func (j *restore) keep(file disk.File, out *sink) error {
	xor, err := out.wait()
	if err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	j.journal.XOR = xor
	return j.journal.write(j.fs, j.how.To+journalSuffix)
}

// judge holds what was made against what the replica says of it.
func (j *restore) judge() error {
	n := j.journal
	p := &n.Plan
	lock := ltx.LockPgno(p.PageSize)
	for page := uint32(1); page <= p.Pages; page++ {
		if !n.Seen.has(page) && page != lock {
			return fmt.Errorf("no file has page %d of %d", page, p.Pages)
		}
	}
	sum := databaseSum(n.XOR)
	if p.Post != 0 && p.Post != sum {
		return fmt.Errorf("the database's checksum is %s, and %s says %s: a file of the replica has other pages than it should; "+
			"`holdfast sqlite verify` tells which", sum, j.r.Name(p.Files[len(p.Files)-1]), p.Post)
	}
	o := j.out
	o.TXID, o.Time, o.Pages, o.PageSize, o.Checksum, o.Proved = p.TXID, p.Time, p.Pages, p.PageSize, sum, p.Post != 0
	return nil
}
