package replica

import (
	"fmt"
	"math"
	"time"

	"github.com/superfly/ltx"
)

// TXID numbers a state of the database: a group of commits that were captured together.
type TXID = ltx.TXID

// Checksum is of a whole database: the XOR of its pages' (LTX). 0 says that there is none.
type Checksum = ltx.Checksum

// Header is the beginning of an LTX file.
type Header = ltx.Header

// jump is how many TXIDs the file behind a fence passes over: more than an owner can have on its way.
const jump = 1 << 20

// File is a file of a replica, as the manifest has it. A file known only from a list has no checksums and no time (Replica.Fill).
type File struct {
	Level     int
	Min, Max  TXID
	Size      int64    // bytes
	Pre, Post Checksum // of the database, before and after; 0: none, or not read
	Fence     bool     // a file of level 0 without a page
	Time      time.Time
}

// String is what people call it.
func (f File) String() string { return fmt.Sprintf("level %d %s-%s", f.Level, f.Min, f.Max) }

// Snapshot reports whether it has the whole database.
func (f File) Snapshot() bool { return f.Min == 1 }

// Head is where the chain of level 0 ends. The zero Head is that of an empty replica.
type Head struct {
	TXID     TXID
	Post     Checksum // of the database there; 0: Litestream's, which keep none
	Fence    bool
	Pages    uint32 // size of the database
	PageSize uint32 // bytes
	Owner    uint64 // node id of the last file
	Time     time.Time
}

// Empty reports whether there is no file at all.
func (h Head) Empty() bool { return h.TXID == 0 }

// Next is the one name at which the chain can go on.
func (h Head) Next() (min, max TXID) { return next(h.TXID, h.Fence) }

func next(at TXID, fence bool) (min, max TXID) {
	if min = at + 1; fence {
		return min, min + jump
	}
	return min, min
}

// room reports whether there are TXIDs left behind a head; there are, for 2^43 takeovers.
func (h Head) room() bool { return h.TXID < math.MaxUint64-4*jump }

// headOf is the head behind a file of level 0.
func headOf(h Header, post Checksum, fence bool) Head {
	return Head{TXID: h.MaxTXID, Post: post, Fence: fence, Pages: h.Commit, PageSize: h.PageSize, Owner: h.NodeID,
		Time: time.UnixMilli(h.Timestamp).UTC()}
}
