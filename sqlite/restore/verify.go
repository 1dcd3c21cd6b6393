package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/superfly/ltx"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// Finding is something that Verify names.
type Finding struct {
	// Wrong: something is damaged, missing, or says something else than the rest. Otherwise it is how a replica may well be.
	Wrong bool
	Text  string
}

// Verifying says how a replica is proved.
type Verifying struct {
	// Parallel is how many requests are on their way at once; each takes 2 MiB of memory. 0: 8.
	Parallel int
	Found    func(Finding)
	Progress func(done, all int64) // bytes; nil: no calls
}

// Verified is what Verify has proved.
type Verified struct {
	Head      replica.Head
	Files     int
	Bytes     int64
	Snapshots int // that are whole
	// States is how many states a restore can come to, Proved how many of them have the checksum that was kept of them. Litestream keeps none.
	States, Proved int
	Wrong          int // findings
}

// verify is one running verification. Each file is read once, by its end TXID, and laid over the state of its level. Of a database only the
// checksums are kept: 8 bytes a page and level.
type verify struct {
	r     *replica.Replica
	how   Verifying
	out   *Verified
	chain *replica.Chain
	files []replica.File // by Max, then by level

	states [replica.SnapshotLevel + 1]*state
	kept   map[replica.TXID]*state // for files that begin there; their level has nothing before them
	wanted map[replica.TXID]int    // how many of those there are
	claims map[replica.TXID]claim  // the stated checksum of the database at a TXID, and the file that stated it first
	sums   map[replica.TXID]claim  // its computed one
}

type claim struct {
	sum  replica.Checksum
	name string
}

// state is a database at a TXID: of each page its checksum, of all their XOR.
type state struct {
	at    replica.TXID
	pages []uint64
	xor   uint64
}

func (s *state) clone() *state { c := *s; c.pages = slices.Clone(s.pages); return &c }

// resize gives the database a size.
func (s *state) resize(pages uint32) {
	for i := int(pages); i < len(s.pages); i++ {
		s.xor ^= s.pages[i]
	}
	if n := int(pages); n <= len(s.pages) {
		s.pages = s.pages[:n]
	} else {
		s.pages = slices.Grow(s.pages, n-len(s.pages))
		for len(s.pages) < n {
			s.pages = append(s.pages, 0)
		}
	}
}

// Verify proves a replica without changing it, and without a disk. Every file that counts must exist with the bytes written under its name,
// and the files of level 0 must follow each other. Files of higher levels and snapshots must come to the same database, and no foreign
// objects may lie there. It returns an error only if it could not go on: the store's, or ctx's, or ErrEmpty. Found hears of each fault.
func Verify(ctx context.Context, r *replica.Replica, how Verifying) (*Verified, error) {
	if how.Parallel <= 0 {
		how.Parallel = 8
	}
	v := &verify{r: r, how: how, out: &Verified{}, kept: map[replica.TXID]*state{}, wanted: map[replica.TXID]int{},
		claims: map[replica.TXID]claim{}, sums: map[replica.TXID]claim{}}
	if err := v.survey(ctx); err != nil {
		return nil, err
	}
	if err := v.read(ctx); err != nil {
		return nil, err
	}
	v.reachable()
	return v.out, nil
}

func (v *verify) wrong(format string, args ...any) {
	v.out.Wrong++
	v.how.Found(Finding{Wrong: true, Text: fmt.Sprintf(format, args...)})
}

func (v *verify) note(format string, args ...any) {
	v.how.Found(Finding{Text: fmt.Sprintf(format, args...)})
}

// survey lists the files and compares them with the manifest.
func (v *verify) survey(ctx context.Context) error {
	c, err := v.r.Read(ctx)
	var fault *replica.Fault
	if err != nil && !errors.As(err, &fault) { // a file that is damaged is read below
		return err
	}
	if c.Head.Empty() && c.Damage == nil {
		return ErrEmpty
	}
	v.chain, v.out.Head = c, c.Head
	if c.Damage != nil {
		v.wrong("%v", c.Damage)
	}
	if _, err := v.r.Identity(ctx, false); errors.Is(err, objstore.ErrNoIdentity) {
		v.wrong("%v", err) // no restore reads it, and an agent does not begin
	} else if err != nil {
		return err
	}
	there, err := v.list(ctx)
	if err != nil {
		return err
	}
	for _, f := range c.Files {
		name := v.r.Name(f)
		size, ok := there[name]
		delete(there, name)
		switch {
		case !ok:
			v.wrong("%s: the manifest names it, and it is not there", name)
		case size != f.Size:
			v.wrong("%s: it has %d bytes, and the manifest says %d", name, size, f.Size)
		default:
			v.files = append(v.files, f)
		}
	}
	for _, f := range c.Orphans {
		delete(there, v.r.Name(f))
		v.note("%s lies beside the chain: an earlier owner's, who had lost the replica; harmless", v.r.Name(f))
	}
	if len(c.Ahead) > 0 {
		v.note("%s is not there, and %d files behind it are: they were on their way when their owner died, or it is lost",
			v.r.Name(c.Missing()), len(c.Ahead))
	}
	for _, f := range c.Ahead {
		delete(there, v.r.Name(f))
	}
	delete(there, replica.ManifestName)
	delete(there, replica.IdentityName)
	rest := make([]string, 0, len(there))
	for name := range there { // any order: they are sorted
		rest = append(rest, name)
	}
	slices.Sort(rest)
	for _, name := range rest {
		v.note("%s is not part of the replica: no restore reads it", name)
	}
	slices.SortFunc(v.files, func(a, b replica.File) int {
		return cmp.Or(cmp.Compare(a.Max, b.Max), cmp.Compare(a.Level, b.Level), cmp.Compare(a.Min, b.Min))
	})
	v.want()
	return nil
}

// list is every object, with its size.
func (v *verify) list(ctx context.Context) (map[string]int64, error) {
	there := map[string]int64{}
	for l, err := range v.r.Objects(ctx) {
		if err != nil {
			return nil, err
		}
		there[l.Name] = l.Size
	}
	return there, nil
}

// want finds the states that a file needs and its level does not have.
func (v *verify) want() {
	var at [replica.SnapshotLevel + 1]replica.TXID
	for _, f := range v.files {
		if !f.Snapshot() && at[f.Level] != f.Min-1 {
			v.wanted[f.Min-1]++
		}
		at[f.Level] = f.Max
	}
}

// read reads every file.
func (v *verify) read(ctx context.Context) error {
	var pieces []piece
	var all int64
	for _, f := range v.files {
		pieces = append(pieces, piece{File: f})
		all += f.Size
	}
	// A part that cannot be read ends a fetch, so another begins behind the file.
	for i := 0; i < len(pieces); {
		in := startFetch(ctx, v.r, pieces[i:], v.how.Parallel)
		for first := i; i < len(pieces); {
			whole, err := v.one(in.file(i-first), pieces[i].File)
			if err != nil {
				in.stop()
				return err
			}
			v.out.Bytes += pieces[i].Size
			if i++; v.how.Progress != nil {
				v.how.Progress(v.out.Bytes, all)
			}
			if !whole {
				break
			}
		}
		in.stop()
	}
	return nil
}

// one reads a file and lays it over a state. whole reports whether it was read to its end, with or without faults.
func (v *verify) one(in interface{ Read([]byte) (int, error) }, f replica.File) (whole bool, err error) {
	name := v.r.Name(f)
	s := v.base(f)
	d, err := newDecoder(in)
	if err == nil {
		err = v.lay(d, s, name, f)
	}
	if err != nil {
		var file *replica.Fault
		err := fault(name, err)
		if errors.As(err, &file) || errors.Is(err, objstore.ErrAbsent) {
			v.wrong("%v", err)
			v.states[f.Level] = nil
			return false, nil
		}
		return false, err
	}
	v.out.Files++
	return true, nil
}

// base takes the state that a file is laid over; nil: there is none, and then it is only checked for itself.
func (v *verify) base(f replica.File) *state {
	if f.Snapshot() {
		return &state{}
	}
	fits := func(s *state) bool { return s != nil && s.at >= f.Min-1 && s.at < f.Max }
	own := v.states[f.Level]
	if own != nil && own.at == f.Min-1 {
		return own
	}
	if k := v.kept[f.Min-1]; k != nil {
		if v.wanted[f.Min-1]--; v.wanted[f.Min-1] > 0 {
			return k.clone()
		}
		delete(v.kept, f.Min-1)
		return k
	}
	for _, s := range v.states {
		if fits(s) {
			return s.clone()
		}
	}
	return nil
}

// lay reads a file over a state.
func (v *verify) lay(d *decoder, s *state, name string, f replica.File) error {
	h := d.head
	if h.MinTXID != f.Min || h.MaxTXID != f.Max {
		return fmt.Errorf("it is %s under another name", ltx.FormatFilename(h.MinTXID, h.MaxTXID))
	}
	if s != nil {
		s.resize(h.Commit)
	}
	data := make([]byte, h.PageSize)
	for {
		page, err := d.next(data)
		if err != nil {
			return err
		}
		if page == 0 {
			break
		}
		if s != nil {
			sum := pageSum(page, data)
			s.xor ^= s.pages[page-1] ^ sum
			s.pages[page-1] = sum
		}
	}
	if err := d.close(); err != nil {
		return err
	}
	if f.Fence && d.at.Pages > 0 {
		return errors.New("it is a fence, and has pages")
	}
	if f.Post != 0 && (f.Post != d.trailer.PostApplyChecksum || f.Pre != h.PreApplyChecksum) {
		return errors.New("the manifest says other checksums of the database")
	}
	v.claim(f.Min-1, h.PreApplyChecksum, name)
	v.claim(f.Max, d.trailer.PostApplyChecksum, name)
	if f.Snapshot() {
		v.out.Snapshots++
	}
	if s == nil {
		v.note("%s follows no state that is there: it was checked for itself", name)
		return nil
	}
	s.at = f.Max
	v.states[f.Level] = s
	v.found(s, name)
	return nil
}

// claim compares what files say of the database at a TXID.
func (v *verify) claim(at replica.TXID, sum replica.Checksum, name string) {
	if sum == 0 || at == 0 {
		return
	}
	was, ok := v.claims[at]
	if !ok {
		v.claims[at] = claim{sum, name}
	} else if was.sum != sum {
		v.wrong("%s says that the database's checksum at %s is %s, and %s says %s", name, at, sum, was.name, was.sum)
	}
}

// found compares a state with its stated checksum, and with the same state on other levels.
func (v *verify) found(s *state, name string) {
	sum := databaseSum(s.xor)
	if says, ok := v.claims[s.at]; ok && says.sum != sum {
		v.wrong("%s: with it the database's checksum at %s is %s, and %s says %s", name, s.at, sum, says.name, says.sum)
	}
	if was, ok := v.sums[s.at]; !ok {
		v.sums[s.at] = claim{sum, name}
	} else if was.sum != sum {
		v.wrong("%s comes to another database at %s than %s does", name, s.at, was.name)
	}
	if v.wanted[s.at] > 0 && v.kept[s.at] == nil {
		v.kept[s.at] = s.clone()
	}
}

// reachable counts the states that a restore can come to, and names a head that it cannot.
func (v *verify) reachable() {
	var ends []replica.TXID
	for _, f := range v.files {
		ends = append(ends, f.Max)
	}
	ends = slices.Compact(ends)
	for _, at := range ends {
		if _, ok := v.sums[at]; ok {
			v.out.States++
			if v.claims[at].sum != 0 {
				v.out.Proved++
			}
		}
	}
	if _, ok := v.sums[v.chain.Head.TXID]; !ok && !v.chain.Head.Empty() {
		v.wrong("the newest state, %s, cannot be restored", v.chain.Head.TXID)
	}
}
