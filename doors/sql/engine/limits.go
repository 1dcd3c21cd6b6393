package engine

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// TimeLimit returns how long a SELECT may run, as its hint or the session says. 0: as long as it takes.
func (s *Session) TimeLimit(st *Statement) time.Duration {
	if st.Kind != KindRead && st.Kind != KindLock {
		return 0
	}
	if st.limit >= 0 {
		return st.limit
	}
	return s.set().longest
}

var (
	hintComment = regexp.MustCompile(`(?is)^[\s(]*select\s*/\*\+(.*?)\*/`)
	hintTime    = regexp.MustCompile(`(?i)\bmax_execution_time\s*\(\s*(\d{1,10})\s*\)`)
)

// hintedLimit reads MAX_EXECUTION_TIME in the hints behind SELECT. Negative: there is none.
func hintedLimit(text string) time.Duration {
	if !strings.Contains(text[:min(len(text), mostHint)], "/*+") {
		return -1
	}
	if comment := hintComment.FindStringSubmatch(text); comment != nil {
		if m := hintTime.FindStringSubmatch(comment[1]); m != nil {
			n, _ := strconv.ParseInt(m[1], 10, 64) // ten digits fit
			return time.Duration(n) * time.Millisecond
		}
	}
	return -1
}

// mostHint bounds how far from the beginning of a statement its hints are looked for.
const mostHint = 256

// kept counts what a statement keeps in memory: rows that it sorts, groups or makes distinct, and keys that it will lock. It is the library's Reporter,
// which is asked before each row that is kept.
type kept struct {
	used, most uint64
	row        uint64 // bytes of the row that was read last
	tables     uint64 // that the statement reads: a row of a join has one of each
}

// rowBytes and columnBytes are about what a row takes in memory beside its values.
const (
	rowBytes    = 64
	columnBytes = 40
)

func (k *kept) begin(most uint64) { *k = kept{most: most, row: rowBytes} }

// read notes a row that was read.
func (k *kept) read(columns, bytes int) { k.row = uint64(rowBytes + columns*columnBytes + bytes) }

// MaxMemory implements sql.Reporter.
func (k *kept) MaxMemory() uint64 { return k.most }

// UsedMemory implements sql.Reporter.
func (k *kept) UsedMemory() uint64 {
	k.used += k.row * max(k.tables, 1)
	return k.used
}

// add counts bytes by themselves. Error: 1105.
func (k *kept) add(bytes int) error {
	if k.used += uint64(bytes); k.most > 0 && k.used > k.most {
		return k.tooMuch()
	}
	return nil
}

func (k *kept) tooMuch() error {
	return wire.Errorf(wire.ErrUnknown, "Out of memory for a statement that keeps more than %d bytes of rows to sort, group or lock them; an index, a condition or LIMIT makes them fewer, and --memory of the server raises the limit", k.most)
}

// judgeMemory puts the limit into the library's error.
func (k *kept) judgeMemory(err error) error {
	if err != nil && sql.ErrNoMemoryAvailable.Is(err) {
		return k.tooMuch()
	}
	return err
}
