package sim

import (
	"encoding/binary"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
)

// nameCount is so small that most names are there already.
const nameCount = 40

// userBook is what clients know of users.
type userBook struct {
	all  map[userKey]*user // every one that may have been inserted
	live [nameCount]*user  // that were acknowledged
}

// userKey names a user for good: its value of AUTO_INCREMENT may be used again by a client that chooses one.
type userKey struct {
	id uint64
	by int // the transaction that has inserted it
}

// user is a row of users.
type user struct {
	userKey
	name   int
	chosen bool // the client has chosen the id

	at      time.Duration // when it was acknowledged
	leaving bool          // a transaction that removes it may have taken effect
	left    time.Duration // when that was acknowledged; 0: it was not
}

// A row of users is by (4 bytes), name (4), chosen (1). An entry of its index is id (8), by (4).
func (u *user) row() []byte {
	value := append(number(u.by), number(u.name)...)
	if u.chosen {
		return append(value, 1)
	}
	return append(value, 0)
}

func (u *user) entry() []byte { return append(idKey(u.id), number(u.by)...) }

func userOf(id uint64, row []byte) *user {
	by, name := binary.BigEndian.Uint32(row), binary.BigEndian.Uint32(row[4:])
	return &user{userKey: userKey{id, int(by)}, name: int(name), chosen: row[8] == 1}
}

func keyOf(entry []byte) userKey {
	return userKey{binary.BigEndian.Uint64(entry), int(binary.BigEndian.Uint32(entry[8:]))}
}

func idKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

// insert inserts a user, unless there is one of its name.
func (t *transaction) insert() error {
	r := t.b.r
	u := &user{name: r.IntN(nameCount), chosen: r.IntN(4) == 0}
	u.by = t.n
	entry, err := t.lock(users, byName, number(u.name), lock.Exclusive)
	if err != nil {
		return err
	}
	if entry.exists {
		t.b.w.Count(Duplicates, 1)
		t.present(u.name, keyOf(entry.value))
		return nil
	}
	if u.chosen {
		u.id = entry.table.NextAuto() + r.Uint64N(5)
		t.x.SetNextAuto(entry.table.ID, u.id+1)
	} else {
		n := 1 + r.Uint64N(3)
		if u.id, err = t.x.NextAuto(entry.table.ID, n); err != nil {
			return err
		}
		for i := range n {
			t.given = append(t.given, u.id+i)
		}
		u.id += r.Uint64N(n)
		t.b.w.Count(Given, int(n))
	}
	row, err := t.lock(users, 0, idKey(u.id), lock.Exclusive)
	if err != nil {
		return err
	}
	if row.exists {
		if was := userOf(u.id, row.value); !u.chosen && !was.chosen {
			t.claim(func() {
				t.b.w.Fail(GivenTwice, "%s: %s was given %d, and transaction %d was before", t.h.Name(), t, u.id, was.by)
			})
		}
		return errTakenBack
	}
	t.inserted = append(t.inserted, u)
	if err := row.put(u.row()); err != nil {
		return err
	}
	return entry.put(u.entry())
}

// present claims that there is a user of a name.
func (t *transaction) present(name int, key userKey) {
	if key.by == t.n {
		return
	}
	t.claim(func() {
		u := t.b.users.all[key]
		switch {
		case u == nil || u.name != name:
			t.b.w.Fail(CommitLost, "%s: %s reads user %d of transaction %d under name %d, which nobody has inserted", t.h.Name(), t, key.id, key.by, name)
		case u.left > 0 && u.left < t.began:
			t.b.w.Fail(StaleRead, "%s: %s reads user %d, which was removed before", t.h.Name(), t, key.id)
		}
	})
}

// absent claims that there is no user of a name.
func (t *transaction) absent(name int) {
	t.claim(func() {
		if u := t.b.users.live[name]; u != nil && u.at < t.began && !u.leaving {
			t.b.w.Fail(StaleRead, "%s: %s reads no user of name %d, and user %d was there before", t.h.Name(), t, name, u.id)
		}
	})
}

// byName locks the entry of a name, and its row if there is one.
func (t *transaction) byName(name int, mode lock.Mode) (entry, row *cell, err error) {
	if entry, err = t.lock(users, byName, number(name), mode); err != nil || !entry.exists {
		return entry, nil, err
	}
	key := keyOf(entry.value)
	if row, err = t.lock(users, 0, idKey(key.id), mode); err != nil {
		return nil, nil, err
	}
	if !row.exists || userOf(key.id, row.value).userKey != key {
		t.claim(func() {
			t.b.w.Fail(TwoOfAKey, "%s: %s finds name %d in the index, and no such row", t.h.Name(), t, name)
		})
		return nil, nil, errTakenBack
	}
	return entry, row, nil
}

// find reads the user of a name with locks.
func (t *transaction) find() error {
	name := t.b.r.IntN(nameCount)
	entry, row, err := t.byName(name, lock.Shared)
	switch {
	case err != nil:
		return err
	case row == nil:
		t.absent(name)
	default:
		t.present(name, keyOf(entry.value))
	}
	return nil
}

// remove removes the user of a name, if there is one.
func (t *transaction) remove() error {
	b, name := t.b, t.b.r.IntN(nameCount)
	entry, row, err := t.byName(name, lock.Exclusive)
	switch {
	case err != nil:
		return err
	case row == nil:
		t.absent(name)
		return nil
	}
	key := keyOf(entry.value)
	if key.by == t.n {
		t.forget(key)
	} else if u := b.users.all[key]; u != nil {
		t.removed = append(t.removed, u)
	} else {
		b.w.Fail(CommitLost, "%s: %s reads user %d of transaction %d, which nobody has inserted", t.h.Name(), t, key.id, key.by)
	}
	if err := row.delete(); err != nil {
		return err
	}
	return entry.delete()
}

// forget takes an insert of the transaction's own out.
func (t *transaction) forget(key userKey) {
	var left []*user
	for _, u := range t.inserted {
		if u.userKey != key {
			left = append(left, u)
		}
	}
	t.inserted = left
}

// acknowledge takes in that a transaction has taken effect.
func (b *userBook) acknowledge(t *transaction) {
	for _, u := range t.removed {
		u.left = t.b.w.Now()
	}
	for _, u := range t.inserted {
		if was := b.live[u.name]; was != nil && !was.leaving {
			t.b.w.Fail(TwoOfAKey, "%s: %s was told that it has inserted name %d, and user %d of transaction %d has it", t.h.Name(), t, u.name, was.id, was.by)
		}
		u.at = t.b.w.Now()
		b.live[u.name] = u
	}
}
