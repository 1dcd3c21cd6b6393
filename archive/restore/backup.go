// Package restore writes snapshots of a server's state to an object store and reads archives back, in the forms of package archive.
// Byte tables: docs/formats/archive.md.
//
// It knows of no running member: what a snapshot holds is read from its caller, and which entries belong to a log is judged by what the
// archive says of itself. The work of a leader that goes on beside its log, when to ship and when to take a snapshot, is not here
// (archive/ship).
package restore
