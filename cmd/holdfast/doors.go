package main

import (
	"github.com/holdfastdb/holdfast/cmd/holdfast/doors"
	"github.com/holdfastdb/holdfast/cmd/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/cmd/holdfast/doors/saga"
	"github.com/holdfastdb/holdfast/cmd/holdfast/doors/tlog"
)

// all is the doors of this build. Their order is that of their machines in every node (kv's k and e, tlog's t, saga's g), in which those
// write at the end of an entry: it is part of the log's meaning, so a new door goes to the end and none ever changes its place.
var all = doors.List{
	kv.Door,
	tlog.Door,
	saga.Door,
}
