package machine

import (
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// Transaction is a global transaction as it stands. It belongs to the receiver.
type Transaction struct {
	// Number is the machine's own name of it: it counts up and is never given again, as a gid may be.
	Number uint64
	sagapart.Definition
	Head
	// BranchBytes is the size of the branches with their payloads, each payload once.
	BranchBytes int64
	// Bytes is the size of the transaction without the rows of its branches.
	Bytes int64
	// Branches are in the order in which they were given: a branch's place is its index here, from 0 on. Brief leaves them out.
	Branches []Branch
}

// Head is what changes of a transaction. Times of people are Unix time in nanoseconds, 0: not yet.
type Head struct {
	Status           sagapart.Status
	Created, Updated int64
	// CreatedTick is the machine's clock at Created, in milliseconds: ages are counted by it, because wall clocks jump.
	CreatedTick int64
	// Finished is when it succeeded, RolledBack when it failed.
	Finished, RolledBack int64
	// DueTick is when its timer fires by the machine's clock, in milliseconds, Never for a transaction that has ended. IntervalMs is the
	// next interval to wait.
	DueTick, IntervalMs int64
	// Retries is how often calls were tried again under a retry limit, Passes how many passes over it have ended.
	Retries int64
	Passes  uint32
	// Result and Reason (DTM's rollback_reason) are what clients and workers said.
	Result, Reason string
}

// Never is the DueTick of a transaction that has ended.
const Never = -1

// Branch is one branch with its times, Unix time in nanoseconds, 0: not yet. Finished is when it got a final status; like DTM the machine
// sets it for a failed branch too, and RolledBack for none.
type Branch struct {
	sagapart.Branch
	Created, Updated, Finished, RolledBack int64
}

// Filter says which transactions List is to return; zero fields let every one pass.
type Filter struct {
	Gid    string
	Status sagapart.Status
	Mode   sagapart.Mode
	// From and To bound Created, in Unix nanoseconds, both ends included; 0: open.
	From, To int64
}

// Timer is when a transaction is due, by the machine's clock in milliseconds. Timers are ordered by tick and then number.
type Timer struct {
	Tick   int64
	Number uint64
}

// Counts is how many transactions and topics there are. Transactions that have ended count until they are forgotten.
type Counts struct {
	Prepared, Submitted, Succeed, Aborting, Failed int64
	Topics                                         int64
}

// Topic is the subscribers of one name. It belongs to the receiver.
type Topic struct {
	Name string
	// ID is a number that no other topic or transaction has or had; Version counts the changes, from 1.
	ID, Version      uint64
	Created, Updated int64 // Unix time in nanoseconds
	Subscribers      []Subscriber
}

// Subscriber is one of them.
type Subscriber struct{ URL, Remark string }
