package budget

import "testing"

// TestConnectionsLeaveFiles: however many connections strangers open, the log and the store can open their files.
func TestConnectionsLeaveFiles(t *testing.T) {
	for files := 256; files <= 1<<20; files += files / 5 {
		for total := int64(64 * mib); total <= 64<<30; total *= 4 {
			c := ConnectionsOf(total, files)
			if n := all(c); files-n < min(ownFiles, files/2) || int64(n)*perConnection > total {
				t.Errorf("%d connections of %d files and %d MiB", n, files, total/mib)
			}
			if c.Doors < all(c)/2 {
				t.Errorf("%d files: %+v", files, c)
			}
		}
	}
}

// TestADoorBringsItsClaim: a door that this package does not know has its part, and the least total grows by what it needs.
func TestADoorBringsItsClaim(t *testing.T) {
	on := All
	on.More = []Claim{{Name: "toy", Weight: 10, Floor: 8 * mib, Ceiling: 20 * mib}}
	if least := Least(on); least < Least(All)+8*mib {
		t.Errorf("the least total is %d MiB with it, %d without", least/mib, Least(All)/mib)
	}
	for total, want := range map[int64]int64{Least(on): 8 * mib, 4 << 30: 20 * mib} {
		s, err := For(total, on)
		if err != nil || s.More["toy"] < want || s.More["toy"] > want+mib || s.Held() > s.GoLimit {
			t.Errorf("%d MiB: it has %d, want %d; held %d of %d, %v", total/mib, s.More["toy"], want, s.Held(), s.GoLimit, err)
		}
	}
}

func all(c Connections) int { return c.Doors + c.Peers + 2*c.Side }

// TestSharesFit: what all hold together fits into what Go may have, at every size that is accepted, whichever doors are on.
func TestSharesFit(t *testing.T) {
	for _, on := range []Doors{{}, {KV: true}, {Tlog: true}, All} {
		least := Least(on)
		if _, err := For(least-mib, on); err == nil {
			t.Errorf("%+v: %d MiB are accepted", on, least/mib-1)
		}
		for total := least; total <= 64<<30; total += total / 50 {
			s, err := For(total, on)
			if err != nil {
				t.Fatalf("%+v: %d MiB: %v", on, total/mib, err)
			}
			if s.GoLimit+program >= total {
				t.Errorf("%+v, %d MiB: Go may have %d", on, total/mib, s.GoLimit/mib)
			}
			if bar := s.GoLimit; s.Held() > bar {
				t.Errorf("%+v, %d MiB: %d MiB held, bar %d", on, total/mib, s.Held()/mib, bar/mib)
			}
			if s.Cache < 3*s.Memtable {
				t.Errorf("%+v, %d MiB: three memtables of %d MiB do not fit into %d", on, total/mib, s.Memtable/mib, s.Cache/mib)
			}
		}
	}
}

// TestADoorThatIsOffGivesItsShareBack: the others have more without it, and it has what its machines need on a member that only follows.
func TestADoorThatIsOffGivesItsShareBack(t *testing.T) {
	all, alone := divide(256*mib, All), divide(256*mib, Doors{Tlog: true})
	if alone.Keys != 2*mib || alone.Calls != 0 || alone.Answers != 0 || alone.Cache <= all.Cache || alone.Trees <= all.Trees {
		t.Errorf("with kv %+v, without %+v", all, alone)
	}
	if Least(Doors{Tlog: true}) >= Least(All) {
		t.Error("a server without kv needs as much as one with it")
	}
}
