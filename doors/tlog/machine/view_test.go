package machine

import "testing"

// TestSizeInAView: a View shows the size of its moment, after any later entry.
func TestSizeInAView(t *testing.T) {
	r := newRig(t)
	r.create("other", false, false)
	l, _ := r.create("plain", false, false)
	v := r.Store.NewView()
	defer v.Close()
	r.add(l, texts(0, 300)...)
	for name, want := range map[string]uint64{"plain": 300, "other": 0} {
		if got, ok, err := ReadSize(r.Store, name); got != want || !ok || err != nil {
			t.Errorf("%s has %d, %v, %v, want %d", name, got, ok, err, want)
		}
	}
	if got, ok, err := ReadSize(v, "plain"); got != 0 || !ok || err != nil {
		t.Errorf("in the View of before: %d, %v, %v", got, ok, err)
	}
	if _, ok, err := ReadSize(r.Store, "none"); ok || err != nil {
		t.Errorf("a log that is not there: %v, %v", ok, err)
	}
}
