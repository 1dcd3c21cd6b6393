package engine

import (
	"regexp"
	"strconv"
	"strings"
	"time"
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
