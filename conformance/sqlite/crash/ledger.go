package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
)

// ledger is what an application has said so far. It belongs to one goroutine.
type ledger struct {
	file    string
	at      int64
	acked   map[string]int // writer → its last acknowledged row
	oks     int
	noes    int
	errors  map[string]int
	pids    []int
	firstOK time.Time // since forget
	lastOK  time.Time
}

// read takes over the lines that came since. Lines are written by one call each, so the last one is whole, or is read later.
func (l *ledger) read() {
	f, err := os.Open(l.file)
	if err != nil {
		return // it has said nothing yet
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := f.Seek(l.at, 0); err != nil {
		return
	}
	if _, err := b.ReadFrom(f); err != nil {
		return
	}
	text := b.String()
	text = text[:strings.LastIndexByte(text, '\n')+1]
	l.at += int64(len(text))
	for line := range strings.Lines(text) {
		var writer string
		var n, pid int
		var ms int64
		if k, _ := fmt.Sscanf(line, "ok %s %d %d", &writer, &n, &ms); k == 3 {
			l.acked[writer] = max(l.acked[writer], n)
			l.oks++
			l.lastOK = time.UnixMilli(ms)
			if l.firstOK.IsZero() {
				l.firstOK = l.lastOK
			}
		} else if k, _ := fmt.Sscanf(line, "no %s %d %d", &writer, &n, &ms); k == 3 {
			l.noes++
			l.errors[strings.TrimSpace(strings.Join(strings.Fields(line)[4:], " "))]++
		} else if k, _ := fmt.Sscanf(line, "pid %d", &pid); k == 1 {
			l.pids = append(l.pids, pid)
		}
	}
}

// forget begins a new count of acknowledgements and errors; what was acknowledged is kept.
func (l *ledger) forget() {
	l.read()
	l.firstOK, l.lastOK, l.oks, l.noes = time.Time{}, time.Time{}, 0, 0
	clear(l.errors)
}
