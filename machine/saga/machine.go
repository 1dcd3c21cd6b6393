// Package saga is the deterministic machine behind global transactions: what a client began, how far it has come, when it is due
// again, and who subscribes to which topic.
package saga

import (
	"errors"

	"github.com/holdfastdb/holdfast/entry"
	esaga "github.com/holdfastdb/holdfast/entry/saga"
	"github.com/holdfastdb/holdfast/machine"
	"github.com/holdfastdb/holdfast/store"
)

var errLater = errors.New("machine/saga is being written")

// RetentionMs is for how long a transaction that has ended is kept unless Options say otherwise.
const RetentionMs = 86_400_000

// Options bound the machine's memory. Zero fields take the defaults.
type Options struct {
	// CacheBytes bounds what Apply keeps of open transactions. Default 8 MiB.
	CacheBytes int
	// RecentTimers is how many of the newest timers Recent can go back. Default 16,384.
	RecentTimers int
	// RetentionMs is for how long a transaction that has ended is kept, in milliseconds of the cluster's tick. Default RetentionMs.
	// Every member must have the same: it is part of what Apply does.
	RetentionMs int64
}

// Machine is the saga machine.
type Machine struct{}

// New returns a machine that is usable after Load.
func New(opt Options) *Machine { return &Machine{} }

// Spec is what others must know of this machine.
var Spec = machine.Spec{ID: esaga.Machine, Name: "saga", Level: esaga.Level}

// Spec implements machine.Machine.
func (m *Machine) Spec() *machine.Spec { return &Spec }

// Load implements machine.Machine.
func (m *Machine) Load(st store.Store, gate *machine.Gate) error { return errLater }

// Check implements machine.Machine.
func (m *Machine) Check(st *entry.Stamp, body []byte) (any, *entry.Rejection, error) {
	return nil, nil, errLater
}

// Readable implements machine.Machine.
func (m *Machine) Readable(body []byte) error { return errLater }

// Do implements machine.Machine.
func (m *Machine) Do(st *entry.Stamp, plan any, b store.Batch, wanted bool) (any, error) {
	return nil, errLater
}

// Publish implements machine.Machine.
func (m *Machine) Publish(st *entry.Stamp) {}

// Find returns the transaction of a gid with its branches; nil, nil if there is none. Any goroutine.
func (m *Machine) Find(gid string) (*Transaction, error) { return nil, errLater }

// FindNumber is Find by the machine's number.
func (m *Machine) FindNumber(number uint64) (*Transaction, error) { return nil, errLater }

// Read is Find in any reader of the store, such as a View of the node.
func Read(r store.Reader, gid string) (*Transaction, error) { return nil, errLater }

// List returns up to limit transactions with numbers below before (0: from the newest), newest first and without branches. next is what
// to pass as before to go on, 0: there is no more. A call reads at most 10,000 of them, so it may return fewer than limit, even none, and
// a next. Any goroutine.
func (m *Machine) List(before uint64, limit int, f Filter) (all []*Transaction, next uint64, err error) {
	return nil, 0, errLater
}

// Due lists up to limit timers behind after (the zero Timer: from the first) with a tick of at most until, in order. Any goroutine.
func (m *Machine) Due(after Timer, until int64, limit int) ([]Timer, error) { return nil, errLater }

// Recent returns timers that entries have set since the seq-th, oldest first, perhaps not all there are: ask again from the seq returned.
// A timer that was replaced or ended since is among them. ok is false if the ring no longer reaches back that far: ask Due again, from the
// seq returned on. Without timers, changed is closed when there are some. To begin, take the seq that Recent(math.MaxUint64) returns and ask
// Due after it. Any goroutine.
func (m *Machine) Recent(after uint64) (timers []Timer, seq uint64, ok bool, changed <-chan struct{}) {
	return nil, 0, false, nil
}

// Watch calls f with each change of a gid's transaction from now on: where it stands, how many passes over it have ended, and whether
// with this change one did. It is called by the goroutine that applies entries, while readers wait: it must not block and not
// call the machine. cancel ends it; a call that is under way then may still come. Any goroutine.
func (m *Machine) Watch(gid string, f func(s esaga.State, passes uint32, ended bool)) (cancel func()) {
	return func() {}
}

// Held reports whether no call may go out: the state comes from a snapshot that was restored, and nobody has said Resume. Any goroutine.
func (m *Machine) Held() bool { return true }

// Topic returns a topic; nil, nil if there is none. Any goroutine.
func (m *Machine) Topic(name string) (*Topic, error) { return nil, errLater }

// Topics lists up to limit topics with names behind after, in order. Any goroutine.
func (m *Machine) Topics(after string, limit int) ([]*Topic, error) { return nil, errLater }

// Counts returns how many transactions and topics there are. Any goroutine.
func (m *Machine) Counts() Counts { return Counts{} }
