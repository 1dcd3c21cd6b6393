// Package txn runs SQL transactions on the member that leads: locks, a transaction's own writes over the committed rows, and the commit. It is a
// worker (core/worker): what it keeps belongs to one term and ends with it.
//
// A transaction is right because of three things. Its locks are those of one Table per term. The applier drops a command of another term, so
// that a commit takes effect only while that Table stands. And Leadership names a term only once everything before it is applied here, so that
// the first lock of a term is granted over rows that are complete.
//
// The package knows no SQL, no type and no session: keys and values are bytes that the engine has encoded. It carries every rule of
// transactions and the engine none, so that the simulation can drive it.
package txn
