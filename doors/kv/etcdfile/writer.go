package etcdfile

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// batchBytes is how much goes into one transaction. bbolt keeps the pages a transaction changes in memory, several times what
// was put into them.
const batchBytes = 2 << 20

// spillBytes bounds the unsorted rows kept in memory before they go to disk in order.
const spillBytes = 8 << 20

// Writer makes one file. It belongs to one goroutine. The unfinished file and its side files lie in the directory given to Create, which is
// the Writer's own and removed by Close.
type Writer struct {
	dir   string
	room  func() error
	db    *bolt.DB
	tx    *bolt.Tx
	open  map[string]*bolt.Bucket
	bytes int
	early *spill
	last  struct{ rev, sub int64 } // of the last change
	begun bool                     // the early ones are in the file
}

// Create begins a file in dir, which it makes; leftovers of an earlier Writer are removed. room is called before each transaction, and its
// error ends the work. So the log on the same disk keeps enough space; nil: not checked.
func Create(dir string, room func() error) (*Writer, error) {
	if room == nil {
		room = func() error { return nil }
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil { // it will hold everybody's values
		return nil, err
	}
	w := &Writer{dir: dir, room: room, early: &spill{dir: dir, limit: spillBytes}}
	// Nothing is synced: a file that a crash cuts short is never looked at. Without a list of free pages in the file each
	// transaction has only its own pages to write.
	o := &bolt.Options{NoSync: true, NoGrowSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType}
	db, err := bolt.Open(filepath.Join(dir, "db"), 0o600, o)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	w.db = db
	return w, nil
}

// Close removes everything.
func (w *Writer) Close() error {
	if w.tx != nil {
		_ = w.tx.Rollback() // its rows are not wanted any more
	}
	w.early.close()
	err := w.db.Close()
	if rm := os.RemoveAll(w.dir); err == nil {
		err = rm
	}
	return err
}

// put adds a row. value must stay as it is until commit.
func (w *Writer) put(bucket, key, value []byte) error {
	if w.tx == nil {
		if err := w.begin(); err != nil {
			return err
		}
	}
	b := w.open[string(bucket)]
	if b == nil {
		var err error
		if b, err = w.tx.CreateBucketIfNotExists(bucket); err != nil {
			return err
		}
		b.FillPercent = 1 // rows come in order: pages are never split again
		w.open[string(bucket)] = b
	}
	if err := b.Put(key, value); err != nil {
		return err
	}
	if w.bytes += len(key) + len(value) + 64; w.bytes >= batchBytes {
		return w.commit()
	}
	return nil
}

func (w *Writer) begin() (err error) {
	if err = w.room(); err != nil {
		return err
	}
	w.tx, err = w.db.Begin(true)
	w.open, w.bytes = map[string]*bolt.Bucket{}, 0
	return err
}

func (w *Writer) commit() error {
	if w.tx == nil {
		return nil
	}
	tx := w.tx
	w.tx = nil
	return tx.Commit()
}

// Early adds a change out of order, before the first in order (Change), and at a lower revision: a version left by compaction.
func (w *Writer) Early(c *Change) error {
	k, v, err := changeRow(c)
	if err != nil {
		return err
	}
	if w.early.full(len(k) + len(v)) {
		if err := w.room(); err != nil {
			return err
		}
	}
	return w.early.add(k, v)
}

// Change adds a change; they come in the order of revisions.
func (w *Writer) Change(c *Change) error {
	if err := w.takeEarly(); err != nil {
		return err
	}
	if c.Rev < w.last.rev || c.Rev == w.last.rev && c.Sub <= w.last.sub {
		return fmt.Errorf("change %d.%d after %d.%d", c.Rev, c.Sub, w.last.rev, w.last.sub)
	}
	w.last.rev, w.last.sub = c.Rev, c.Sub
	k, v, err := changeRow(c)
	if err != nil {
		return err
	}
	return w.put(bucketKey, k, v)
}

// takeEarly moves the early changes into the file, in order.
func (w *Writer) takeEarly() error {
	if w.begun {
		return nil
	}
	w.begun = true
	w.last.sub = -1
	defer w.early.close()
	return w.early.each(func(k, v []byte) error {
		rev, sub, _, err := parseRev(k)
		if err != nil {
			return err
		}
		w.last.rev, w.last.sub = rev, sub
		return w.put(bucketKey, k, v)
	})
}

// Lease adds a lease.
func (w *Writer) Lease(l *Lease) error {
	k, v := leaseRow(l)
	return w.put(bucketLease, k, v)
}

// Alarm adds an alarm.
func (w *Writer) Alarm(a *Alarm) error {
	k, err := alarmRow(a)
	if err != nil {
		return err
	}
	return w.put(bucketAlarm, k, nil)
}

// User adds a user.
func (w *Writer) User(u *User) error {
	v, err := userRow(u)
	if err != nil {
		return err
	}
	return w.put(bucketAuthUsers, []byte(u.Name), v)
}

// Role adds a role.
func (w *Writer) Role(r *Role) error {
	v, err := roleRow(r)
	if err != nil {
		return err
	}
	return w.put(bucketAuthRoles, []byte(r.Name), v)
}

// Member adds a member.
func (w *Writer) Member(m *Member) error {
	k, v, err := memberRow(m)
	if err != nil {
		return err
	}
	return w.put(bucketMembers, k, v)
}

// Removed adds the id of a member that was removed.
func (w *Writer) Removed(id uint64) error {
	return w.put(bucketMembersRemoved, memberKey(id), []byte("removed"))
}

// Finish completes the file; WriteTo may follow.
func (w *Writer) Finish(h *Head) error {
	if err := w.takeEarly(); err != nil {
		return err
	}
	u64 := func(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }
	rows := []struct{ bucket, key, value []byte }{
		{bucketMeta, metaIndex, u64(h.Index)},
		{bucketMeta, metaTerm, u64(h.Term)},
		{bucketMeta, metaStorageVersion, []byte(h.StorageVersion)},
		{bucketCluster, clusterVersionKey, []byte(h.ClusterVersion)},
		{bucketAuth, authEnabledKey, []byte{0}},
		{bucketAuth, authRevisionKey, u64(h.AuthRevision)},
	}
	if h.AuthOn {
		rows[4].value = []byte{1}
	}
	if h.Compacted > 0 {
		at := appendRev(nil, h.Compacted, 0)
		rows = append(rows, struct{ bucket, key, value []byte }{bucketMeta, metaScheduled, at},
			struct{ bucket, key, value []byte }{bucketMeta, metaFinished, at})
	}
	if len(h.Voters) > 0 {
		conf, err := json.Marshal(confText{Voters: h.Voters, Learners: h.Learners})
		if err != nil {
			return err
		}
		rows = append(rows, struct{ bucket, key, value []byte }{bucketMeta, metaConf, conf})
	}
	for _, r := range rows {
		if err := w.put(r.bucket, r.key, r.value); err != nil {
			return err
		}
	}
	if w.tx == nil {
		if err := w.begin(); err != nil {
			return err
		}
	}
	for _, b := range buckets { // readers expect each of them
		if _, err := w.tx.CreateBucketIfNotExists(b); err != nil {
			return err
		}
	}
	return w.commit()
}

// Size is the length of what WriteTo writes.
func (w *Writer) Size() (n int64, err error) {
	err = w.db.View(func(tx *bolt.Tx) error {
		n = tx.Size()
		return nil
	})
	return n, err
}

// WriteTo writes the finished file.
func (w *Writer) WriteTo(out io.Writer) (n int64, err error) {
	err = w.db.View(func(tx *bolt.Tx) error {
		n, err = tx.WriteTo(out)
		return err
	})
	return n, err
}
