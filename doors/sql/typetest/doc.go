// Package typetest writes telling values of every column type into tables of a MySQL server, and notes what the server answers. Each value is
// tried as a literal, as a parameter of a prepared statement, and in a primary key, a unique key and a plain index. The answers of MariaDB lie
// beside the cases, so that a test of the door needs no MariaDB, and a conformance run compares both servers.
//
// It is for tests and conformance runs. It knows nothing of the door: a server is an address. Its client is its own, because drivers choose the
// types of parameters themselves, and show a binary answer as they like.
package typetest
