package node

import (
	"github.com/holdfastdb/holdfast/core/raft"
	"sync/atomic"
)

// shown is the loop's published state for other goroutines.
type shown struct {
	pub        atomic.Pointer[published]
	pubChange  broadcast // any change of pub
	commitIdx  atomic.Uint64
	shownIdx   atomic.Uint64 // applied index
	refused    atomic.Int64  // commands that found their lane full
	superseded atomic.Int64  // commands proposed again in a later term
}

// published is the part of the loop's state that other goroutines read.
type published struct {
	leader uint64
	term   uint64
	leads  uint64 // term in which this member leads and has applied an entry of that term; 0 otherwise
	// sole: this leader is also the only member, and has applied everything that an earlier member can have applied. No member applies
	// before it does, so reads need no round. It is stored before a message can leave that lets a new member apply anything, and loaded
	// when a read begins.
	sole     bool
	ready    bool
	conf     raft.Conf
	progress []raft.Progress
	latency  map[uint64]Latency // of those in progress
}
