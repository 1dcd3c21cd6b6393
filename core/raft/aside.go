package raft

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// asideBytes is the least data of a proposal that is kept aside.
const asideBytes = 4 << 10

// aside keeps the data of large proposals while raft appends their entries, because raft copies a proposal. For a mebibyte that took as
// long as writing it to the log. Raft gets a token, and the data replaces it when raft hands the entry out, before it is written or sent.
// Only for a member that is alone: in a cluster raft decides by the bytes of entries how much to send.
type aside struct {
	next    uint64
	waiting [][]byte // data of the tokens up to next, in order
	bytes   int
}

// A token is its mark and its number.
const (
	tokenLen  = 16
	tokenMark = 0x64697361_6e656bff // no data begins with the byte 255: that is not a version of the format of entries
)

// alone reports whether there is no other member to send to.
func (r *Replica) alone() bool {
	return len(r.conf.Voters) == 1 && r.conf.Voters[0] == r.cfg.ID && len(r.conf.Learners) == 0
}

// put takes data and returns the token for it, nil if that would be too much.
func (a *aside) put(data []byte, most uint64) []byte {
	if a.bytes > 0 && uint64(a.bytes+len(data)) > most {
		return nil
	}
	a.next++
	a.waiting = append(a.waiting, data)
	a.bytes += len(data)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(make([]byte, 0, tokenLen), tokenMark), a.next)
}

// takeBack forgets the last one put, which was not proposed after all.
func (a *aside) takeBack() {
	last := len(a.waiting) - 1
	a.bytes -= len(a.waiting[last])
	a.waiting, a.next = a.waiting[:last], a.next-1
}

// putBack exchanges the tokens in raft's messages for their data. Raft hands out each entry that it has appended since the last time, so
// none waits any longer afterwards. A token without data would be a command lost after it was acknowledged, so it stops the process.
func (a *aside) putBack(messages []*raftpb.Message) {
	if len(a.waiting) == 0 {
		return
	}
	first := a.next - uint64(len(a.waiting)) + 1
	for _, m := range messages {
		if m.GetTo() == raft.LocalApplyThread {
			continue // written before
		}
		for _, e := range m.Entries {
			if len(e.Data) != tokenLen || e.GetType() != raftpb.EntryNormal || binary.LittleEndian.Uint64(e.Data) != tokenMark {
				continue
			}
			n := binary.LittleEndian.Uint64(e.Data[8:])
			if n < first || n > a.next {
				panic(fmt.Sprintf("entry %d has token %d, and data of %d to %d is kept", e.GetIndex(), n, first, a.next))
			}
			e.Data = a.waiting[n-first]
		}
	}
	clear(a.waiting)
	a.waiting, a.bytes = a.waiting[:0], 0
}
