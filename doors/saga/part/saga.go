// Package part holds the command parts of the saga machine: global transactions as DTM has them, their branches, and topics. It has their
// codec, results and rejection codes. It is data: doors/saga/machine applies a part, doors/saga/advance calls branches. Byte table:
// docs/formats/entry.md.
package part

import "github.com/holdfastdb/holdfast/core/entry"

// Machine is the saga machine's letter, Level the cluster's level from which on its parts may be proposed.
const (
	Machine entry.Machine = 'g'
	Level   uint16        = 2
	// ElapseLevel is the same of Elapse.
	ElapseLevel uint16 = 3
	// SubmitLevel is the same of Submit.
	SubmitLevel uint16 = 6
	// RetainLevel is the same of Retain.
	RetainLevel uint16 = 8
)

// Kind is the effect of a part; it is its first byte.
type Kind byte

// The kinds. Numbers are never reused.
const (
	// Begin makes a global transaction, or moves one that was prepared on: Part.Begin.
	Begin Kind = 1
	// Change moves a transaction from one of some statuses to another, records results of branches and sets its timer: Part.Change.
	Change Kind = 2
	// Register adds branches to a prepared transaction: Part.Register.
	Register Kind = 3
	// Subscribe, Unsubscribe and Drop change who gets the messages of a topic: Part.Topic.
	Subscribe   Kind = 4
	Unsubscribe Kind = 5
	Drop        Kind = 6
	// Resume lets call-outs begin after a restore (DECISIONS A7). It has no fields.
	Resume Kind = 7
	// Elapse moves the machine's clock on, by time that went by while no member ran and the cluster's tick stood still: Part.ElapseMs.
	Elapse Kind = 8
	// Submit is a Begin of a Submitted transaction. If it finds a Prepared one, the options that it gives take the place of those the
	// transaction was prepared with (Definition.Take): Part.Begin.
	Submit Kind = 9
	// Retain says for how long a transaction is kept that ends from here on: Part.RetainMs.
	Retain Kind = 10

	lastKind = Retain
)

// Status is where a global transaction or a branch stands. Branches are Prepared, Succeed or Failed.
type Status byte

// The statuses. Zero is none.
const (
	Prepared  Status = 1
	Submitted Status = 2
	Succeed   Status = 3
	Aborting  Status = 4
	Failed    Status = 5

	lastStatus = Failed
)

var statusNames = [...]string{"", "prepared", "submitted", "succeed", "aborting", "failed"}

// String is DTM's word for it.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown"
}

// ParseStatus is the reverse of String; 0 if there is no such word.
func ParseStatus(word string) Status {
	for s, name := range statusNames {
		if s > 0 && name == word {
			return Status(s)
		}
	}
	return 0
}

// Final reports whether nothing follows it.
func (s Status) Final() bool { return s == Succeed || s == Failed }

// Statuses is a set of them.
type Statuses uint16

// Of makes a set.
func Of(all ...Status) (set Statuses) {
	for _, s := range all {
		set |= 1 << s
	}
	return set
}

// Open is every status that something follows.
var Open = Of(Prepared, Submitted, Aborting)

// Has reports whether s is in the set.
func (set Statuses) Has(s Status) bool { return set&(1<<s) != 0 }

// Mode is DTM's trans_type.
type Mode byte

// The modes. Zero is none.
const (
	Saga     Mode = 1
	Msg      Mode = 2
	TCC      Mode = 3
	XA       Mode = 4
	Workflow Mode = 5

	lastMode = Workflow
)

var modeNames = [...]string{"", "saga", "msg", "tcc", "xa", "workflow"}

// String is DTM's word for it.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "unknown"
}

// ParseMode is the reverse of String; 0 if there is no such word.
func ParseMode(word string) Mode {
	for m, name := range modeNames {
		if m > 0 && name == word {
			return Mode(m)
		}
	}
	return 0
}

// Kinds of a branch's call (DTM's op). A workflow's branches have words of their client.
const (
	OpAction     = "action"
	OpCompensate = "compensate"
	OpConfirm    = "confirm"
	OpCancel     = "cancel"
	OpCommit     = "commit"
	OpRollback   = "rollback"
)

// Part is one command part. Kind says which of the pointers is set.
type Part struct {
	Kind     Kind
	Begin    *BeginPart
	Change   *ChangePart
	Register *RegisterPart
	Topic    *TopicPart
	// ElapseMs is of Elapse: 1 to MaxElapseMs.
	ElapseMs int64
	// RetainMs is of Retain: 1 to MaxElapseMs.
	RetainMs int64
}

// Definition is the unchanging part of a global transaction, from its beginning.
type Definition struct {
	// Gid is the client's name of it, 1 to 128 bytes, unique among the transactions that have not been forgotten.
	Gid  string
	Mode Mode
	// Protocol is DTM's: "http", "grpc" or "json-rpc".
	Protocol string
	// QueryPrepared is asked what became of a prepared message, or is called to go on with a workflow.
	QueryPrepared string
	// CustomData is the client's JSON: order and concurrency of a saga, delay of a message, name and input of a workflow.
	CustomData string
	Options    Options
	// Headers go out with every call to a branch, in the order given.
	Headers []Header
}

// Header is one of them.
type Header struct{ Name, Value string }

// Options are DTM's TransOptions. Times are whole milliseconds; 0: the coordinator's own, except that RetryLimit 0 is none.
type Options struct {
	WaitResult, Concurrent bool
	TimeoutMs              int64 // to fail
	RequestTimeoutMs       int64 // of one call to a branch
	RetryIntervalMs        int64
	RetryLimit             int64
}

// FirstIntervalMs is a transaction's wait between two passes at first, and again after a success; usualMs is the default. By DTM's rule one
// with a near time limit is retried before it.
func (o *Options) FirstIntervalMs(usualMs int64) int64 {
	switch {
	case o.RetryIntervalMs > 0:
		return o.RetryIntervalMs
	case o.TimeoutMs > 0 && o.TimeoutMs < usualMs:
		return o.TimeoutMs
	}
	return usualMs
}

// BeginPart makes a transaction that is Prepared or Submitted. If its gid exists, Prepared leaves a prepared one unchanged. Submitted
// submits a prepared one, and leaves a submitted one unchanged. Anything else is rejected with WrongStatus. The result is a *State.
type BeginPart struct {
	Definition
	Status   Status
	Branches []Branch
	// Exists: an existing gid in any status is no reason to reject (DTM's prepareWorkflow).
	Exists bool
	// Fresh: an existing gid in any status is rejected with WrongStatus, because the command has parts for other machines that must not be
	// done twice.
	Fresh bool
	// FirstMs is when the first timer is due, from the entry's tick; IntervalMs what State.IntervalMs begins as.
	FirstMs, IntervalMs int64
}

// Branch is one call to a service, or a client's report of one.
type Branch struct {
	// ID is DTM's branch_id, up to 128 bytes; Op what the branch does. The two are unique in a transaction.
	ID, Op  string
	URL     string
	Status  Status
	Payload []byte // the encoding holds each payload once, however many branches have it
}

// ChangePart moves one transaction. It is rejected with NotFound or WrongStatus, and changes nothing then.
type ChangePart struct {
	// Gid names it. Number, if it is not 0, is the machine's number of the transaction that was meant: a gid may have been used again.
	Gid    string
	Number uint64
	// From is what its status must be one of; To the next one, 0: it stays.
	From Statuses
	To   Status
	// Reason becomes its rollback reason, Result its result, unless they are empty.
	Reason, Result string
	// Results are of branches, by their place in the transaction from 0 on.
	Results []BranchResult
	// Timer: NextMs, from the entry's tick, is the transaction's next due time, and IntervalMs its next interval. Without Timer both stay.
	// A final status ends the timer.
	Timer              bool
	NextMs, IntervalMs int64
	// Retries is how often calls have been tried again under a retry limit; 0: it stays.
	Retries int64
	// Pass: a pass over the transaction has ended with this part, and its waiting clients hear that there is no outcome yet.
	Pass bool
	// Worker says that the leader's worker decided it, and no client. One with Results or Pass is the worker's without being called so.
	Worker bool
}

// BranchResult is what became of a branch.
type BranchResult struct {
	Branch uint32
	Status Status
}

// RegisterPart adds branches to a Prepared transaction, which is rejected with WrongStatus else, NotFound if there is none. A branch
// with an ID and Op that are there already takes the new status and is not added again.
type RegisterPart struct {
	Gid      string
	Branches []Branch
}

// TopicPart is one subscription. Drop uses Topic alone.
type TopicPart struct{ Topic, URL, Remark string }

// State is the result of Begin, Change and Register: where the transaction stands after the part. It belongs to the receiver.
type State struct {
	Number uint64
	Status Status
	// Was is the status before, 0 if it has only begun.
	Was Status
}

// Rejection codes of the saga machine.
const (
	// Malformed: the part cannot be read.
	Malformed entry.Code = 700 + iota
	// NotFound: no transaction has the gid.
	NotFound
	// WrongStatus: the detail is the present status.
	WrongStatus
	// NoTopic, NoURL, URLExists, EmptyTopic: topics.
	NoTopic
	NoURL
	URLExists
	EmptyTopic
	// TooLarge: the transaction would have more branches or bytes than one may have, or the topic more subscribers.
	TooLarge
	// NoBranch: a result is of a branch that the transaction does not have.
	NoBranch
)

// Bounds on one transaction, in bytes. A larger one is malformed, or TooLarge where several parts add up to it.
const (
	MaxGidBytes    = 128 // of a gid, a branch's ID and a branch's op
	MaxURLBytes    = 16 << 10
	MaxCustomBytes = 1 << 20
	MaxReasonBytes = 64 << 10
	MaxResultBytes = 1 << 20
	MaxHeaders     = 1000
	MaxBranches    = 1000
	MaxPayload     = 4 << 20 // of one branch
	MaxTransaction = 7 << 20 // of all payloads together, each counted once
)

// MaxElapseMs bounds one Elapse, and the retention: a hundred years.
const MaxElapseMs = 100 * 366 * 24 * 3600 * 1000

// Bounds on topics.
const (
	MaxTopicBytes  = 128
	MaxSubscribers = 1000 // of one topic
)
