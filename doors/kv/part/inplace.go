package part

import (
	"encoding/binary"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// Seal is Append into memory of its own, with room for n bytes.
func Seal(p *Part, n int) []byte { return Append(wire.Room(n), p) }

// putBehind is how much room a put takes behind its value.
const putBehind = 8

// RoomForPut returns undefined memory for a client's message of n bytes, with enough around it for PutInPlace to make the put there.
func RoomForPut(n int) (buf, message []byte) {
	front := 3 + wire.UvarintLen(uint64(n)) // the message has a key's and a value's length in front of the value too, if not in as many bytes
	buf = wire.Room(front + n + putBehind)[:front+n]
	return buf, buf[front:]
}

// PutInPlace is Append for a Part that is a put whose value lies in buf. The value stays in its place, and the rest is written around it.
// That needs room, and a capacity of the value up to that of buf, which shows its place. Other fields of p that lie in buf are overwritten.
// The result may lie in buf.
func PutInPlace(buf []byte, p *Put) []byte {
	from := cap(buf) - cap(p.Value)
	to := from + len(p.Value)
	const longKey = 256 // longer ones are not worth a copy of a key that is in the way
	head := 2 + wire.UvarintLen(uint64(len(p.Key))) + len(p.Key) + wire.UvarintLen(uint64(len(p.Value)))
	if len(p.Value) == 0 || len(p.Key) > longKey || from < head || cap(buf)-to < putBehind || &buf[:cap(buf)][from] != &p.Value[0] {
		return Append(wire.Room(head+len(p.Value)+putBehind), &Part{Put: p})
	}
	var aside [2 + longKey + 2*binary.MaxVarintLen64 + putBehind]byte
	short := *p
	short.Value = nil
	all := appendPut(append(aside[:0], kindPut), &short) // with a length of 0, of one byte, in the value's place
	keyEnd := 2 + wire.UvarintLen(uint64(len(p.Key))) + len(p.Key)
	copy(buf[from-head:], all[:keyEnd])
	binary.PutUvarint(buf[from-head+keyEnd:from], uint64(len(p.Value)))
	return append(buf[from-head:to], all[keyEnd+1:]...)
}
