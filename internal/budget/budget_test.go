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

func all(c Connections) int { return c.Doors + c.Peers + 2*c.Side }

// TestSharesFit: what all hold together leaves the collector room, at every size somebody may choose.
func TestSharesFit(t *testing.T) {
	for total := int64(128 * mib); total <= 64<<30; total += total / 7 {
		s := Of(total)
		if s.GoLimit+program >= total {
			t.Errorf("%d MiB: Go may have %d", total/mib, s.GoLimit/mib)
		}
		if bar := s.GoLimit * 7 / 8; s.Held() > bar && total >= 256*mib {
			t.Errorf("%d MiB: %d MiB held, bar %d", total/mib, s.Held()/mib, bar/mib)
		}
	}
}
