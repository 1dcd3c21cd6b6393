package machine

import "github.com/holdfastdb/holdfast/core/store"

// writeRows writes the rows of the entry's writes into its batch. History gets the versions that puts and deletes replaced, and values too
// large to wait for that (laterBytes). Each change gets a row by revision. The current row and the attachment to a lease are written once
// per key, as the entry leaves it. It goes space by space, because the store places a row quickly next to its predecessor. Key by key cost
// three members a sixteenth more CPU a put.
func (m *Machine) writeRows(b store.Batch) {
	writes := m.entry.writes
	m.makeRoom(b)
	for i := range writes {
		w := &writes[i]
		if w.old.later() {
			value := w.slot.kept
			if w.prev != 0 {
				value = writes[w.prev-1].value
			}
			m.writeVersion(b, w.slot.key, &w.old, value)
		}
		if !w.new.later() {
			m.writeVersion(b, w.slot.key, &w.new, w.value)
		}
	}
	for i := range writes {
		w := &writes[i]
		m.key = appendByRevKey(m.key[:0], w.new.mod, w.new.sub)
		m.row = appendChange(m.row[:0], !w.new.exists(), &w.old, w.slot.key)
		b.Set(m.key, m.row)
	}
	for i := range writes {
		w := &writes[i]
		m.count(w)
		if int(w.slot.last) == i+1 {
			m.writeCurrent(b, w)
		}
	}
}

// makeRoom sizes the batch of one command that deletes very many keys. A batch of 50 MB that grew by doubling left twice that as garbage.
// The process has a budget of only a few times as much. So did a batch of a mebibyte of large values, on each entry.
func (m *Machine) makeRoom(b store.Batch) {
	const many, large = 1024, 16 << 10
	if len(m.entry.writes) < many && m.entry.valueBytes() < large {
		return
	}
	b.Grow(m.rowBytes())
}

// rowBytes is an upper bound on the batch bytes of the entry's rows, including the rows written once per entry.
func (m *Machine) rowBytes() int {
	// Bytes of rows beside key and value: of a deletion in history, a change, a current row, and a version in history and current.
	const gone, change, delete, version, current = 24, 40, 8, 48, 48
	const counters = 256
	size := counters
	for i := range m.entry.writes {
		w := &m.entry.writes[i]
		key := len(w.slot.key)
		size += change + key
		if w.new.exists() {
			size += version + current + 2*key + len(w.value)
			if len(w.value) <= inlineBytes {
				size += len(w.value) // in the current row, and in history once it is replaced
			}
		} else {
			size += gone + delete + 2*key
		}
		if w.old.lease != 0 {
			size += delete + 8 + key
		}
		if w.old.later() {
			size += version + key + int(w.old.valLen)
		}
	}
	return size
}

// writeVersion writes one version, or a deletion, into history.
func (m *Machine) writeVersion(b store.Batch, key []byte, mt *meta, value []byte) {
	m.key = appendHistoryKey(m.key[:0], key, mt.mod, mt.sub)
	if !mt.exists() {
		value = nil
	}
	m.row = appendHistoryRow(m.row[:0], mt, nil)
	b.SetJoined(m.key, m.row, value)
}

// count keeps the running numbers.
func (m *Machine) count(w *write) {
	key := int64(len(w.slot.key))
	m.now.history += key
	if w.new.exists() {
		m.now.history += int64(w.new.valLen)
		m.now.inUse += key + int64(w.new.valLen)
		m.now.keys++
	}
	if w.old.exists() {
		m.now.inUse -= key + int64(w.old.valLen)
		m.now.keys--
	}
}

// writeCurrent writes a key's current row as the entry leaves it; w is its newest write.
func (m *Machine) writeCurrent(b store.Batch, w *write) {
	first := w
	for first.prev != 0 {
		first = &m.entry.writes[first.prev-1]
	}
	stored, key := &first.old, w.slot.key
	if was, is := stored.exists(), w.new.exists(); is && !was {
		m.gather(key, 1)
	} else if was && !is {
		m.gather(key, -1)
	}
	m.key = append(append(m.key[:0], letter, spaceCurrent), key...)
	switch {
	case w.new.exists():
		m.row = appendCurrentRow(m.row[:0], &w.new, w.value)
		b.Set(m.key, m.row)
		if !stored.exists() {
			m.filter.add(key)
		}
	case stored.exists():
		b.Delete(m.key)
	}
	m.cache.keep(w.slot, &w.new, w.value)
	if stored.exists() {
		n := len(key) + 16
		if stored.valLen <= inlineBytes {
			n += int(stored.valLen)
		}
		b.Overwrote(n)
	}
	if stored.lease != w.new.lease {
		if stored.lease != 0 {
			m.key = appendAttachKey(m.key[:0], stored.lease, key)
			b.Delete(m.key)
		}
		if w.new.lease != 0 {
			m.key = appendAttachKey(m.key[:0], w.new.lease, key)
			b.Set(m.key, nil)
		}
	}
}
