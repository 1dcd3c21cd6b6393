package node

// Lane is the queue a proposal waits in. The log is shared fairly between lanes by bytes; LaneSystem goes first. A lane belongs to a
// door, and its number travels between members: it is given for good and never to another door.
//
//	number  lane     whose
//	0       system   node's and the workers': leases, membership, compaction, deletes
//	1       kv       doors/kv's writes, of v2 too
//	2       tlog     doors/tlog's entries of transparency logs
//	3       sql      doors/sql's transactions
//	4       saga     doors/saga's global transactions
type Lane uint8

// LaneSystem is for small commands that must never starve.
const LaneSystem Lane = 0

// LaneSpec describes a door's lane to the node.
type LaneSpec struct {
	Number Lane
	// Name is one word for people and for metrics.
	Name string
	// Level is the lowest cluster level at which the lane may be used: below it some member may run a build without the
	// lane.
	Level uint16
	// Bytes bounds what waits in it; 0 = the node's own bound.
	Bytes int
}

// LaneUse is how much waits in a lane.
type LaneUse struct {
	Name  string
	Bytes int
}
