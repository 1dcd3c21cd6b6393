package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
)

const (
	// fileBytes is written once at start and then overwritten in a circle. fdatasync of preallocated space needs no metadata, as in any log
	// worth comparing with.
	fileBytes = 64 << 20
	maxQueued = 4096
	maxGroup  = 1 << 20 // bytes per fdatasync
)

// log is one file written by groups, each with one fdatasync. append may be called from any goroutine.
type log struct {
	file  *os.File
	queue chan *record
}

// record waits for its group's fdatasync; done is closed after it.
type record struct {
	data []byte
	done chan struct{}
}

func openLog(name string) (*log, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	zero := make([]byte, 1<<20)
	for off := int64(0); off < fileBytes; off += int64(len(zero)) {
		if _, err := f.WriteAt(zero, off); err != nil {
			return nil, err
		}
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	l := &log{file: f, queue: make(chan *record, maxQueued)}
	go l.write()
	return l, nil
}

// append returns when the data, of at most 64 KiB, is durable.
func (l *log) append(data []byte) {
	r := &record{data, make(chan struct{})}
	l.queue <- r
	<-r.done
}

// write takes everything that queued while the last fdatasync ran and makes it durable with one more. It is the only writer of the
// file. A failed write or sync ends the process: an answer could no longer be true.
func (l *log) write() {
	var off int64
	var group []*record
	buf := make([]byte, 0, maxGroup+64<<10)
	for first := range l.queue {
		group, buf = append(group[:0], first), appendRecord(buf[:0], first)
	gather:
		for len(buf) < maxGroup {
			select {
			case r := <-l.queue:
				group, buf = append(group, r), appendRecord(buf, r)
			default:
				break gather
			}
		}
		if off+int64(len(buf)) > fileBytes {
			off = 0
		}
		if _, err := l.file.WriteAt(buf, off); err != nil {
			fail("write", err)
		}
		if err := syscall.Fdatasync(int(l.file.Fd())); err != nil {
			fail("fdatasync", err)
		}
		off += int64(len(buf))
		for _, r := range group {
			close(r.done)
		}
	}
}

func appendRecord(buf []byte, r *record) []byte {
	return append(binary.LittleEndian.AppendUint32(buf, uint32(len(r.data))), r.data...)
}

func fail(verb string, err error) {
	fmt.Fprintf(os.Stderr, "floor: %s: %v\n", verb, err)
	os.Exit(1)
}
