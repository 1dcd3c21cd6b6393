package main

import (
	doorkv "github.com/holdfastdb/holdfast/door/kv"
	doortlog "github.com/holdfastdb/holdfast/door/tlog"
	"github.com/holdfastdb/holdfast/etcddata"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/machine"
	metcd2 "github.com/holdfastdb/holdfast/machine/etcd2"
	mident "github.com/holdfastdb/holdfast/machine/ident"
	mkv "github.com/holdfastdb/holdfast/machine/kv"
	mmember "github.com/holdfastdb/holdfast/machine/member"
	mtree "github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/node"
)

// machines are those that the doors of this build read. All of them are in every node, whichever doors are on.
type machines struct {
	kv    *mkv.Machine
	etcd2 *metcd2.Machine
	tree  *mtree.Machine
}

func newMachines(share budget.Shares) *machines {
	return &machines{
		kv:    mkv.New(mkv.Options{CacheBytes: int(share.Keys), FilterBytes: int(share.Filter), RecentBytes: int(share.Recent)}),
		etcd2: metcd2.New(metcd2.Options{CacheBytes: int(share.Nodes2), RecentBytes: int(share.Recent2)}),
		tree:  mtree.New(),
	}
}

// list is what a node is handed. The order is part of the log's meaning (node.Config.Machines): a new machine goes to the end.
func (m *machines) list() []machine.Machine { return []machine.Machine{m.kv, m.etcd2, m.tree} }

// specs is what there is to know of every machine, for those who read a stopped server's files.
var specs = machine.Specs{&mident.Spec, &mmember.Spec, &mkv.Spec, &metcd2.Spec, &mtree.Spec}

// lanes are those of the doors.
func lanes(share budget.Shares) []node.LaneSpec {
	return []node.LaneSpec{{Number: doorkv.Lane, Name: "kv"}, {Number: doortlog.Lane, Name: "tlog", Bytes: max(int(share.Lane)/2, 4<<20)}}
}

// housed adds to a configuration what every node of this build is handed.
func housed(cfg node.Config) (node.Config, *machines) {
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = budget.Default
	}
	share := budget.Of(cfg.MemoryBytes)
	if cfg.Shares != nil {
		share = *cfg.Shares
	}
	m := newMachines(share)
	cfg.Machines, cfg.Lanes, cfg.Scratch = m.list(), lanes(share), []string{etcddata.Scratch}
	return cfg, m
}
