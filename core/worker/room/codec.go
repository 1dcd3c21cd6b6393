package room

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// mostMembers and mostClaims bound the accepted lengths of a table, leastMember and leastClaim are the bytes of one at least.
const (
	mostMembers, leastMember = 64, 10
	mostClaims, leastClaim   = 64, 2
)

// appendRoom appends a room: loan, number of claims, and of each its name and share; numbers are uvarints.
func appendRoom(b []byte, r budget.Room) []byte {
	b = binary.AppendUvarint(b, uint64(r.Loan))
	b = binary.AppendUvarint(b, uint64(len(r.Own)))
	for _, o := range r.Own {
		b = wire.AppendBytes(b, o.Claim)
		b = binary.AppendUvarint(b, uint64(o.Bytes))
	}
	return b
}

func readRoom(r *wire.Reader) (room budget.Room) {
	room.Loan = bytesOf(r)
	for range r.Count(mostClaims, leastClaim) {
		o := budget.Own{Claim: r.Text()}
		o.Bytes = bytesOf(r)
		room.Own = append(room.Own, o)
	}
	return room
}

// mostBytes is more than any member has: sums of such numbers do not overflow.
const mostBytes = 1 << 56

func bytesOf(r *wire.Reader) int64 {
	n := r.Uvarint()
	if n > mostBytes {
		r.Fail(errMalformed)
		return 0
	}
	return int64(n)
}

// appendTable appends what is known of each member: their number, and of each id (8 bytes) and room.
func appendTable(b []byte, rooms map[uint64]budget.Room) []byte {
	b = binary.AppendUvarint(b, uint64(len(rooms)))
	for _, id := range slices.Sorted(maps.Keys(rooms)) {
		b = binary.LittleEndian.AppendUint64(b, id)
		b = appendRoom(b, rooms[id])
	}
	return b
}

func decodeTable(b []byte) (map[uint64]budget.Room, error) {
	r := wire.NewReader(b)
	rooms := map[uint64]budget.Room{}
	for range r.Count(mostMembers, leastMember) {
		id := r.Uint64()
		rooms[id] = readRoom(&r)
	}
	if r.End() != nil {
		return nil, errMalformed
	}
	return rooms, nil
}
