package budget

import "testing"

// TestSharesFit: what all hold together leaves the collector room, at every size somebody may choose.
func TestSharesFit(t *testing.T) {
	for total := int64(128 * mib); total <= 64<<30; total += total / 7 {
		s := Of(total)
		if s.GoLimit+program >= total {
			t.Errorf("%d MiB: Go may have %d", total/mib, s.GoLimit/mib)
		}
		if bar := s.GoLimit * 3 / 4; s.Held() > bar && total >= 256*mib {
			t.Errorf("%d MiB: %d MiB held, bar %d", total/mib, s.Held()/mib, bar/mib)
		}
	}
}
