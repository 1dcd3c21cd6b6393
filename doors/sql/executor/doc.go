// Package executor runs the statements of a few shapes from the stored bytes to the packets of the answer, without a plan and without a Go value of each
// column: reads by the first columns of a key, joins of two tables by the primary key of one, rows that are inserted as literals and parameters, and updates and
// deletes by the primary key or a beginning of it. It recognises a shape in the syntax tree, binds it to the definitions of its tables and runs it in a
// transaction.
//
// It is not the place for anything else: what it does not know, or does not do as the engine does, it leaves to the engine (doors/sql/engine) before it has
// had an effect. Which table and which session may come here at all the engine decides. It takes no lock on a table.
package executor
