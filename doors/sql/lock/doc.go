// Package lock is the table of locks of one term: which transaction may read or write a row, or a table's definition, and which has to wait
// for which. A lock is asked for by a key of bytes, whether or not there is such a row.
//
// It is pure: it knows no clock, no row and no session. A caller that has to wait is told so, and waits and gives up by itself. It is not
// durable either: a Table ends with its term, and the log's fence ends the transactions that held its locks.
//
// Waiting is first come, first served: a request waits behind every earlier one that conflicts with it, so that readers cannot starve a writer. A
// circle of transactions that wait for each other is found when it closes, and one of them is told to give up at once.
package lock
