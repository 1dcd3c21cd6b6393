package main

import (
	"regexp"
	"strconv"
	"strings"
)

// wait is the lock that a statement of MariaDB waits for.
type wait struct {
	table, index string
	mode         string // as InnoDB prints it
	key          int    // the first field of the record; 0: it is the end of the index
}

func (w *wait) String() string {
	return "MariaDB waits for " + w.mode + " on " + strconv.Itoa(w.key) + " of " + w.index + " of " + w.table
}

// gap reports whether the statement waits to insert into a gap that another transaction has locked.
func (w *wait) gap() bool { return strings.Contains(w.mode, "insert intention") }

var (
	waitLine = regexp.MustCompile(`(?s)TRX HAS BEEN WAITING [^\n]*\nRECORD LOCKS [^\n]*? index (\w+) of table [^\n]*\.` + "`" + `(\w+)` + "`" + ` trx id \d+ lock_mode ([^\n]*) waiting\n(.*?)\n\n`)
	firstHex = regexp.MustCompile(`(?m)^ 0: len 4; hex ([0-9a-f]{8});`)
)

// waitOf reads the lock that is waited for out of SHOW ENGINE INNODB STATUS; nil: there is none.
func waitOf(status string) *wait {
	m := waitLine.FindStringSubmatch(status)
	if m == nil {
		return nil
	}
	w := &wait{index: m[1], table: m[2], mode: m[3]}
	if h := firstHex.FindStringSubmatch(m[4]); h != nil {
		n, _ := strconv.ParseUint(h[1], 16, 32) // eight hex digits
		w.key = int(int32(uint32(n) ^ 1<<31))
	}
	return w
}

// reason is why an answer differs, and how that is recognised.
type reason struct {
	name, why string
	covers    func(s *script, d *difference) bool
}

var reasons = []reason{
	{
		name: "gap",
		why:  "InnoDB locks gaps at REPEATABLE READ",
		covers: func(s *script, d *difference) bool {
			w := waitOf(d.status)
			return d.theirs == waits && d.ours != waits && w != nil && w.gap()
		},
	},
}

// reasonOf names the reason for which a difference is known; "": for none.
func reasonOf(s *script, d *difference) string {
	for i := range reasons {
		if reasons[i].covers(s, d) {
			return reasons[i].name
		}
	}
	return ""
}
