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

// TestADoorBringsItsClaim: a door has its part, and the least total grows by what it needs.
func TestADoorBringsItsClaim(t *testing.T) {
	toy := Claim{Name: "toy", Weight: 10, Floor: 8 * mib, Ceiling: 20 * mib}
	if least := Least(toy); least < Least()+8*mib {
		t.Errorf("the least total is %d MiB with it, %d without", least/mib, Least()/mib)
	}
	for total, want := range map[int64]int64{Least(toy): 8 * mib, 4 << 30: 20 * mib} {
		s, err := For(total, toy)
		if err != nil || s.Of("toy") < want || s.Of("toy") > want+mib || s.Held() > s.GoLimit {
			t.Errorf("%d MiB: it has %d, want %d; held %d of %d, %v", total/mib, s.Of("toy"), want, s.Held(), s.GoLimit, err)
		}
	}
}

func all(c Connections) int { return c.Doors + c.Peers + 2*c.Side }
