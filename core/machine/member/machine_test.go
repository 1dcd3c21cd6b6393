package member

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/store"
)

// rig applies parts one entry at a time, as machine.Applier does.
type rig struct {
	t  *testing.T
	st *store.Mem
	m  *Machine
}

func newRig(t *testing.T, members ...emember.Member) *rig {
	t.Helper()
	r := &rig{t: t, st: store.NewMem(), m: New()}
	b := r.st.NewBatch()
	Bootstrap(b, members)
	if err := r.st.Commit(b, 1); err != nil {
		t.Fatal(err)
	}
	if err := r.m.Load(r.st, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// apply puts parts into one entry and returns what each was answered: 0 for accepted.
func (r *rig) apply(parts ...emember.Part) (codes []entry.Code) {
	r.t.Helper()
	b := r.st.NewBatch()
	index := r.st.Applied() + 1
	for i := range parts {
		st := &entry.Stamp{Pos: entry.Position{Index: index, N: uint32(i)}}
		plan, rej, err := r.m.Check(st, emember.AppendPart(nil, &parts[i]))
		if err != nil {
			r.t.Fatal(err)
		}
		if rej != nil {
			codes = append(codes, rej.Code)
			continue
		}
		if _, err := r.m.Do(st, plan, b, true); err != nil {
			r.t.Fatal(err)
		}
		codes = append(codes, 0)
	}
	if err := r.st.Commit(b, index); err != nil {
		r.t.Fatal(err)
	}
	r.m.Publish(nil)
	return codes
}

func (r *rig) want(codes ...entry.Code) func(got []entry.Code) {
	return func(got []entry.Code) {
		r.t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(codes) {
			r.t.Errorf("answered %v, want %v", got, codes)
		}
	}
}

func voter(id uint64) emember.Member {
	return emember.Member{ID: id, Name: fmt.Sprintf("n%d", id), PeerURLs: []string{fmt.Sprintf("http://10.0.0.%d:2380", id)}}
}

func add(m emember.Member) emember.Part { return emember.Part{Add: &emember.Add{Member: m}} }
func remove(id uint64) emember.Part     { return emember.Part{Remove: &emember.Remove{ID: id}} }
func promote(id uint64) emember.Part    { return emember.Part{Promote: &emember.Promote{ID: id}} }
func claim(id, n uint64) emember.Part   { return emember.Part{Claim: &emember.Claim{ID: id, Nonce: n}} }
func move(id uint64, url string) emember.Part {
	return emember.Part{SetPeers: &emember.SetPeers{ID: id, PeerURLs: []string{url}}}
}
func publish(id uint64, name string) emember.Part {
	return emember.Part{Publish: &emember.Publish{ID: id, Name: name}}
}

func TestWhatIsRejected(t *testing.T) {
	r := newRig(t, voter(1), voter(2))
	fresh := emember.Member{ID: 3, PeerURLs: []string{"http://10.0.0.3:2380"}, Learner: true}
	r.want(emember.Exists)(r.apply(add(voter(1))))
	taken := fresh
	taken.PeerURLs = []string{"http://other:2380", "http://10.0.0.2:2380"}
	r.want(emember.PeerURLExists)(r.apply(add(taken)))
	r.want(emember.NotFound, emember.NotFound, emember.NotFound, emember.NotFound, emember.NotFound)(
		r.apply(remove(9), promote(9), publish(9, "x"), claim(9, 1), move(9, "u")))
	r.want(emember.NotLearner)(r.apply(promote(1)))
	r.want(emember.PeerURLExists)(r.apply(move(1, "http://10.0.0.2:2380")))
	r.want(0)(r.apply(move(1, "http://10.0.0.1:2380"))) // its own address is no other's
	r.want(emember.Claimed)(r.apply(claim(1, 5)))       // it has a name, so it has been started

	r.want(0)(r.apply(add(fresh)))
	r.want(0)(r.apply(claim(3, 5)))
	r.want(0)(r.apply(claim(3, 5))) // the same process asks again
	r.want(emember.Claimed)(r.apply(claim(3, 6)))
	r.want(0)(r.apply(publish(3, "n3")))
	r.want(0)(r.apply(promote(3)))
	r.want(emember.NotLearner)(r.apply(promote(3)))
	r.want(0)(r.apply(remove(3)))
	r.want(emember.NotFound)(r.apply(remove(3)))
	r.want(emember.WasRemoved)(r.apply(add(fresh))) // ids are for all time
	fresh.ID = 4
	r.want(0)(r.apply(add(fresh))) // the address is free again
	r.want(0)(r.apply(remove(2)))
	r.want(emember.LastVoter)(r.apply(remove(1))) // 4 is a learner
	r.want(0)(r.apply(promote(4)))
	r.want(0)(r.apply(remove(1)))
}

// Later commands of an entry see what earlier ones did; readers see the entry as a whole.
func TestCommandsOfOneEntry(t *testing.T) {
	r := newRig(t, voter(1), voter(2), voter(3))
	l := emember.Member{ID: 4, PeerURLs: []string{"http://10.0.0.4:2380"}, Learner: true}
	twin := l
	twin.ID = 5
	r.want(0, emember.PeerURLExists, 0, emember.NotLearner, 0, emember.NotFound, emember.NotFound)(
		r.apply(add(l), add(twin), promote(4), promote(4), remove(4), remove(4), publish(4, "x")))
	r.want(0, 0, emember.LastVoter)(r.apply(remove(1), remove(2), remove(3)))
	if got := r.m.List(); len(got) != 1 || got[0].ID != 3 {
		t.Errorf("left: %+v", got)
	}
	if !r.m.Removed(1) || !r.m.Removed(4) || r.m.Removed(3) || r.m.Removed(5) {
		t.Error("who was removed is not who was removed")
	}
}

// A removal in an entry and the return of the id in the same entry: it was used up the moment it was removed.
func TestIDIsUsedUpAtOnce(t *testing.T) {
	r := newRig(t, voter(1), voter(2))
	r.want(0, emember.WasRemoved)(r.apply(remove(2), add(voter(2))))
}

// A restart loads exactly the state in memory.
func TestLoad(t *testing.T) {
	r := newRig(t, voter(1), voter(2))
	l := emember.Member{ID: 4, PeerURLs: []string{"http://10.0.0.4:2380"}, Learner: true, AutoPromote: true}
	r.apply(add(l), claim(4, 77), publish(4, "n4"))
	r.apply(remove(2))
	again := New()
	if err := again.Load(r.st, nil); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.List(), r.m.List()) || !again.Removed(2) {
		t.Fatalf("loaded %+v, had %+v", again.List(), r.m.List())
	}
	if m, ok := again.Get(4); !ok || m.Nonce != 77 || m.Name != "n4" || !m.Learner || !m.AutoPromote {
		t.Errorf("member 4: %+v", m)
	}
	r.apply(promote(4))
	if m, _ := r.m.Get(4); m.Learner || m.AutoPromote {
		t.Errorf("promoted: %+v", m)
	}
}

// The node asks once per entry whether a membership change was carried out.
func TestTakeAccepted(t *testing.T) {
	r := newRig(t, voter(1), voter(2))
	r.apply(publish(1, "n1"))
	if r.m.TakeAccepted() {
		t.Error("a new name is no membership change")
	}
	r.apply(remove(9))
	if r.m.TakeAccepted() {
		t.Error("a rejected change was carried out")
	}
	r.apply(remove(2))
	if !r.m.TakeAccepted() || r.m.TakeAccepted() {
		t.Error("a change is taken once")
	}
}

// Anything but a part of this machine's own making stops the node.
func TestMalformedIsFatal(t *testing.T) {
	r := newRig(t, voter(1))
	for _, b := range [][]byte{nil, {0}, {99}, {2, 1}} {
		if _, rej, err := r.m.Check(&entry.Stamp{}, b); err == nil || rej != nil {
			t.Errorf("%x: %v, %v", b, rej, err)
		}
	}
	b := r.st.NewBatch()
	b.Set([]byte("mx12345678"), nil)
	b.Set([]byte("m"), nil)
	if err := r.st.Commit(b, 2); err != nil {
		t.Fatal(err)
	}
	if err := New().Load(r.st, nil); err == nil {
		t.Error("a key that no build writes was loaded")
	}
}

func raise(level uint16, members ...uint64) emember.Part {
	return emember.Part{RaiseLevel: &emember.RaiseLevel{Level: level, Members: members}}
}

// The cluster's level goes up once, when every member that there is at that place of the log has said that it knows it.
func TestLevelIsRaisedOnceEveryMemberKnowsIt(t *testing.T) {
	r := newRig(t, voter(1), voter(2))
	if got := r.apply(raise(1, 1)); got[0] != emember.LevelUnknown || r.m.Level() != 0 {
		t.Fatalf("without a word of member 2: code %d, level %d", got[0], r.m.Level())
	}
	// A member that is added before it counts, in the same entry too.
	learner := emember.Member{ID: 4, PeerURLs: []string{"http://10.0.0.4:2380"}, Learner: true}
	if got := r.apply(add(learner), raise(1, 1, 2)); got[0] != 0 || got[1] != emember.LevelUnknown {
		t.Fatalf("beside a new learner: codes %d", got)
	}
	if got := r.apply(raise(2, 1, 2, 4), raise(2, 1, 2, 4), raise(1, 1, 2, 4)); got[0] != 0 || got[1] != emember.LevelReached || got[2] != emember.LevelReached {
		t.Fatalf("raised twice: codes %d", got)
	}
	again := New()
	if err := again.Load(r.st, nil); err != nil || again.Level() != 2 || r.m.Level() != 2 {
		t.Fatalf("level %d, after a restart %d, %v", r.m.Level(), again.Level(), err)
	}
	if got := DescribeRow(levelKey, appendLevel(nil, 2)); got != "level 2" {
		t.Error(got)
	}
}
