package machine

import (
	"encoding/binary"
	"hash/maphash"
)

// packedSlots holds the cache's keys between entries: a hash table of records that lie one behind the other in chunks. There is no pointer
// in all of it. The rejected design was a map of keys to slots. Over a million keys the garbage collector marked 2.5 million objects in
// every cycle. That was a quarter of the server's work under any load that leaves garbage, reads included. It forgets by the clock
// algorithm (Corbató 1968) in its form as a queue (second chance). The oldest chunk is given up, and its records that were used since they
// came move to the youngest. An LRU list was rejected, because it writes on every hit. Two generations were rejected as well: dropping the
// older one lost half of a working set of two thirds of the cache on each pass.
//
// Apply goroutine only.
type packedSlots struct {
	table      []uint64 // open addressing with linear probing, of tableEntry; 0 = free
	shift      int      // of a hash, to its first place in the table
	keys       int
	seed       maphash.Seed
	chunks     [][]byte // by number; nil = free
	free       []uint32 // numbers of chunks that are free
	order      []uint32 // numbers of the others, the oldest first; records are added to the last one
	spare      []byte   // memory of a chunk that was given up, for the next one
	chunkBytes int
	units      uint32 // of a chunk
}

// A record, all little endian: its whole size (4 bytes), length of the key (4), hash (4), 1 + number of the entry's slot for it (4; 0 =
// none). Then flags (1), length of the kept value (1), unused (2), sub (4), length of the value (4), unused (4). Then create, mod, version,
// lease (8 each), key, value. A value may be shorter than the room it has. Sizes are multiples of recordUnit.
const (
	recordSize    = 0
	recordKey     = 4
	recordHash    = 8
	recordSlot    = 12
	recordFlags   = 16
	recordKept    = 17
	recordSub     = 20
	recordValLen  = 24
	recordNumbers = 32
	recordHead    = 64
	recordUnit    = 8
)

const (
	recordUsed = 1 // since it came into its chunk
	recordDead = 2 // it is elsewhere now
)

// mostPacked is half of what places of 32 bits reach: an entry may go beyond its bound until it ends.
const mostPacked = 1 << 32 / 2 * recordUnit

// tableLeast is how many places an empty table has, a power of two.
const tableLeast = 64

func (p *packedSlots) reset(most int) {
	*p = packedSlots{seed: maphash.MakeSeed(), chunkBytes: min(max(most/16, 4<<10), 256<<10) &^ (recordUnit - 1)}
	p.units = uint32(p.chunkBytes / recordUnit)
	p.grow(tableLeast)
}

// bytes is what all of it takes.
func (p *packedSlots) bytes() int {
	return len(p.order)*p.chunkBytes + cap(p.spare) + 8*len(p.table)
}

// longest is the longest key that has room for a value in a record: one chunk is to have several of them.
func (p *packedSlots) longest() int { return p.chunkBytes/4 - recordHead - laterBytes }

func (p *packedSlots) hash(key []byte) uint32 { return uint32(maphash.Bytes(p.seed, key) >> 32) }

// tableEntry is the table's entry of a record: its hash, and its place.
func tableEntry(hash, at uint32) uint64 { return uint64(hash)<<32 | uint64(at) }

// record returns the record that is at so many units over all chunks, counted from 1.
func (p *packedSlots) record(at uint32) []byte {
	at--
	c := p.chunks[at/p.units][at%p.units*recordUnit:]
	return c[:binary.LittleEndian.Uint32(c)]
}

func recordKeyOf(r []byte) []byte {
	return r[recordHead : recordHead+binary.LittleEndian.Uint32(r[recordKey:])]
}

// find returns where the record of key is, 0 if there is none.
func (p *packedSlots) find(key []byte) (at uint32) {
	hash := p.hash(key)
	for i := int(hash >> p.shift); ; i++ {
		e := p.table[i&(len(p.table)-1)]
		if e == 0 {
			return 0
		}
		if uint32(e>>32) == hash && string(recordKeyOf(p.record(uint32(e)))) == string(key) {
			return uint32(e)
		}
	}
}

// place returns which place of the table the record has.
func (p *packedSlots) place(r []byte, at uint32) int {
	hash := binary.LittleEndian.Uint32(r[recordHash:])
	for i := int(hash >> p.shift); ; i++ {
		if i &= len(p.table) - 1; p.table[i] == tableEntry(hash, at) {
			return i
		}
	}
}

// add makes a record of a key that has none, with room for a value of n bytes. Its other fields are undefined until update.
func (p *packedSlots) add(key []byte, n int) (at uint32) {
	if p.keys++; 4*p.keys > 3*len(p.table) {
		p.grow(2 * len(p.table))
	}
	hash := p.hash(key)
	at = p.write(key, hash, n)
	p.insert(tableEntry(hash, at))
	return at
}

func (p *packedSlots) insert(e uint64) {
	for i := int(uint32(e>>32) >> p.shift); ; i++ {
		if i &= len(p.table) - 1; p.table[i] == 0 {
			p.table[i] = e
			return
		}
	}
}

// grow makes the table anew with n places. Places follow the upper bits of hashes, so that both tables are gone through in order: that takes milliseconds
// for a million keys.
func (p *packedSlots) grow(n int) {
	old := p.table
	p.table = make([]uint64, n)
	for p.shift = 32; n > 1; n /= 2 {
		p.shift--
	}
	for _, e := range old {
		if e != 0 {
			p.insert(e)
		}
	}
}

// remove empties a place of the table; those behind it that would not be found any more move up.
func (p *packedSlots) remove(i int) {
	p.keys--
	mask := len(p.table) - 1
	for j := i; ; {
		j = (j + 1) & mask
		e := p.table[j]
		if e == 0 {
			p.table[i] = 0
			return
		}
		if first := int(uint32(e>>32) >> p.shift); (j-first)&mask >= (j-i)&mask {
			p.table[i] = e
			i = j
		}
	}
}

// write begins a record in the youngest chunk.
func (p *packedSlots) write(key []byte, hash uint32, n int) (at uint32) {
	at, r := p.room((recordHead + len(key) + n + recordUnit - 1) &^ (recordUnit - 1))
	binary.LittleEndian.PutUint32(r[recordSize:], uint32(len(r)))
	binary.LittleEndian.PutUint32(r[recordKey:], uint32(len(key)))
	binary.LittleEndian.PutUint32(r[recordHash:], hash)
	clear(r[recordSlot:recordHead])
	copy(r[recordHead:], key)
	return at
}

// room returns n bytes behind the last record, and where they are.
func (p *packedSlots) room(n int) (at uint32, r []byte) {
	if len(p.order) == 0 || len(p.chunks[p.order[len(p.order)-1]])+n > p.chunkBytes {
		p.begin()
	}
	number := p.order[len(p.order)-1]
	c := p.chunks[number]
	from := len(c)
	c = c[:from+n]
	p.chunks[number] = c
	return number*p.units + uint32(from/recordUnit) + 1, c[from:]
}

// begin begins a chunk.
func (p *packedSlots) begin() {
	if len(p.free) == 0 {
		p.free = append(p.free, uint32(len(p.chunks)))
		p.chunks = append(p.chunks, nil)
	}
	number := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	c := p.spare
	if p.spare = nil; c == nil {
		c = make([]byte, 0, p.chunkBytes)
	}
	p.chunks[number] = c
	p.order = append(p.order, number)
}

// lend notes that the entry has a slot of the record, and that it was used.
func lend(r []byte, slot int32) {
	r[recordFlags] |= recordUsed
	binary.LittleEndian.PutUint32(r[recordSlot:], uint32(slot+1))
}

// lent returns the number of the slot that the entry has of the record, if it has one.
func lent(r []byte) (slot int, ok bool) {
	n := binary.LittleEndian.Uint32(r[recordSlot:])
	return int(n) - 1, n != 0
}

// load reads a record. The value aliases it.
func load(r []byte) (m meta, kept []byte) {
	m.sub, m.valLen = binary.LittleEndian.Uint32(r[recordSub:]), binary.LittleEndian.Uint32(r[recordValLen:])
	n := r[recordNumbers:recordHead]
	m.create, m.mod = int64(binary.LittleEndian.Uint64(n)), int64(binary.LittleEndian.Uint64(n[8:]))
	m.version, m.lease = int64(binary.LittleEndian.Uint64(n[16:])), int64(binary.LittleEndian.Uint64(n[24:]))
	kept = r[recordHead+binary.LittleEndian.Uint32(r[recordKey:]):]
	return m, kept[:r[recordKept]]
}

// update writes what is known now of the key whose record is at a place, and takes it back from the entry. kept has laterBytes at most.
func (p *packedSlots) update(at uint32, m *meta, kept []byte) {
	r := p.record(at)
	if key := recordKeyOf(r); len(r)-recordHead-len(key) < len(kept) {
		i, hash, used := p.place(r, at), binary.LittleEndian.Uint32(r[recordHash:]), r[recordFlags]
		r[recordFlags] |= recordDead
		at = p.write(key, hash, len(kept))
		p.table[i] = tableEntry(hash, at)
		r = p.record(at)
		r[recordFlags] = used
	}
	binary.LittleEndian.PutUint32(r[recordSlot:], 0)
	r[recordKept] = byte(len(kept))
	binary.LittleEndian.PutUint32(r[recordSub:], m.sub)
	binary.LittleEndian.PutUint32(r[recordValLen:], m.valLen)
	n := r[recordNumbers:recordHead]
	binary.LittleEndian.PutUint64(n, uint64(m.create))
	binary.LittleEndian.PutUint64(n[8:], uint64(m.mod))
	binary.LittleEndian.PutUint64(n[16:], uint64(m.version))
	binary.LittleEndian.PutUint64(n[24:], uint64(m.lease))
	copy(r[recordHead+binary.LittleEndian.Uint32(r[recordKey:]):], kept)
}

// forgetOne of so many bytes of a chunk is given up even if all its records were used. Otherwise one entry would wait while the whole queue
// goes round.
const forgetOne = 8

// forget gives up the oldest chunk. No slot of an entry has a record then.
func (p *packedSlots) forget() {
	number := p.order[0]
	p.order = p.order[1:]
	old := p.chunks[number]
	stay := p.chunkBytes - p.chunkBytes/forgetOne
	for at := number*p.units + 1; len(old) > 0; {
		r := old[:binary.LittleEndian.Uint32(old)]
		if r[recordFlags]&recordDead == 0 {
			i := p.place(r, at)
			if r[recordFlags]&recordUsed == 0 || len(r) > stay {
				p.remove(i)
			} else {
				stay -= len(r)
				to, anew := p.room(len(r))
				copy(anew, r)
				anew[recordFlags] &^= recordUsed
				p.table[i] = tableEntry(binary.LittleEndian.Uint32(r[recordHash:]), to)
			}
		}
		at += uint32(len(r) / recordUnit)
		old = old[len(r):]
	}
	p.spare = p.chunks[number][:0]
	p.chunks[number] = nil
	p.free = append(p.free, number)
}
