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

// TestPreparedStatementsHaveWhatIsLent: statements have no more than the claim may have at the moment, and what is given back is there again.
func TestPreparedStatementsHaveWhatIsLent(t *testing.T) {
	t.Parallel()
	most := int64(2 * preparedStep)
	r := &preparedRoom{most: func() int64 { return most }}
	if !r.Draw(2*preparedStep-10) || r.Draw(11) || !r.Draw(10) || r.Draw(1) {
		t.Fatal("more was given than there is, or less")
	}
	r.Return(20)
	if r.Held() != most-20 || r.Draw(21) || !r.Draw(20) {
		t.Fatal("what was given back is not there, or more is")
	}
	most = 4 * preparedStep
	if !r.Draw(2 * preparedStep) {
		t.Fatal("what is lent meanwhile is not given")
	}
	most = preparedStep // another one has borrowed it: nothing is taken back, and nothing added
	if r.Return(preparedStep); r.Draw(2 * preparedStep) {
		t.Fatal("more is given than there is")
	}
}
