package kv

import (
	"context"

	ekv "github.com/holdfastdb/holdfast/entry/kv"
)

// CONTRACT for the readers of this machine (door/kv, worker/lease). To be implemented by the package's author; every
// method is safe for concurrent use with Apply and answers from one consistent revision.

// ErrCompacted and ErrFutureRevision answer reads at a revision that is gone or not there yet; ErrTooLarge a Range whose
// result would exceed the caller's byte budget.
var (
	ErrCompacted      error
	ErrFutureRevision error
	ErrTooLarge       error
)

// EventType has etcd's numbering.
type EventType uint8

const (
	EventPut    EventType = 0
	EventDelete EventType = 1
)

// Event is one change of one key. For a delete KV holds Key and ModRevision only (as in etcd).
type Event struct {
	Type EventType
	KV   ekv.KeyValue
}

// Lease is what readers see of one lease: its id, granted TTL in seconds.
type Lease struct {
	ID, TTL int64
}

type reader interface {
	// Revision returns the current revision and the compacted revision (0 = never compacted). A fresh store is at revision 1.
	Revision() (current, compacted int64)
	// Range answers r and the store's current revision. maxBytes bounds the result's keys and values (0 = no bound).
	Range(r *ekv.Range, maxBytes int64) (res *ekv.RangeResult, revision int64, err error)
	// RangeStream calls fn with successive chunks (keys ascending, of about chunkBytes) of r, all from one revision.
	RangeStream(ctx context.Context, r *ekv.Range, chunkBytes int, fn func(chunk *ekv.RangeResult, revision int64) error) error
	// History returns the events of revisions [from, to] whose key is in [key, end), whole revisions, in order, at most
	// about maxBytes; next is the revision to continue at (to+1 when done). ErrCompacted if from is compacted.
	History(key, end []byte, from, to int64, maxBytes int) (evs []Event, next int64, err error)
	// Previous returns the version of key just before revision rev, nil if there was none. ErrCompacted if it is gone.
	Previous(key []byte, rev int64) (*ekv.KeyValue, error)
	// Recent returns the events of revisions > after from the in-memory ring in revision order (whole revisions, shared
	// memory, do not modify) and whether the ring still reached back that far; changed is closed when a newer revision than
	// the returned ones is published.
	Recent(after int64) (evs []Event, upTo int64, ok bool, changed <-chan struct{})
	// Leases lists all leases by id. Lease returns one, LeaseKeys its attached keys in order.
	Leases() []Lease
	Lease(id int64) (Lease, bool)
	LeaseKeys(id int64) [][]byte
	// LeaseEvents: version counter that changes when leases are granted or removed; changed is closed on the next change.
	LeaseChanges() (version uint64, changed <-chan struct{})
	// Alarms lists active alarms ordered by member, type.
	Alarms() []ekv.AlarmState
	// Size counts the bytes of keys and values with history (quota, dbSize); InUse those of current keys only.
	Size() (withHistory, inUse int64)
	// HashKV hashes exactly what is visible at rev (0 = current): the same before and after a compaction at rev, the same on
	// all members.
	HashKV(rev int64) (hash uint32, hashRevision, compactRevision, currentRevision int64, err error)
}
