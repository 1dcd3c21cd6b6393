// Package importer moves a running etcd to another server that speaks etcd's API. It copies all v3 keys at one revision, with their leases,
// and follows the source by watch until it is told to stop. Then it compares both sides. The v2 keys of a source that has them are copied
// beside them in the same way (tree).
//
// It is a client of both sides and knows nothing of Holdfast's inside, so what it writes passes the same checks as any client's write. It
// is no mirror for good and no backup: it runs beside a move and ends with it. Data that the API cannot set is not copied: revisions,
// versions, the history before the copy, users and roles, members, alarms.
//
// The copy is a comparison that repairs: a pass walks both sides in key order and writes only what differs. One code serves the first pass,
// a resumed run, and a source that compacted our revision. So no state has to be kept between runs. The rejected design was a journal of
// the copied keys. It would have had to be right about leases that ended and keys that changed while no import ran. Memory is bounded.
// Pages and streams are read as they are written, and the connection holds a watch back when the target is the slower side. Only the table
// of leases grows, by some hundred bytes each, and a v2 tree is held whole, as its server does.
package importer
