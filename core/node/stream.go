package node

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// A stream with a snapshot says at its end how long it was, and while it comes no other is taken. So one that does not end would keep this
// member out of the cluster for good. It is given up when it comes too slowly, or is larger than any store this server has. It is also
// given up in a later term: raft would not take it, and the new leader sends its own.
const (
	// streamWindow is the time in which at least streamFloor bytes must come.
	streamWindow = time.Minute
	streamFloor  = 1 << 20
	// maxStream bounds a snapshot, in bytes. A disk that is full before ends it, too.
	maxStream = 1 << 40
)

var (
	errStreamOutdated = errors.New("a later term has begun")
	errStreamSlow     = errors.New("it comes too slowly")
	errStreamEndless  = errors.New("it does not end")
)

// guardedStream reads a snapshot within those limits; it is owned by the goroutine that reads.
type guardedStream struct {
	n    *Node
	r    io.Reader
	term uint64 // of the leader that sends it
	most int64

	got   int64         // bytes
	since time.Duration // begin of the window
	had   int64         // got, then
}

func (n *Node) guardStream(r io.Reader, term uint64) *guardedStream {
	return &guardedStream{n: n, r: r, term: term, most: maxStream, since: n.clock.Mono()}
}

// Read implements io.Reader. It looks before it reads: a caller that has its bytes does not hear of an error.
func (g *guardedStream) Read(p []byte) (int, error) {
	if now := g.n.clock.Mono(); now-g.since >= streamWindow {
		if g.got-g.had < streamFloor {
			return 0, fmt.Errorf("%w: %d bytes in %v", errStreamSlow, g.got-g.had, now-g.since)
		}
		g.since, g.had = now, g.got
	}
	switch {
	case g.n.pub.Load().term > g.term:
		return 0, errStreamOutdated
	case g.got > g.most:
		return 0, fmt.Errorf("%w: more than %d bytes", errStreamEndless, g.most)
	}
	k, err := g.r.Read(p)
	g.got += int64(k)
	return k, err
}
