// Package restore writes snapshots of a server's state to an object store and reads archives back, in the forms of package archive. Byte
// tables: docs/formats/archive.md.
//
// It knows of no running member. The caller provides a snapshot's content, and the archive's own data decides which entries belong to a
// log. A leader's decisions, when to ship and when to take a snapshot, are not here (archive/ship).
package restore
