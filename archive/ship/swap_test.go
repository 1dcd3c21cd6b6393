package ship

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/internal/golden"
	"github.com/holdfastdb/holdfast/objstore"
)

// mount is where a store is reached: another store may come to be there.
type mount struct {
	objstore.Store // for what these tests do not use
	mu             sync.Mutex
	at             objstore.Store // guarded by mu
}

func mounted(s objstore.Store) *mount { return &mount{Store: s, at: s} }

func (m *mount) put(s objstore.Store) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = s
}

func (m *mount) now() objstore.Store {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

func (m *mount) Get(ctx context.Context, name string) ([]byte, error) { return m.now().Get(ctx, name) }
func (m *mount) GetVersion(ctx context.Context, name string) ([]byte, string, error) {
	return m.now().GetVersion(ctx, name)
}
func (m *mount) Put(ctx context.Context, o ...objstore.Object) error { return m.now().Put(ctx, o...) }
func (m *mount) PutIfAbsent(ctx context.Context, o objstore.Object) error {
	return m.now().PutIfAbsent(ctx, o)
}
func (m *mount) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	return m.now().Open(ctx, name, off, n)
}
func (m *mount) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Listed, error] {
	return m.now().List(ctx, prefix, after)
}
func (m *mount) Delete(ctx context.Context, names ...string) error {
	return m.now().Delete(ctx, names...)
}

// copied returns a store with the same objects, as a copy of a bucket, or of a disk, has them.
func copied(t *testing.T, s *objstore.Memory) *objstore.Memory {
	t.Helper()
	to := objstore.NewMemory()
	for name, b := range s.Objects() {
		if err := to.Put(t.Context(), objstore.Object{Name: name, Data: b}); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// strangers are the places that a member may find where its archive was.
func strangers(t *testing.T) map[string]objstore.Store {
	other := objstore.NewMemory()
	if _, err := objstore.Identity(t.Context(), other, IdentityName, true); err != nil {
		t.Fatal(err)
	}
	missing := objstore.NewMemory()
	missing.Fail(objstore.ErrSwapped)
	return map[string]objstore.Store{"an empty place": objstore.NewMemory(), "another archive": other, "a directory that is gone": missing}
}

// reports has members ask each other for their archives: the one that leads answers.
func reports(leader, follower *testMember) {
	follower.OnCall(func(service string, req []byte) ([]byte, error) {
		return leader.Service(service)(context.Background(), req)
	})
}

// memberDisk is the data directory of a member.
func memberDisk(t *testing.T) Options {
	fs := disk.NewMem()
	if err := fs.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	return Options{URL: "s3://bucket/place", FS: fs, Dir: "data"}
}

// objects is how many objects of the log a place has got.
func objects(s objstore.Store) (n int) {
	for l, err := range s.List(context.Background(), "", "") {
		if err == nil && l.Name != IdentityName {
			n++
		}
	}
	return n
}

// TestASwappedStoreIsNoticed by the first upload after a minute without one: nothing is acknowledged and nothing put where the archive is
// not. It is said, and goes on when the archive is back. Then the same once more.
func TestASwappedStoreIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, stranger := range strangers(t) { // any order: each is on its own
			h, real, said := newHistory(), objstore.NewMemory(), &lines{}
			s, m, opt := mounted(real), newMember(h), memberDisk(t)
			opt.Logger = said.logger()
			w := run(t, m, s, opt)
			m.Lead(h.elect())
			time.Sleep(2 * time.Second)
			for turn := range 2 {
				h.add(5, 100)
				time.Sleep(2 * time.Minute)
				at, had := m.ArchivedIndex(), objects(stranger)
				if at != h.last() {
					t.Fatalf("%s, turn %d: archived %d of %d\n%s", name, turn, at, h.last(), said)
				}
				s.put(stranger)
				h.add(5, 100)
				m.want(h.last())
				time.Sleep(time.Minute)
				st := w.Status()
				if m.ArchivedIndex() != at || st.Away == "" || st.Alarm != "" {
					t.Errorf("%s, turn %d: archived %d, was %d: %+v", name, turn, m.ArchivedIndex(), at, st)
				}
				if !strings.Contains(said.String(), "level=ERROR") {
					t.Errorf("%s: nothing was said:\n%s", name, said)
				}
				if n := objects(stranger) - had; n > 1 { // the upload that had the store looked at
					t.Errorf("%s, turn %d: %d objects were put there", name, turn, n)
				}
				s.put(real)
				time.Sleep(time.Minute)
				if st := w.Status(); m.ArchivedIndex() != h.last() || st.Away != "" || st.Missing != nil {
					t.Errorf("%s, turn %d: the archive is back, and %d of %d is archived: %+v\n%s", name, turn, m.ArchivedIndex(), h.last(), st, said)
				}
				if last := chain(t, real, h, roots(t, real)[0]); last != h.last() {
					t.Errorf("%s, turn %d: the archive ends at %d of %d", name, turn, last, h.last())
				}
			}
			m.Stop()
		}
	})
}

// TestWhatWasAcknowledgedElsewhereIsShippedAgain: uploads of one burst went into a place that had taken that of the archive. A look names
// them, and they are shipped again when the archive is back, because the log is kept from the last look on.
func TestWhatWasAcknowledgedElsewhereIsShippedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, real, said := newHistory(), objstore.NewMemory(), &lines{}
		s, m, opt := mounted(real), newMember(h), memberDisk(t)
		opt.Logger = said.logger()
		w := run(t, m, s, opt)
		m.Lead(h.elect())
		time.Sleep(2 * time.Second)
		for range 2 { // twice in a row
			time.Sleep(2 * time.Minute)
			h.add(5, 100)
			time.Sleep(2 * time.Second)
			looked := m.ArchivedIndex()
			s.put(objstore.NewMemory())
			h.add(5, 100)
			time.Sleep(2 * time.Second)
			acked := m.ArchivedIndex()
			if acked != h.last() || looked+5 != acked {
				t.Fatalf("%d is acknowledged, the log has %d", acked, h.last())
			}
			if at := m.kept(); at > looked+1 {
				t.Errorf("the log is kept from %d, the last look was at %d", at, looked)
			}
			time.Sleep(time.Minute)
			h.add(1, 100)
			time.Sleep(time.Minute)
			if text := said.String(); !strings.Contains(text, fmt.Sprintf("%d to %d", looked+1, acked)) {
				t.Errorf("entries %d to %d are not named:\n%s", looked+1, acked, text)
			}
			s.put(real)
			time.Sleep(time.Minute)
			if st := w.Status(); st.Missing != nil || st.Away != "" || m.ArchivedIndex() != h.last() || st.Gaps != 0 {
				t.Errorf("%+v, archived %d of %d", st, m.ArchivedIndex(), h.last())
			}
			if last := chain(t, real, h, roots(t, real)[0]); last != h.last() {
				t.Errorf("the archive ends at %d of %d\n%s", last, h.last(), said)
			}
			if text := said.String(); !strings.Contains(text, "are not in the archive") || !strings.Contains(text, "has again all") {
				t.Errorf("it is not said that they were shipped again:\n%s", text)
			}
		}
	})
}

// TestAStoreThatLostItsNewestObjects has the identity all the same: a bucket that was put back to yesterday. The missing objects are named and
// shipped again.
func TestAStoreThatLostItsNewestObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, real, said := newHistory(), objstore.NewMemory(), &lines{}
		s, m, opt := mounted(real), newMember(h), memberDisk(t)
		opt.Logger = said.logger()
		w := run(t, m, s, opt)
		m.Lead(h.elect())
		time.Sleep(2 * time.Second)
		h.add(5, 100)
		time.Sleep(2 * time.Minute)
		h.add(5, 100)
		time.Sleep(2 * time.Second)
		before := m.ArchivedIndex()
		yesterday := copied(t, real)
		h.add(5, 100) // in the minute after a look: the log is kept from there
		time.Sleep(2 * time.Second)
		acked := m.ArchivedIndex()
		s.put(yesterday)
		time.Sleep(time.Minute)
		h.add(1, 100)
		time.Sleep(time.Minute)
		if last := chain(t, yesterday, h, roots(t, yesterday)[0]); last != h.last() || m.ArchivedIndex() != last {
			t.Errorf("the archive ends at %d, %d is said, the log has %d\n%s", last, m.ArchivedIndex(), h.last(), said)
		}
		if text := said.String(); !strings.Contains(text, fmt.Sprintf("first=%d last=%d", before+1, acked)) {
			t.Errorf("%d to %d are not named:\n%s", before+1, acked, text)
		}
		if st := w.Status(); st.Away != "" || st.Missing != nil {
			t.Errorf("%+v", st)
		}
	})
}

// TestASwappedStoreAtTheStart: a member that has used an archive does not take another place for a new one. That holds whether it starts
// again, or another member becomes leader, or both.
func TestASwappedStoreAtTheStart(t *testing.T) {
	for _, who := range []string{"the same member", "a follower", "a follower that starts again", "a follower that was never told"} {
		synctest.Test(t, func(t *testing.T) {
			for name, stranger := range strangers(t) { // any order: each is on its own
				h, real := newHistory(), objstore.NewMemory()
				s, first, opt := mounted(real), newMember(h), memberDisk(t)
				run(t, first, s, opt)
				first.Lead(h.elect())
				time.Sleep(2 * time.Second)
				h.add(5, 100)
				time.Sleep(2 * time.Second)
				at := first.ArchivedIndex()
				next, nextOpt, said := newMember(h), opt, &lines{}
				if who != "the same member" {
					nextOpt = memberDisk(t)
				}
				switch who {
				case "a follower", "a follower that starts again":
					follower := newMember(h)
					reports(first, follower)
					run(t, follower, s, nextOpt)
					follower.SetArchived(at)
					time.Sleep(time.Minute)
					if follower.kept() > at+1 {
						t.Errorf("the follower keeps its log from %d", follower.kept())
					}
					follower.Stop()
				case "a follower that was never told":
					next.SetArchived(at)
				}
				if who == "a follower" {
					next.SetArchived(at)
				}
				first.Stop()
				s.put(stranger)
				had := objects(stranger)
				nextOpt.Logger = said.logger()
				w := run(t, next, s, nextOpt)
				next.Lead(h.elect())
				h.add(5, 100)
				next.want(h.last())
				time.Sleep(time.Minute)
				if who == "a follower that was never told" && name == "another archive" {
					next.Stop() // it is an archive, and this member does not know which one was used
					continue
				}
				if st := w.Status(); next.ArchivedIndex() > at || st.Away == "" || st.Alarm != "" || objects(stranger) != had && who != "a follower that was never told" {
					t.Errorf("%s, %s: archived %d, %d objects, %+v", who, name, next.ArchivedIndex(), objects(stranger), st)
				}
				if text := said.String(); strings.Count(text, "level=ERROR") != 1 {
					t.Errorf("%s, %s:\n%s", who, name, text)
				}
				s.put(real)
				time.Sleep(time.Minute)
				if st := w.Status(); next.ArchivedIndex() != h.last() || st.Away != "" {
					t.Errorf("%s, %s: the archive is back, archived %d of %d, %+v\n%s", who, name, next.ArchivedIndex(), h.last(), st, said)
				}
				if last := chain(t, real, h, roots(t, real)[0]); last != h.last() || len(roots(t, real)) != 1 {
					t.Errorf("%s, %s: the archive ends at %d of %d", who, name, last, h.last())
				}
				next.Stop()
			}
		})
	}
}

// TestASnapshotHasItsPieces: pieces of a snapshot went into a place that had taken that of the archive for a moment, which no look has seen. Its
// manifest does not follow into the archive; another snapshot does.
func TestASnapshotHasItsPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, memory := newHistory(), objstore.NewMemory()
		real, stranger := &noSpans{Memory: memory}, &noSpans{Memory: objstore.NewMemory()}
		s, m, opt := mounted(real), newMember(h), memberDisk(t)
		opt.SnapshotBytes = 100 << 10
		w := run(t, m, s, opt)
		m.Lead(h.elect())
		time.Sleep(5 * time.Second)
		w.mu.Lock()
		term := w.term
		w.mu.Unlock()
		real.refuse.Store(true)
		stranger.refuse.Store(true)
		s.put(stranger)
		h.add(20, 1000)
		time.Sleep(2 * time.Second)
		term.mu.Lock()
		term.shipped += 1 << 20 // as much was shipped before: a snapshot is due while the newest entries are on their way
		term.mu.Unlock()
		term.poke()
		time.Sleep(2 * time.Second)
		if n := len(stranger.Objects()); n != 1 {
			t.Fatalf("%d objects went into the other place, one piece should have", n)
		}
		s.put(real)
		real.refuse.Store(false)
		time.Sleep(5 * time.Minute)
		all := roots(t, memory)
		if len(all) < 2 || m.ArchivedIndex() != h.last() {
			t.Fatalf("snapshots at %v, archived %d of %d", all, m.ArchivedIndex(), h.last())
		}
		for _, index := range all {
			name := format.ManifestName(cluster, index)
			mf, err := format.DecodeManifest(name, memory.Objects()[name])
			if err != nil {
				t.Fatal(err)
			}
			for i := range mf.Pieces {
				if b, ok := memory.Objects()[mf.PieceName(i)]; !ok || mf.CheckPiece(i, b) != nil {
					t.Errorf("the snapshot at %d is without its piece %d", index, i)
				}
			}
		}
	})
}

// TestTheOperatorChoosesAnotherPlace: another --archive is a new archive, and so is the place of one that was given up by name. Neither is
// anything else.
func TestTheOperatorChoosesAnotherPlace(t *testing.T) {
	for _, c := range []struct {
		what  string
		set   func(o *Options, identity string)
		taken bool
	}{
		{"nothing", func(*Options, string) {}, false},
		{"another URL", func(o *Options, _ string) { o.URL = "s3://bucket/elsewhere" }, true},
		{"another option of the same URL", func(o *Options, _ string) { o.URL += "/?mode=0644" }, false},
		{"the identity that is lost", func(o *Options, id string) { o.Lost = id }, true},
		{"another identity", func(o *Options, id string) { o.Lost = strings.Repeat("0", len(id)) }, false},
		{"an unknown identity", func(o *Options, id string) { o.Lost = LostUnknown }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, m, opt := newHistory(), newMember(nil), memberDisk(t)
			m.log = h
			w := run(t, m, objstore.NewMemory(), opt)
			m.Lead(h.elect())
			h.add(5, 100)
			time.Sleep(3 * time.Second)
			identity := w.Status().Identity
			m.Stop()
			c.set(&opt, identity)
			place, again := objstore.NewMemory(), newMember(h)
			w = run(t, again, place, opt)
			again.Lead(h.elect())
			h.add(5, 100)
			time.Sleep(3 * time.Second)
			st := w.Status()
			if c.taken != (again.ArchivedIndex() == h.last()) || c.taken != (st.Away == "") || c.taken && st.Identity == identity {
				t.Errorf("%s: archived %d of %d, %+v", c.what, again.ArchivedIndex(), h.last(), st)
			}
			if c.taken && chain(t, place, h, roots(t, place)[0]) != h.last() {
				t.Errorf("%s: the new archive does not have the log", c.what)
			}
		})
	}
}

// TestAnIdentityGivenUpOnce does not let a third place in: --archive-lost may stay in the configuration. A takeover by a place is logged
// when it happens. A member that continues its archive, or finds one and remembers none, logs nothing.
func TestAnIdentityGivenUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, opt := newHistory(), memberDisk(t)
		lead := func(s objstore.Store, takesOver bool) *Worker {
			t.Helper()
			m, said := newMember(h), &lines{}
			opt.Logger = said.logger()
			w := run(t, m, s, opt)
			m.Lead(h.elect())
			time.Sleep(3 * time.Second)
			m.Stop()
			if strings.Contains(said.String(), "was given up") != takesOver {
				t.Errorf("that the place takes over has to be said: %v\n%s", takesOver, said)
			}
			return w
		}
		opt.Lost = lead(objstore.NewMemory(), false).Status().Identity
		second := objstore.NewMemory()
		if st := lead(second, true).Status(); st.Identity == opt.Lost || st.Identity == "" {
			t.Fatalf("%+v", st)
		}
		third := objstore.NewMemory()
		lead(third, false)
		if n := len(third.Objects()); n != 0 {
			t.Errorf("a third place has got %d objects", n)
		}
		if lead(second, false); len(roots(t, second)) != 1 {
			t.Errorf("snapshots at %v", roots(t, second))
		}
		other := memberDisk(t)
		opt.FS, opt.Dir = other.FS, other.Dir
		lead(second, false)
	})
}

// TestAnArchiveOfOldGetsItsIdentity at the first start of a build that knows identities, and keeps all that it had.
func TestAnArchiveOfOldGetsItsIdentity(t *testing.T) {
	for _, told := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h, s := newHistory(), objstore.NewMemory()
			first := newMember(h)
			run(t, first, s, Options{})
			first.Lead(h.elect())
			h.add(5, 100)
			time.Sleep(3 * time.Second)
			first.Stop()
			if err := s.Delete(t.Context(), IdentityName); err != nil {
				t.Fatal(err)
			}
			next, opt := newMember(h), memberDisk(t)
			if told {
				next.SetArchived(first.ArchivedIndex())
			}
			w := run(t, next, s, opt)
			next.Lead(h.elect())
			time.Sleep(3 * time.Second)
			id, err := objstore.Identity(t.Context(), s, IdentityName, false)
			if err != nil || id != w.Status().Identity || next.ArchivedIndex() != h.last() || len(roots(t, s)) != 1 {
				t.Errorf("%s %v, %+v, snapshots at %v", id, err, w.Status(), roots(t, s))
			}
			k, err := ReadKnown(opt.FS, opt.Dir)
			if err != nil || k.Identity != id || k.URL != "s3://bucket/place" {
				t.Errorf("it remembers %+v, %v", k, err)
			}
		})
	}
}

// TestAnEmptiedStoreGetsASnapshot: a place was emptied and then got spans, as a build without identities leaves it. It is no archive before
// a snapshot is in it. No restore could begin.
func TestAnEmptiedStoreGetsASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHistory(), objstore.NewMemory()
		m := newMember(h)
		run(t, m, s, Options{})
		m.Lead(h.elect())
		h.add(5, 100)
		time.Sleep(3 * time.Second)
		m.Stop()
		for name := range s.Objects() {
			if strings.Contains(name, "snapshot") || strings.Contains(name, "pieces") {
				if err := s.Delete(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
		}
		next := newMember(h)
		next.SetArchived(m.ArchivedIndex())
		run(t, next, s, Options{})
		next.Lead(h.elect())
		h.add(5, 100)
		time.Sleep(3 * time.Second)
		all := roots(t, s)
		if len(all) != 1 || next.ArchivedIndex() != h.last() || chain(t, s, h, all[0]) != h.last() {
			t.Errorf("snapshots at %v, archived %d of %d", all, next.ArchivedIndex(), h.last())
		}
	})
}

// TestTheLogStandsInForNoObject: a new leader has heard how far the archive was, and its newest spans are gone. It has the entries in its own
// log, and puts them.
func TestTheLogStandsInForNoObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHistory(), objstore.NewMemory()
		m := newMember(h)
		run(t, m, s, Options{})
		m.Lead(h.elect())
		for range 6 {
			time.Sleep(2 * time.Second)
			h.add(3, 100)
		}
		time.Sleep(2 * time.Second)
		m.Stop()
		at := m.ArchivedIndex()
		for _, first := range []uint64{at - 2, at - 5} {
			if err := s.Delete(t.Context(), format.SpanName(cluster, first)); err != nil {
				t.Fatal(err)
			}
		}
		next := newMember(h)
		next.SetArchived(at)
		run(t, next, s, Options{})
		next.Lead(h.elect())
		time.Sleep(3 * time.Second)
		if last := chain(t, s, h, roots(t, s)[0]); last != h.last() || len(roots(t, s)) != 1 {
			t.Errorf("the archive ends at %d of %d, snapshots at %v", last, h.last(), roots(t, s))
		}
	})
}

// TestAnIdentityThatIsNotRemembered acknowledges nothing: after a restart another place would be taken for new.
func TestAnIdentityThatIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, m, opt, said := newHistory(), newMember(nil), memberDisk(t), &lines{}
		m.log = h
		faulty := disk.NewFaulty(opt.FS)
		full := errors.New("no room")
		faulty.FailWrite(func(string) bool { return true }, full)
		opt.FS, opt.Logger = faulty, said.logger()
		run(t, m, objstore.NewMemory(), opt)
		m.Lead(h.elect())
		time.Sleep(time.Minute)
		if at := m.ArchivedIndex(); at != 0 || !strings.Contains(said.String(), "no room") {
			t.Errorf("archived %d\n%s", at, said)
		}
		faulty.FailWrite(nil, nil)
		time.Sleep(time.Minute)
		if at := m.ArchivedIndex(); at != h.last() {
			t.Errorf("archived %d of %d\n%s", at, h.last(), said)
		}
	})
}

// TestAFileOfAnotherFormIsRefused, and so is a damaged one: it is not taken for none.
func TestAFileOfAnotherFormIsRefused(t *testing.T) {
	for _, text := range []string{"", "{", `{"form":2}`, `{"form":"1"}`, "\x00\x00"} {
		opt := memberDisk(t)
		if err := opt.FS.WriteFileAtomic("data/"+KnownFile, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if k, err := ReadKnown(opt.FS, "data"); err == nil {
			t.Errorf("%q is read as %+v", text, k)
		}
		w := New(newMember(newHistory()), objstore.NewMemory(), opt)
		if st := w.Status(); !strings.Contains(st.Alarm, KnownFile) {
			t.Errorf("%q: %+v", text, st)
		}
	}
	k, err := ReadKnown(disk.NewMem(), "data")
	if err != nil || k != (Known{}) {
		t.Errorf("no file: %+v, %v", k, err)
	}
	var back Known
	opt := memberDisk(t)
	want := Known{Form: knownForm, URL: "s3://b", Identity: "1f", Archived: 7}
	if err := want.write(opt.FS, opt.Dir); err != nil {
		t.Fatal(err)
	}
	b, err := opt.FS.ReadFile("data/" + KnownFile)
	if err != nil || json.Unmarshal(b, &back) != nil || back != want {
		t.Errorf("%s %v", b, err)
	}
	golden.Check(t, "testdata/archive.json", string(b))
}
