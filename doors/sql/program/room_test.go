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

// TestAPacketFitsIntoTheRoom: clients are not told of more than there is memory for, nor of more than MySQL's own default.
func TestAPacketFitsIntoTheRoom(t *testing.T) {
	t.Parallel()
	for room, want := range map[int64]int{8 << 20: 8 << 20, 8<<20 + 1500: 8<<20 + 1024, 64 << 20: 64 << 20, 1 << 30: 64 << 20} {
		if got := maxPacket(room); got != want {
			t.Errorf("%d bytes of room: packets of %d, want %d", room, got, want)
		}
	}
}
