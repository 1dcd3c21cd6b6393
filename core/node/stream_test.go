package node

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/peer"
)

// endless is a snapshot stream that goes on after what it begins with, one chunk of keys after the other.
type endless struct {
	begin io.Reader
	chunk func() []byte
	rest  []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if k, err := e.begin.Read(p); err == nil {
		return k, nil
	}
	if len(e.rest) == 0 {
		e.rest = e.chunk()
	}
	k := copy(p, e.rest)
	e.rest = e.rest[k:]
	return k, nil
}

// caught returns a snapshot stream as it is sent to a member, and that member, which lacks what is in it.
func caught(t *testing.T) (m *manual, far *Node, stream []byte) {
	m = newManual(t, 3)
	far = m.nodes[2]
	m.cutOff(far.id)
	m.writeOn(m.nodes[0], 20)
	m.forgetLog(far.id)
	m.lose = func(p parcel) bool {
		if p.channel == peer.ChannelSnapshot {
			stream = bytes.Clone(p.frame)
			return true
		}
		return false
	}
	m.until("a stream", func() bool { return stream != nil })
	return m, far, stream
}

// A stream that never ends is given up, and the next one is taken.
func TestStreamsThatDoNotEnd(t *testing.T) {
	m, far, whole := caught(t)
	head := 4 + int(binary.LittleEndian.Uint32(whole)) + len(snapshotMagic)
	first := head + 8 + int(binary.LittleEndian.Uint32(whole[head:])) // after the chunk with the head
	key := uint64(0)
	chunk := func() []byte { // keys that ascend for ever
		if key > 1_000_000 {
			panic("nobody gives the stream up")
		}
		var rows []byte
		for range 100 {
			key++
			rows = append(append(rows, 9), 'k')
			rows = binary.BigEndian.AppendUint64(rows, key)
			rows = append(append(rows, 100), strings.Repeat("v", 100)...)
		}
		return frameChunk(rows)
	}
	tick := func() { m.clock.Advance(10 * time.Millisecond) }
	for name, c := range map[string]struct {
		each func()
		want error
	}{
		"slowly": {func() { m.clock.Advance(time.Second) }, errStreamSlow},
		"under a leader that is deposed": {func() {
			if key > 10_000 && key < 10_200 {
				p := *far.pub.Load()
				p.term++
				far.pub.Store(&p)
			}
			tick()
		}, errStreamOutdated},
	} {
		key = 0
		before := far.pub.Load()
		err := far.HandleStream(m.nodes[0].id, &endless{begin: bytes.NewReader(whole[:first]), chunk: func() []byte { c.each(); return chunk() }})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: it ended with %v", name, err)
		}
		if far.receiving.Load() {
			t.Errorf("%s: no other stream is taken", name)
		}
		far.pub.Store(before)
	}
	g := far.guardStream(&endless{begin: bytes.NewReader(nil), chunk: chunk}, far.Status().Term)
	g.most = 100_000
	if k, err := io.Copy(io.Discard, g); !errors.Is(err, errStreamEndless) || k > 200_000 {
		t.Errorf("after %d bytes: %v", k, err)
	}
	m.lose = nil
	m.until("a snapshot", func() bool { return far.replaced.Load() == 1 })
	m.same()
}

// frameChunk is a chunk as a snapshot has it.
func frameChunk(rows []byte) []byte {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	if err := writeChunk(w, rows); err != nil {
		panic(err)
	}
	if err := w.Flush(); err != nil {
		panic(err)
	}
	return b.Bytes()
}
