package pace

import (
	"os/exec"
	"testing"
	"time"
)

func TestParseBusy(t *testing.T) {
	const stat = "cpu  100 1000 20 5000 7 3 4 5 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 8 0 0\nintr 5 1 2 3 4 5 6 7 8 9\n"
	if busy, cpus := parseBusy(stat); busy != 1320*time.Millisecond || cpus != 2 {
		t.Errorf("%v on %d processors", busy, cpus)
	}
	for _, bad := range []string{"", "cpu 1 2 x 4 5 6 7 8 9\n"} {
		if busy, cpus := parseBusy(bad); busy != 0 || cpus != 0 {
			t.Errorf("%q: %v on %d processors", bad, busy, cpus)
		}
	}
}

// TestOwnWorkIsNotOthers: what a child has used counts as this process's, and what another process uses does not.
func TestOwnWorkIsNotOthers(t *testing.T) {
	const burn = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"
	before := ownTime()
	if err := exec.Command("sh", "-c", burn).Run(); err != nil {
		t.Fatal(err)
	}
	if got := ownTime() - before; got < 50*time.Millisecond {
		t.Errorf("a child's work counts as %v", got)
	}
	m := Watch()
	m.own += time.Duration(m.cpus) * time.Hour // others had all of it
	if m.cpus > 0 && !m.Crowded() {
		t.Errorf("others had %.2f", m.Others())
	}
	m.own -= 2 * time.Duration(m.cpus) * time.Hour
	if m.Crowded() {
		t.Errorf("others had %.2f", m.Others())
	}
}
