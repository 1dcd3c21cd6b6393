// Package engine runs SQL statements over the rows of doors/sql/txn: it parses, decides what is a statement that the door has, has
// go-mysql-server plan it and answers its reads and writes. Definitions of tables are its bytes in the catalogue of doors/sql/machine.
//
// It is not the place for a client's connection, for users, or for the begin and the end of a transaction: those are the door's (doors/sql). What
// the engine cannot do right it refuses with 1235 (refuse.go).
package engine
