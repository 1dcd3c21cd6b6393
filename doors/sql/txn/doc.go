// Package txn is what a SQL transaction is made of. So far it has the Buffer alone: a transaction's own writes, seen over the committed rows
// before they are proposed.
//
// It knows no SQL, no type and no session: keys and values are bytes that the engine has encoded.
package txn
