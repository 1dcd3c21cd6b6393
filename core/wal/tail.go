package wal

// tail keeps the newest entries in memory: those are the ones asked for, and so committed entries are applied and sent
// without touching the disk. Guarded by Log.mu.
type tail struct {
	entries []Entry // consecutive; entries[:head] are dropped
	head    int
	bytes   int64
	keep    [2]uint64 // first indexes of the last two batches, older first: never dropped
}

// entryOverhead is counted for each entry besides its data, in the cache and against Entries' maxBytes.
const entryOverhead = 48

func cost(e *Entry) int64 { return int64(len(e.Data)) + entryOverhead }

// first is the first index kept; ok is false if none is.
func (t *tail) first() (index uint64, ok bool) {
	if t.head == len(t.entries) {
		return 0, false
	}
	return t.entries[t.head].Index, true
}

func (t *tail) reset() { *t = tail{entries: clearEntries(t.entries, 0)[:0]} }

// add appends a batch, dropping what it overwrites and then the oldest entries beyond limit bytes.
func (t *tail) add(batch []Entry, limit int64) {
	if len(batch) == 0 {
		return
	}
	first := batch[0].Index
	for len(t.entries) > t.head && t.entries[len(t.entries)-1].Index >= first {
		e := &t.entries[len(t.entries)-1]
		t.bytes -= cost(e)
		*e = Entry{}
		t.entries = t.entries[:len(t.entries)-1]
	}
	for i := range batch {
		t.bytes += cost(&batch[i])
	}
	t.entries = append(t.entries, batch...)
	t.keep = [2]uint64{min(t.keep[1], first), first}
	for t.bytes > limit && t.entries[t.head].Index < t.keep[0] {
		t.dropOldest()
	}
	t.compact()
}

// dropTo forgets entries up to index.
func (t *tail) dropTo(index uint64) {
	for t.head < len(t.entries) && t.entries[t.head].Index <= index {
		t.dropOldest()
	}
	t.compact()
}

// rest drops all but the batches that are always kept.
func (t *tail) rest() {
	for t.head < len(t.entries) && t.entries[t.head].Index < t.keep[0] {
		t.dropOldest()
	}
	t.entries, t.head = append([]Entry(nil), t.entries[t.head:]...), 0
}

func (t *tail) dropOldest() {
	t.bytes -= cost(&t.entries[t.head])
	t.entries[t.head] = Entry{}
	t.head++
}

// compact moves the entries down once most of the slice is dead, so that it is moved rarely and stays small.
func (t *tail) compact() {
	if t.head < 64 || t.head < len(t.entries)-t.head {
		return
	}
	n := copy(t.entries, t.entries[t.head:])
	t.entries, t.head = clearEntries(t.entries, n), 0
}

func clearEntries(e []Entry, from int) []Entry {
	clear(e[from:])
	return e[:from]
}

// slice appends entries from lo on, below hi, to dst until max is spent; at least one. Entry lo must be kept.
func (t *tail) slice(dst []Entry, lo, hi uint64, spent, max int64) ([]Entry, int64) {
	from := t.head + int(lo-t.entries[t.head].Index)
	to := min(from+int(hi-lo), len(t.entries))
	n := from
	for n < to {
		c := cost(&t.entries[n])
		if spent+c > max && (n > from || len(dst) > 0) {
			break
		}
		spent += c
		n++
	}
	return append(dst, t.entries[from:n]...), spent
}
