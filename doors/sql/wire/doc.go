// Package wire speaks the server's side of the MySQL client/server protocol: packets, the handshake, authentication, commands, results
// as text and in binary form. Source: the protocol pages of MySQL 8.0's internals documentation. The bytes are in docs/formats/mysql.md.
//
// A Server holds the settings that all its connections share. Server.Serve speaks with one client until the connection ends. Statements go to
// a Session, which the caller makes for each client that has logged in, and the Session writes its results into an Answer.
//
// The package is not a SQL engine: it parses no statement, knows no table, no user and no transaction. It listens on no port either: the
// number of connections is the caller's to bound.
//
// A client is bounded before it is believed. A packet's announced length is judged before memory is taken for it, and a buffer grows as the
// bytes arrive, never by the announcement. Before login a packet may have 64 KiB.
package wire
