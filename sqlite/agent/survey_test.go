package agent

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/replica/replicatest"
	"github.com/holdfastdb/holdfast/sqlite/restore"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// lookedAt is a replica of another owner, at which an agent looks that has no database.
type lookedAt struct {
	*hand
	w *replicatest.Writer
}

// owned is a replica with so many groups, whose manifest names them, and the agent that looks at it.
func owned(t *testing.T, groups int) *lookedAt {
	r := newRig(t)
	l := &lookedAt{hand: r.byHand(gate.Archive), w: replicatest.New(r.replica(), foe)}
	for range groups {
		l.group()
	}
	l.manifest()
	return l
}

func (l *lookedAt) group() {
	l.t.Helper()
	if err := l.w.Commit(2, map[uint32][]byte{1: page(byte(len(l.w.Past) + 1)), 2: page(0)}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lookedAt) manifest() {
	l.t.Helper()
	if err := l.w.PutManifest(); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lookedAt) level(number int, min replica.TXID) {
	l.t.Helper()
	if _, err := l.w.Compact(number, min); err != nil {
		l.t.Fatal(err)
	}
}

// fence lets another owner take the replica over.
func (l *lookedAt) fence(owner uint64) {
	l.t.Helper()
	w, err := l.w.TakeOver(owner)
	if err != nil {
		l.t.Fatal(err)
	}
	l.w = w
}

// put puts bytes in the place of a file; nil removes it.
func (l *lookedAt) put(f replica.File, b []byte) {
	l.t.Helper()
	name := l.r.replica().Name(f)
	err := l.r.store.Delete(l.t.Context(), name)
	if err == nil && b != nil {
		err = l.r.store.Put(l.t.Context(), objstore.Object{Name: name, Data: b})
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lookedAt) last() replica.File { return l.w.Past[len(l.w.Past)-1].File }

// see looks at the replica, with a reader that has not seen it before.
func (l *lookedAt) see() *survey {
	l.t.Helper()
	s := &survey{}
	l.target.Replica = l.r.replica()
	if err := l.lookThere(l.t.Context(), s); err != nil {
		l.t.Fatal(err)
	}
	return s
}

// TestAReplicaIsSeenAsItIs: where it ends, whose it is, what is missing, and what a restore takes.
func TestAReplicaIsSeenAsItIs(t *testing.T) {
	for name, c := range map[string]struct {
		groups  int
		set     func(l *lookedAt)
		head    replica.TXID
		by      uint64 // who wrote the last group; 0: not known
		faults  int
		damage  string // "": none
		last    replica.TXID
		unknown bool // the checksum of the newest state
	}{
		"whole":                    {3, nil, 3, foe, 0, "", 3, false},
		"with a file of a level":   {3, func(l *lookedAt) { l.level(1, 2); l.manifest() }, 3, foe, 0, "", 3, false},
		"with a group behind it":   {3, (*lookedAt).group, 4, foe, 0, "", 4, false},
		"with a fence at its end":  {3, func(l *lookedAt) { l.fence(me) }, 4, foe, 0, "", 4, false},
		"with a group behind that": {3, func(l *lookedAt) { l.fence(me); l.group() }, 5 + 1<<20, me, 0, "", 5 + 1<<20, false},
		"the last group is empty":  {3, func(l *lookedAt) { l.put(l.last(), []byte{}) }, 3, foe, 1, "0 bytes", 2, false},
		"the last group is gone":   {3, func(l *lookedAt) { l.put(l.last(), nil) }, 3, foe, 1, "it is not there", 2, false},
		"the last group, which no manifest names, is cut short": {3, func(l *lookedAt) {
			l.group()
			l.put(l.last(), []byte("LTX1"))
		}, 4, foe, 1, "4 bytes", 3, true},
		"the last group is damaged, and a file of a level ends there": {3, func(l *lookedAt) {
			l.level(1, 2)
			l.manifest()
			l.put(l.last(), []byte{})
		}, 3, foe, 1, "", 3, false},
		"the last group is damaged, there is no manifest, and a file of a level ends there": {3, func(l *lookedAt) {
			l.level(1, 2)
			if err := l.r.store.Delete(l.t.Context(), replica.ManifestName); err != nil {
				l.t.Fatal(err)
			}
			l.put(l.last(), []byte("LTX1"))
		}, 3, foe, 1, "", 3, false},
		"a group in between is gone": {3, func(l *lookedAt) { l.put(l.w.Past[1].File, nil) }, 3, foe, 1, "it is not there", 1, false},
		"a group in between is gone, and a file of a level has it": {3, func(l *lookedAt) {
			l.level(1, 2)
			l.manifest()
			l.put(l.w.Past[1].File, nil)
		}, 3, foe, 1, "", 3, false},
		"another file has the last one's name": {3, func(l *lookedAt) {
			other := replicatest.New(l.r.another().replica(), me)
			for range 3 {
				other.Group(2, map[uint32][]byte{1: page(77), 2: page(0)})
			}
			l.put(l.last(), other.Past[2].Data)
		}, 3, foe, 1, "it is another file than the manifest says", 2, false},
		"the fence is all that can be read behind a lost group": {3, func(l *lookedAt) {
			lost := l.last()
			l.fence(me)
			l.manifest()
			l.put(lost, nil)
		}, 4, 0, 1, "it is not there", 2, false},
	} {
		l := owned(t, c.groups)
		if c.set != nil {
			c.set(l)
		}
		s := l.see()
		v := &s.there
		if v.head.TXID != c.head || v.groupBy != c.by || v.last != c.last || (v.head.Post == 0) != c.unknown {
			t.Errorf("%s: it ends at TXID %d with the checksum %v, %d wrote the last group, and TXID %d can be restored; want %d, %v, %d and %d", name, v.head.TXID, v.head.Post,
				v.groupBy, v.last, c.head, !c.unknown, c.by, c.last)
		}
		if !c.unknown && v.head.Post != l.w.Head.Post {
			t.Errorf("%s: the newest state has the checksum %s, want %s", name, v.head.Post, l.w.Head.Post)
		}
		if len(s.faults) != c.faults || (v.damage == "") != (c.damage == "") || !strings.Contains(v.damage, c.damage) {
			t.Errorf("%s: %v, damage %q, want %d faults and %q", name, s.faults, v.damage, c.faults, c.damage)
		}
		if v.states[0] || !c.unknown && !v.states[v.head.Post] && v.damage == "" {
			t.Errorf("%s: the states that are known are %v", name, v.states)
		}
		if v.needBytes != 2*512+restore.Spare {
			t.Errorf("%s: a restore takes %d bytes", name, v.needBytes)
		}
		if v.foreign || v.manifest || v.inFlight != 0 {
			t.Errorf("%s: it is called foreign, or damaged, or to have uploads in flight: %+v", name, v)
		}
	}
}

// TestALookAtAWholeReplicaReadsTheManifestOnce, and at a damaged one once more: its owner may have replaced the files meanwhile.
func TestALookAtAWholeReplicaReadsTheManifestOnce(t *testing.T) {
	for damaged, more := range map[bool]int64{false: 0, true: 1} { // any order: each alone
		l := owned(t, 3)
		if damaged {
			l.put(l.w.Past[1].File, nil)
		}
		before := l.r.store.requests.Load() - l.r.store.identities.Load()
		l.see()
		if n := l.r.store.requests.Load() - l.r.store.identities.Load() - before; n != 1+more {
			t.Errorf("damaged: %v: the manifest is read %d times", damaged, n)
		}
	}
}

// TestAnOwnerThatGoesOnIsSeenAgain: files are missing because the owner has replaced them since the manifest was read.
func TestAnOwnerThatGoesOnIsSeenAgain(t *testing.T) {
	l := owned(t, 3)
	l.put(l.w.Past[1].File, nil)
	l.target.Replica = l.r.replica()
	l.r.store.Store = &rewriting{Store: l.r.store.Store, then: func() { l.group(); l.manifest() }}
	if err := l.lookThere(t.Context(), &survey{}); !errors.Is(err, replica.ErrMoved) {
		t.Errorf("the look ends with %v", err)
	}
}

// rewriting is a store whose owner goes on when its list has been read.
type rewriting struct {
	objstore.Store
	then func()
}

func (s *rewriting) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Listed, error] {
	return func(yield func(objstore.Listed, error) bool) {
		for l, err := range s.Store.List(ctx, prefix, after) {
			if !yield(l, err) {
				return
			}
		}
		if then := s.then; prefix == "" && then != nil {
			s.then = nil
			then()
		}
	}
}

// TestWhatKeepsALookFromItsEnd: a disk or a store that fails. A file that is no database is named, with any answer of the store.
func TestWhatKeepsALookFromItsEnd(t *testing.T) {
	text := []byte(strings.Repeat("no database ", 20))
	for name, c := range map[string]struct {
		fs    failing
		store error
		file  []byte
		want  error
	}{
		"the state cannot be read":            {failing{read: "state"}, nil, nil, errDown},
		"the record of a restore cannot":      {failing{read: "restored"}, nil, nil, errDown},
		"the disk does not say its room":      {failing{free: true}, nil, nil, errDown},
		"the store fails":                     {failing{}, errDown, nil, errDown},
		"the store fails, beside no database": {failing{}, errDown, text, walfile.ErrNoDatabase},
	} {
		r := newRig(t)
		h := r.byHand(gate.Archive)
		if c.file != nil {
			if err := os.WriteFile(r.path, c.file, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c.fs.FS = h.agent.cfg.FS
		h.agent.cfg.FS = c.fs
		if c.store != nil {
			r.store.fails.Store(&c.store)
		}
		if s, err := h.survey(t.Context()); !errors.Is(err, c.want) || s != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// failing is a disk of which some calls fail.
type failing struct {
	disk.FS
	read string // names that end so cannot be read; "": all can be
	free bool   // it does not say how much room is left
}

func (f failing) ReadFile(name string) ([]byte, error) {
	if f.read != "" && strings.HasSuffix(name, f.read) {
		return nil, errDown
	}
	return f.FS.ReadFile(name)
}

func (f failing) Free(dir string) (uint64, error) {
	if f.free {
		return 0, errDown
	}
	return f.FS.Free(dir)
}

// TestFilesThatAreKeptAsideHaveOneName: a database, its WAL and what else lies beside it. Files left by an interrupted attempt get the name
// of the database that went before them.
func TestFilesThatAreKeptAsideHaveOneName(t *testing.T) {
	const now = ".aside-20260301T120000.000Z"
	for name, c := range map[string]struct {
		before []string // beside app.db
		want   []string
		empty  bool // app.db
	}{
		"nothing":                             {nil, nil, false},
		"a database":                          {[]string{""}, []string{now}, false},
		"a database and its WAL":              {[]string{"", "-wal", "-shm"}, []string{now, now + "-shm", now + "-wal"}, false},
		"a journal":                           {[]string{"", "-journal"}, []string{now, now + "-journal"}, false},
		"an empty file":                       {[]string{""}, []string{""}, true},
		"a WAL beside an empty file":          {[]string{"", "-wal"}, []string{"", now + "-wal"}, true},
		"a WAL alone":                         {[]string{"-wal"}, []string{now + "-wal"}, false},
		"a WAL whose database went before it": {[]string{".aside-2", "-wal", "-shm"}, []string{".aside-2", ".aside-2-shm", ".aside-2-wal"}, false},
		"a WAL, and a database that has one":  {[]string{".aside-2", ".aside-2-wal", "-wal"}, []string{".aside-2", ".aside-2-wal", now + "-wal"}, false},
		"another database is of no account":   {[]string{".other", "", ".aside-2"}, []string{".aside-2", now, ".other"}, false},
	} {
		r := newRig(t)
		h := r.byHand(gate.Archive)
		for _, end := range c.before {
			b := []byte("x")
			if end == "" && c.empty {
				b = nil
			}
			if err := os.WriteFile(r.path+end, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		kept, err := h.setAside(".aside-")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		all, err := h.agent.cfg.FS.List(h.side + "/..")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range all {
			if end, ok := strings.CutPrefix(f, "app.db"); ok {
				got = append(got, end)
			}
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: there are %q, want %q", name, got, c.want)
		}
		if moved := !slices.Equal(c.before, c.want); (kept != "") != (len(c.before) > 0 && !(c.empty && len(c.before) == 1)) || moved && kept == "" && len(c.before) > 0 {
			t.Errorf("%s: it is kept as %q", name, kept)
		}
	}
}

// TestAFileThatCannotBeKeptAsideIsAnError: nothing may take its place.
func TestAFileThatCannotBeKeptAsideIsAnError(t *testing.T) {
	r := newRig(t)
	h := r.byHand(gate.Archive)
	if err := os.WriteFile(r.path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.agent.cfg.FS = stuck{h.agent.cfg.FS, errDown}
	if _, err := h.setAside(".aside-"); !errors.Is(err, errDown) {
		t.Errorf("a rename that fails: %v", err)
	}
	h.agent.cfg.FS = stuck{h.agent.cfg.FS.(stuck).FS, fs.ErrNotExist}
	if _, err := h.setAside(".aside-"); err != nil {
		t.Errorf("a file that has gone meanwhile: %v", err)
	}
}

// stuck is a disk whose files keep their names.
type stuck struct {
	disk.FS
	err error
}

func (s stuck) Rename(string, string) error { return s.err }

// TestAWALThatGoesOnIsSeen: the replica ends with a group of this WAL, and with the file of a level, and the WAL has more. A group that was read from the
// database says nothing.
func TestAWALThatGoesOnIsSeen(t *testing.T) {
	r := newRig(t)
	r.cfg.Levels = []time.Duration{time.Minute}
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Local)
	further := func() bool {
		t.Helper()
		h.target.Replica = r.replica()
		s, err := h.survey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.close()
		return s.here.further
	}
	if further() {
		t.Error("the replica ends with the whole database, and the WAL is said to go on from it")
	}
	r.exec(db, "insert into t values (1)")
	h.commit()
	h.work()
	if !further() {
		t.Error("the replica ends with a group of this WAL, and the WAL is said not to go on from it")
	}
	h.time.Advance(time.Minute)
	h.levelsDue(h.now())
	h.work()
	h.stale, h.changed = true, time.Time{}
	h.manifest(h.now())
	h.work()
	if c := r.chain(); !slices.ContainsFunc(c.Files, func(f replica.File) bool { return f.Level == 1 && f.Max == c.Head.TXID }) {
		t.Fatalf("no file of level 1 ends where the replica does: %v", c.Files)
	}
	r.exec(db, "insert into t values (2)")
	if !further() {
		t.Error("a file of a level ends where the group does, and the WAL is said not to go on from it")
	}
}

// TestFilesWithAFaultAreLeftOut, and those where only the way to them is missing stay.
func TestFilesWithAFaultAreLeftOut(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	one, two, three := replica.File{Min: 1, Max: 1}, replica.File{Min: 2, Max: 2}, replica.File{Min: 3, Max: 3}
	name := h.target.Replica.Name
	got := h.without([]replica.File{one, two, three}, []*replica.Fault{{Name: name(two)}, {Name: name(three), Gap: true}})
	if !slices.Equal(got, []replica.File{one, three}) {
		t.Errorf("%v are left", got)
	}
}

// TestARestoreWarnsOfNothing where nothing is in its way, and brings the newest state with one takeover.
func TestARestoreWarnsOfNothing(t *testing.T) {
	r := lived(t, 2)
	other := r.another()
	h := other.followed(gate.Archive)
	if n := count(t, other.connect()); n != 2 {
		t.Errorf("%d of 2 rows are restored", n)
	}
	if lines := h.warned(); len(lines) > 0 {
		t.Errorf("the log warns: %q", lines)
	}
	if _, ok, err := h.readState(); !ok || err != nil {
		t.Errorf("the state is whole: %v, %v", ok, err)
	}
	if n := other.log.count("restore again"); n != 0 {
		t.Errorf("it is restored once more, %d times", n)
	}
	if epoch := r.chain().Epoch; epoch != 2 {
		t.Errorf("the replica is in epoch %d, want 2", epoch)
	}
}
