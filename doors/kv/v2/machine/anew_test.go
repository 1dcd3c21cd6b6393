package machine

import "testing"

// TestTimeGivenAnewInTheSameEntry: an expiry goes by its entry's own change of a node, not by the store's row.
func TestTimeGivenAnewInTheSameEntry(t *testing.T) {
	r := newRig(t)
	r.say("set /k=1 ttl=1")
	r.Tick += 2000
	res := r.apply(parse(t, "set /k=2 ttl=60"), parse(t, "expire"))
	if got := show(res[1]); got != "0" {
		t.Errorf("expired %s", got)
	}
	if got, want := r.tree("/"), "// 0,0\n  /k=2 5,5 ttl=60\n"; got != want {
		t.Errorf("left:\n%swant:\n%s", got, want)
	}
}
