// Package turn has the statements that compute for long take turns, so that one processor is left to all else that the process does. Without it
// ten bulk loads keep every processor for a time slice of the scheduler each, and a put of another door waits for them at every step: when its
// request comes in, when the log is synced, when its answer goes out.
//
// A session asks before each piece of work. A short statement never waits. The package does not measure processor time, and it orders nothing by
// importance: first come, first served. It is not for work that waits: a holder gives its place back before it does.
package turn
