package etcdfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// sector: a file whose length is a multiple of it plus that of a SHA-256 has one at its end. By that etcd's own tools tell a snapshot,
// which has one, from a database of a data directory, which has none.
const sector = 512

// magic is bbolt's, at this place of the first page; the second meta page lies a page later.
const (
	magic     = 0xED0CDAED
	magicAt   = 16
	headBytes = magicAt + 4
)

// ErrInUse: a running etcd has the file.
var ErrInUse = errors.New("in use by a running etcd")

// IsEtcd reports whether the first bytes of a file, 20 of them at least, are those of an etcd database.
func IsEtcd(head []byte) bool {
	return len(head) >= headBytes && binary.LittleEndian.Uint32(head[magicAt:]) == magic
}

// File is a database of etcd's, open for reading. It belongs to one goroutine.
type File struct {
	f     *os.File
	pages *pages
	trees map[string]tree
	Head  Head
	// SHA256 says that the file has a SHA-256 at its end, and that it is right.
	SHA256 bool
	// Revision is the newest revision, 1 if nothing was ever written.
	Revision int64
	// Bytes is the length of the file.
	Bytes int64
}

// Open opens a file and checks all of it: the SHA-256 if there is one, every row if there is none. Errors wrap ErrDamaged or
// ErrInUse, or are the file system's.
func Open(path string) (_ *File, err error) {
	f := &File{trees: map[string]tree{}}
	if f.f, err = os.Open(path); err != nil {
		return nil, err
	}
	if err := f.open(); err != nil {
		f.f.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) open() (err error) {
	// etcd keeps an exclusive lock on its database while it runs.
	if err := syscall.Flock(int(f.f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrInUse
	}
	if f.SHA256, f.Bytes, err = checkSum(f.f); err != nil {
		return err
	}
	if f.pages, err = newPages(f.f, f.Bytes); err != nil {
		return err
	}
	err = f.pages.walk(tree{root: f.pages.root}, func(flags uint32, k, v []byte) error {
		if flags&leafBucket == 0 {
			return fmt.Errorf("%w: %.40q is no bucket", ErrDamaged, k)
		}
		t, err := parseTree(v)
		f.trees[string(k)] = t
		return err
	})
	if err != nil {
		return err
	}
	if err := f.readHead(); err != nil || f.SHA256 {
		return err
	}
	for _, bucket := range buckets {
		if err := f.each(bucket, func(_, _ []byte) error { return nil }); err != nil {
			return err
		}
	}
	return f.Changes(func(*Change) error { return nil })
}

// Close closes it.
func (f *File) Close() error { return f.f.Close() }

// checkSum reads a file and compares the SHA-256 at its end, if it has the length of one that does.
func checkSum(f *os.File) (has bool, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return false, 0, err
	}
	head := make([]byte, headBytes)
	if _, err := io.ReadFull(f, head); err != nil || !IsEtcd(head) {
		return false, 0, fmt.Errorf("%w: it does not begin like one", ErrDamaged)
	}
	switch size = info.Size(); size % sector {
	case sha256.Size:
	case 0:
		return false, size, nil
	default:
		return false, 0, fmt.Errorf("%w: %d bytes are no whole number of sectors, nor that and a SHA-256", ErrDamaged, size)
	}
	sum := sha256.New()
	sum.Write(head)
	if _, err := io.Copy(sum, io.LimitReader(f, size-sha256.Size-headBytes)); err != nil {
		return false, 0, err
	}
	tail := make([]byte, sha256.Size)
	if _, err := io.ReadFull(f, tail); err != nil {
		return false, 0, err
	}
	if !bytes.Equal(sum.Sum(nil), tail) {
		return false, 0, fmt.Errorf("%w: the SHA-256 at its end is not that of the file", ErrDamaged)
	}
	return true, size, nil
}

func (f *File) readHead() error {
	keys, ok := f.trees[string(bucketKey)]
	if _, has := f.trees[string(bucketMeta)]; !ok || !has {
		return fmt.Errorf("%w: no buckets key and meta", ErrDamaged)
	}
	rows := map[string][]byte{}
	for _, bucket := range [][]byte{bucketMeta, bucketAuth, bucketCluster} {
		err := f.each(bucket, func(k, v []byte) error {
			if len(rows) < 64 { // etcd has a dozen; a damaged file must not fill the memory
				rows[string(k)] = v
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	u64 := func(key []byte) uint64 {
		if v := rows[string(key)]; len(v) == 8 {
			return binary.BigEndian.Uint64(v)
		}
		return 0
	}
	h := &f.Head
	h.Index, h.Term, h.AuthRevision = u64(metaIndex), u64(metaTerm), u64(authRevisionKey)
	h.AuthOn = bytes.Equal(rows[string(authEnabledKey)], []byte{1})
	h.StorageVersion, h.ClusterVersion = string(rows[string(metaStorageVersion)]), string(rows[string(clusterVersionKey)])
	if v := rows[string(metaConf)]; v != nil {
		var c confText
		if err := json.Unmarshal(v, &c); err != nil {
			return fmt.Errorf("%w: configuration: %v", ErrDamaged, err)
		}
		h.Voters, h.Learners = c.Voters, c.Learners
	}
	// A compaction that was scheduled and not finished counts: etcd carries it out at its next start.
	for _, k := range [][]byte{metaFinished, metaScheduled} {
		if v := rows[string(k)]; v != nil {
			rev, _, _, err := parseRev(v)
			if err != nil {
				return err
			}
			h.Compacted = max(h.Compacted, rev)
		}
	}
	f.Revision = max(1, h.Compacted)
	k, err := f.pages.lastKey(keys)
	if err != nil || k == nil {
		return err
	}
	rev, _, _, err := parseRev(k)
	f.Revision = max(f.Revision, rev)
	return err
}

// each walks a bucket, which may be missing: files of older versions have fewer.
func (f *File) each(bucket []byte, fn func(k, v []byte) error) error {
	t, ok := f.trees[string(bucket)]
	if !ok {
		return nil
	}
	return f.pages.walk(t, func(_ uint32, k, v []byte) error { return fn(k, v) })
}

// Changes hands over all versions and deletions in the order of revisions. The change is reused; its slices may be kept. A
// change with an empty key is skipped: etcdutl writes one to raise the revision.
func (f *File) Changes(fn func(*Change) error) error {
	var c Change
	return f.each(bucketKey, func(k, v []byte) error {
		if err := parseChange(k, v, &c); err != nil {
			return err
		}
		return fn(&c)
	})
}

// Leases hands over all leases.
func (f *File) Leases(fn func(Lease) error) error { return eachParsed(f, bucketLease, parseLease, fn) }

// Users hands over all users by name.
func (f *File) Users(fn func(User) error) error { return eachParsed(f, bucketAuthUsers, parseUser, fn) }

// Roles hands over all roles by name.
func (f *File) Roles(fn func(Role) error) error { return eachParsed(f, bucketAuthRoles, parseRole, fn) }

// Members hands over the members of the cluster the file is from. Files before 3.5 may have none.
func (f *File) Members(fn func(Member) error) error {
	return eachParsed(f, bucketMembers, parseMember, fn)
}

// Alarms hands over all alarms.
func (f *File) Alarms(fn func(Alarm) error) error {
	return f.each(bucketAlarm, func(k, _ []byte) error {
		a, err := parseAlarm(k)
		if err != nil {
			return err
		}
		return fn(a)
	})
}

func eachParsed[T any](f *File, bucket []byte, parse func([]byte) (T, error), fn func(T) error) error {
	return f.each(bucket, func(_, v []byte) error {
		t, err := parse(v)
		if err != nil {
			return err
		}
		return fn(t)
	})
}
