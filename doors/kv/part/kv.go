// Package part defines the command parts of the key-value machine, their results and rejection codes. Semantics are those of etcd v3. The
// wire types of etcd are not used here, so that the log does not depend on a third party's protobufs.
package part

import "github.com/holdfastdb/holdfast/core/entry"

// KeyValue is one version of a key.
type KeyValue struct {
	Key, Value     []byte
	CreateRevision int64
	ModRevision    int64
	Version        int64
	Lease          int64
}

// Put sets Key. IgnoreValue/IgnoreLease keep the present value/lease and are rejected when the key does not exist.
type Put struct {
	Key, Value  []byte
	Lease       int64
	PrevKV      bool
	IgnoreValue bool
	IgnoreLease bool
}

// SortOrder, SortTarget, and the other enums have etcd's numbering.
type (
	SortOrder     uint8 // 0 none, 1 ascend, 2 descend
	SortTarget    uint8 // 0 key, 1 version, 2 create, 3 mod, 4 value
	CompareResult uint8 // 0 equal, 1 greater, 2 less, 3 not equal
	CompareTarget uint8 // 0 version, 1 create, 2 mod, 3 value, 4 lease
)

// The values of those enums.
const (
	SortNone    SortOrder = 0
	SortAscend  SortOrder = 1
	SortDescend SortOrder = 2

	SortByKey     SortTarget = 0
	SortByVersion SortTarget = 1
	SortByCreate  SortTarget = 2
	SortByMod     SortTarget = 3
	SortByValue   SortTarget = 4

	CompareEqual    CompareResult = 0
	CompareGreater  CompareResult = 1
	CompareLess     CompareResult = 2
	CompareNotEqual CompareResult = 3

	CompareVersion CompareTarget = 0
	CompareCreate  CompareTarget = 1
	CompareMod     CompareTarget = 2
	CompareValue   CompareTarget = 3
	CompareLease   CompareTarget = 4

	AlarmNoSpace AlarmType = 1
	AlarmCorrupt AlarmType = 2
)

// Range reads keys in [Key, End): End empty = the one key, End "\0" = everything from Key on.
type Range struct {
	Key, End             []byte
	Limit, Revision      int64
	Order                SortOrder
	Target               SortTarget
	KeysOnly, CountOnly  bool
	MinMod, MaxMod       int64
	MinCreate, MaxCreate int64
}

// DeleteRange removes the keys in [Key, End), read as in Range.
type DeleteRange struct {
	Key, End []byte
	PrevKV   bool
	// ByRange lets the machine write other rows if there are very many keys, which costs less. Clients see the same result. Not in a Txn.
	ByRange bool
}

// Compare is one condition of a Txn; with End it must hold for every key in the range.
type Compare struct {
	Key, End []byte
	Result   CompareResult
	Target   CompareTarget
	Int      int64  // version, create, mod or lease
	Value    []byte // for target value
}

// Op is one operation in a Txn branch; at most one pointer is set, and one with none does nothing (etcd lets clients send it).
type Op struct {
	Put    *Put
	Range  *Range
	Delete *DeleteRange
	Txn    *Txn
}

// Txn is compare/then/else; all its writes form one revision.
type Txn struct {
	Compare    []Compare
	Then, Else []Op
}

// Compact discards history below Revision.
type Compact struct{ Revision int64 }

// LeaseGrant creates a lease. ID is chosen by the proposer (never 0 here), TTL is in seconds, already clamped by the door.
type LeaseGrant struct{ ID, TTL int64 }

// LeaseRevoke deletes leases and the keys attached to them; all keys of one part go in one revision per lease.
// With Expired, ids that no longer exist are skipped instead of rejecting the part.
type LeaseRevoke struct {
	IDs     []int64
	Expired bool
}

// AlarmType has etcd's numbering: 1 NOSPACE, 2 CORRUPT.
type AlarmType uint8

// Alarm raises (On) or clears an alarm of one member; clearing with Member 0 clears it for all.
type Alarm struct {
	On     bool
	Member uint64
	Type   AlarmType
}

// Span is the keys in [From, To); To empty means to the last key.
type Span struct{ From, To []byte }

// Within limits a Put, a Txn or a Revoke to leases all of whose keys lie in Spans, which are disjoint and in order. A client that may not
// write some of a lease's keys may not revoke the lease, which would delete them. It may not attach another key to it either. The lease's
// keys are known only at Apply, so that is where the part is judged.
type Within struct{ Spans []Span }

// ByRangeLevel is the cluster's level from which on a part with DeleteRange.ByRange may be proposed.
const ByRangeLevel = 5

// MustLevel is the cluster's level from which on a part with Must may be proposed.
const MustLevel = 2

// Part is one kv command part; exactly one pointer is set, but that Within may stand beside Put, Txn or Revoke.
type Part struct {
	// Must stands beside Txn: the part is rejected with CompareFailed unless every compare of the Txn holds, and with it the whole command.
	// A false compare must then be a refusal and not a result. Parts of other machines in the command are to count only if this one does.
	Must   bool
	Within *Within

	Put     *Put
	Delete  *DeleteRange
	Txn     *Txn
	Compact *Compact
	Grant   *LeaseGrant
	Revoke  *LeaseRevoke
	Alarm   *Alarm
}

// RangeResult answers a Range. Count is the number of keys in the range at that revision, before Limit and filters.
// Revision is the store's current one when it was read; a Range after a write of the same Txn sees that write's.
type RangeResult struct {
	Revision int64
	KVs      []KeyValue
	More     bool
	Count    int64
}

// OpResult is the result of one Op; which field is meaningful follows the Op.
type OpResult struct {
	Put    *PutResult
	Range  *RangeResult
	Delete *DeleteResult
	Txn    *TxnResult
}

// PutResult answers a Put; Prev is set only when asked for and present.
type PutResult struct {
	Revision int64
	Prev     *KeyValue
}

// DeleteResult answers a DeleteRange.
type DeleteResult struct {
	Revision int64
	Deleted  int64
	Prevs    []KeyValue
}

// TxnResult answers a Txn; Revision is the store's revision after it. TooLarge means that its ranges and previous values exceeded the
// budget for one answer and are cut from there on. Its writes took effect all the same.
type TxnResult struct {
	TooLarge  bool
	Revision  int64
	Succeeded bool
	Ops       []OpResult
}

// CompactResult, GrantResult and RevokeResult answer the rest; Revision is the store's revision after the command.
type (
	CompactResult struct{ Revision int64 }
	GrantResult   struct{ Revision, ID, TTL int64 }
	RevokeResult  struct{ Revision int64 }
	AlarmResult   struct {
		Revision int64
		Alarms   []AlarmState // those this command changed, or all when listing
	}
	AlarmState struct {
		Member uint64
		Type   AlarmType
	}
)

// Rejection codes of the kv machine.
const (
	KeyNotFound entry.Code = 100 + iota
	LeaseNotFound
	LeaseExists
	Compacted
	FutureRevision
	Malformed // a part this build decodes but whose contents no door should have proposed
	LeaseDenied
	CompareFailed // a compare of a part with Must is false
)
