package main

import (
	"github.com/holdfastdb/holdfast/doors/kv/etcd"
	"github.com/holdfastdb/holdfast/doors/saga/dtm"
	sqlprogram "github.com/holdfastdb/holdfast/doors/sql/program"
	tlogprogram "github.com/holdfastdb/holdfast/doors/tlog/program"
	"github.com/holdfastdb/holdfast/serve"
)

// all is the doors of this build. Their order is that of their machines in every node: kv's k and e, tlog's t, saga's g, sql's s. In this
// order machines write at the end of an entry. It is part of the log's meaning, so a new door goes to the end and none ever changes its
// place.
var all = serve.List{
	etcd.Door,
	tlogprogram.Door,
	dtm.Door,
	sqlprogram.Door,
}
