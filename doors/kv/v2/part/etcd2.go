// Package part defines the command parts of the machine behind etcd's v2 keys API and the refusals it answers with. It
// knows nothing of HTTP or JSON: the door turns a request into one part and the event or refusal back into an answer.
// Byte table: docs/formats/entry.md.
package part

import (
	"strconv"
	"strings"

	"github.com/holdfastdb/holdfast/core/entry"
)

// Kind is the kind of a part's change. Kinds are part of the log's meaning: never renumber.
type Kind uint8

// The kinds. Each is one function of etcd's v2 store; which of them an HTTP request means is for the door to know.
const (
	Set              Kind = 1 + iota // create or replace a key, or make a directory where there is no directory
	Create                           // make a node where there is none
	Update                           // a new value and TTL for a node that exists; of a directory the TTL only
	CompareAndSwap                   // Set a key if its value and index are as said
	Delete                           // remove a node
	CompareAndDelete                 // remove a key if its value and index are as said
	InOrder                          // Create below a directory, named by the index
	Expire                           // remove at most Limit nodes whose time is up at the entry's tick
	lastKind         = Expire
)

var kindNames = [...]string{Set: "set", Create: "create", Update: "update", CompareAndSwap: "swap", Delete: "delete",
	CompareAndDelete: "compare-and-delete", InOrder: "in-order", Expire: "expire"}

// String names the kind for people.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// FromClient reports whether an encoded part is one that only clients have reason to send: every kind but Expire, which the
// leader's worker sends. It reads only the kind, because it is called for every command while authentication is on.
func FromClient(body []byte) bool { return len(body) > 0 && Kind(body[0]) != Expire }

// Part is one command part. Fields a kind does not speak of are zero.
type Part struct {
	Kind Kind
	// Path is absolute and clean: "/a/b", without a double or trailing slash, "/" being the root. Any byte but "/" may stand
	// in a name.
	Path  []byte
	Value []byte
	// Dir makes Set, Create and InOrder make a directory and lets Delete remove an empty one; Recursive lets it remove a
	// full one. Refresh keeps the value and tells no watcher.
	Dir, Recursive, Refresh bool
	// HasTTL: the node lives for TTL nanoseconds from the entry's stamp on. Without it a node lives for ever, and one that
	// had a TTL loses it. The number may be anything, because clients may send anything: see Deadline in doors/kv/v2/machine.
	HasTTL bool
	TTL    int64
	// PrevValue (not empty) and PrevIndex (not 0) are the expected values of a comparison.
	PrevValue []byte
	PrevIndex uint64
	// Limit bounds an Expire.
	Limit uint32
}

// Codes of refusals; those up to 108 are the numbers etcd's clients see.
const (
	KeyNotFound   entry.Code = 100
	TestFailed    entry.Code = 101
	NotFile       entry.Code = 102
	NotDir        entry.Code = 104
	NodeExists    entry.Code = 105
	RootReadOnly  entry.Code = 107
	DirNotEmpty   entry.Code = 108
	IndexCleared  entry.Code = 401 // of a watch, never of a command
	MalformedPart entry.Code = 499 // a part this build decodes but no door should have proposed
)

// Refusal is the reason for refusing a command or a read: etcd's code, the path or comparison named as the cause, and the tree's index.
type Refusal struct {
	Code  entry.Code
	Cause string
	Index uint64
}

// Error makes a Refusal usable as an error of reads.
func (r *Refusal) Error() string {
	return "refused at index " + strconv.FormatUint(r.Index, 10) + " with code " + strconv.Itoa(int(r.Code)) + ": " + r.Cause
}

// Rejection is the refusal as part of a command's result. The detail holds index and cause: a rejection has no fields of
// its own for what only one machine knows.
func (r *Refusal) Rejection() *entry.Rejection {
	return &entry.Rejection{Code: r.Code, Detail: strconv.FormatUint(r.Index, 10) + " " + r.Cause}
}

// RefusalOf is the inverse of Rejection.
func RefusalOf(rej *entry.Rejection) *Refusal {
	index, cause, _ := strings.Cut(rej.Detail, " ")
	n, err := strconv.ParseUint(index, 10, 64)
	if err != nil { // not written by Rejection: the detail is text for people
		return &Refusal{Code: rej.Code, Cause: rej.Detail}
	}
	return &Refusal{Code: rej.Code, Cause: cause, Index: n}
}
