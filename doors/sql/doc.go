// Package sql is the door that speaks MySQL's protocol: the statements of a client's connection run one after another in its transaction, which
// the door begins and ends.
//
// How packets look is in wire, how a statement runs in engine, what a transaction is in txn. Users and their statements are in account. Statements
// that compute for long take turns, which is in turn.
package sql
