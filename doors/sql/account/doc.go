// Package account is the users of the sql door: the statements about them, who may do what, and who may log in. It parses those statements
// itself, because a clause that the parser of rows takes and drops would be a privilege that nobody meant to give.
//
// It keeps nothing of its own: accounts are in core/machine/ident, and each change is one command. It runs no other statement and knows no
// table; the engine asks it which databases a client may use.
package account
