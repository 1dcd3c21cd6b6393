package program

import "testing"

// TestPacketsHaveTheRoomThatIsLeft: what one client holds is not there for another, and comes back.
func TestPacketsHaveTheRoomThatIsLeft(t *testing.T) {
	t.Parallel()
	r := newRoom(100)
	if !r.Draw(60) || r.Draw(41) || !r.Draw(40) || r.Draw(1) {
		t.Fatal("more than the room was given, or less")
	}
	r.Return(60)
	if r.Draw(61) || !r.Draw(60) {
		t.Fatal("what was returned is not there, or more is")
	}
}
