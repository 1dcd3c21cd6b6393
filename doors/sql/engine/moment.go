package engine

import (
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql/types"
)

// A text or a number is read as a date or a time as MySQL's str_to_datetime, number_to_datetime, str_to_time and number_to_time read them. A
// fraction of a second is rounded to microseconds.

// isSpace, isDigit and isPunct are C's, of ASCII.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isPunct(c byte) bool {
	return c > ' ' && c < 0x7f && !isDigit(c) && !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
}

// momentRead is what a text or a number says. The time of day may be of a day that does not exist: valid decides.
type momentRead struct {
	year, month, day, hour, minute, second, micro int
	zero                                          bool // 0000-00-00
}

// valid returns the moment in UTC. false: there is no such day or time of day.
func (m momentRead) valid() (time.Time, bool) {
	if m.zero || m.month < 1 || m.month > 12 || m.day < 1 || m.hour > 23 || m.minute > 59 || m.second > 59 || m.year > 9999 {
		return time.Time{}, false
	}
	t := time.Date(m.year, time.Month(m.month), m.day, m.hour, m.minute, m.second, m.micro*1000, time.UTC)
	return t, t.Day() == m.day
}

// fraction reads the digits behind a point as microseconds, of which the seventh digit rounds. It returns how many bytes it has read.
func fraction(s string) (micro, n int) {
	unit := 100_000
	for n < len(s) && isDigit(s[n]) {
		switch {
		case n < 6:
			micro += int(s[n]-'0') * unit
			unit /= 10
		case n == 6 && s[n] >= '5':
			micro++
		}
		n++
	}
	return micro, n
}

// century completes a year of two digits.
func century(year int) int {
	if year < 70 {
		return 2000 + year
	}
	return 1900 + year
}

// readMoment reads a date with or without a time of day. false: the text is none.
func readMoment(s string) (m momentRead, ok bool) {
	s = strings.TrimRight(strings.TrimLeft(s, " \t\n\v\f\r"), " \t\n\v\f\r")
	if s == "" || !isDigit(s[0]) {
		return m, false
	}
	run := 0
	for run < len(s) && isDigit(s[run]) {
		run++
	}
	parts := []*int{&m.year, &m.month, &m.day, &m.hour, &m.minute, &m.second}
	short := false // the year has two digits
	switch {
	case run == len(s) || s[run] == '.' && run >= 12 || (s[run] == 'T' || isSpace(s[run])) && run >= 6:
		short = run != 4 && run != 8 && run < 14
		width := 4
		if short {
			width = 2
		}
		digits := s[:run]
		if run < 5 || run > 14 {
			return m, false
		}
		i := 0
		for ; i < len(parts) && digits != ""; i++ {
			n := min(width, len(digits))
			*parts[i] = number(digits[:n])
			digits, width = digits[n:], 2
		}
		if digits != "" || i < 3 {
			return m, false
		}
		s = s[run:]
		if s != "" && s[0] != '.' {
			if i != 3 {
				return m, false
			}
			if s, ok = m.clock(s[1:]); !ok {
				return m, false
			}
		}
	default:
		if run > 4 {
			return m, false
		}
		short = run <= 2
		for i, p := range parts[:3] {
			n := 0
			for n < len(s) && isDigit(s[n]) && (n < 2 || i == 0) {
				n++
			}
			if n == 0 {
				return m, false
			}
			*p = number(s[:n])
			s = s[n:]
			if i < 2 {
				k := 0
				for k < len(s) && isPunct(s[k]) {
					k++
				}
				if k == 0 {
					return m, false
				}
				s = s[k:]
			}
		}
		if s != "" {
			if s[0] != 'T' && !isSpace(s[0]) {
				return m, false
			}
			if s, ok = m.clock(strings.TrimLeft(s[1:], " ")); !ok {
				return m, false
			}
		}
	}
	if s != "" && s[0] == '.' {
		var n int
		m.micro, n = fraction(s[1:])
		s = s[1+n:]
	}
	if s != "" {
		return m, false
	}
	m.zero = m.year == 0 && m.month == 0 && m.day == 0
	if short && !m.zero {
		m.year = century(m.year)
	}
	m.carry()
	return m, true
}

// clock reads hours, and minutes and seconds if they are there, and returns what follows.
func (m *momentRead) clock(s string) (rest string, ok bool) {
	for i, p := range []*int{&m.hour, &m.minute, &m.second} {
		n := 0
		for n < len(s) && isDigit(s[n]) && n < 2 {
			n++
		}
		if n == 0 {
			return s, false
		}
		*p = number(s[:n])
		if s = s[n:]; i == 2 || s == "" || !isPunct(s[0]) || s[0] == '.' && i == 2 {
			break
		}
		s = s[1:]
	}
	return s, true
}

// carry makes a second of a million microseconds, where the rest is a moment.
func (m *momentRead) carry() {
	if m.micro < 1_000_000 {
		return
	}
	m.micro = 0
	if t, ok := m.valid(); ok {
		t = t.Add(time.Second)
		m.year, m.month, m.day, m.hour, m.minute, m.second = t.Year(), int(t.Month()), t.Day(), t.Hour(), t.Minute(), t.Second()
	}
}

// number is a run of digits as a number: at most four of them.
func number(s string) (n int) {
	for i := range len(s) {
		n = n*10 + int(s[i]-'0')
	}
	return n
}

// momentOfNumber reads a number such as 20240229 or 20240229123456.
func momentOfNumber(n int64) (m momentRead, ok bool) {
	switch {
	case n == 0:
		return momentRead{zero: true}, true
	case n < 101:
		return m, false
	case n <= 691231:
		n = (n + 20000000) * 1e6
	case n < 700101:
		return m, false
	case n <= 991231:
		n = (n + 19000000) * 1e6
	case n < 10000101:
		return m, false
	case n <= 99991231:
		n *= 1e6
	case n < 101000000:
		return m, false
	case n <= 691231235959:
		n += 20000000000000
	case n < 700101000000:
		return m, false
	case n <= 991231235959:
		n += 19000000000000
	case n > 99991231235959:
		return m, false
	}
	m = momentRead{second: int(n % 100), minute: int(n / 100 % 100), hour: int(n / 1e4 % 100), day: int(n / 1e6 % 100), month: int(n / 1e8 % 100), year: int(n / 1e10)}
	return m, true
}

// roundMoment rounds to so many digits of a second.
func roundMoment(t time.Time, digits int) time.Time {
	return t.Round(time.Duration(unitOf(digits)) * time.Microsecond)
}

// unitOf is how many microseconds the last of so many digits has.
func unitOf(digits int) int64 {
	unit := int64(1_000_000)
	for range digits {
		unit /= 10
	}
	return unit
}

// mostTime is MySQL's largest TIME, in microseconds.
const mostTime = ((838*60+59)*60 + 59) * 1_000_000

// roundTime rounds a duration to so many digits of a second, and the smallest and the largest TIME stand for what is beyond them. false: it was.
func roundTime(n int64, digits int) (types.Timespan, bool) {
	unit := unitOf(digits)
	switch rest := n % unit; {
	case 2*rest >= unit:
		n += unit - rest
	case 2*rest <= -unit:
		n -= unit + rest
	default:
		n -= rest
	}
	switch {
	case n > mostTime:
		return mostTime, false
	case n < -mostTime:
		return -mostTime, false
	}
	return types.Timespan(n), true
}

// readTime reads a duration in microseconds. false: the text is none.
func readTime(s string) (n int64, ok bool) {
	s = strings.TrimRight(strings.TrimLeft(s, " \t\n\v\f\r"), " \t\n\v\f\r")
	if len(s) >= 12 {
		if m, ok := readMoment(s); ok {
			if _, valid := m.valid(); valid && strings.ContainsAny(s, "- T") {
				return clockMicros(m.hour, m.minute, m.second, m.micro), true
			}
		}
	}
	negative := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	head := func() (v int64, some bool) {
		i := 0
		for i < len(s) && isDigit(s[i]) {
			v = min(v*10+int64(s[i]-'0'), 1e12)
			i++
		}
		s = s[i:]
		return v, i > 0
	}
	first, some := head()
	if !some && !strings.HasPrefix(s, ".") {
		return 0, false
	}
	var days, hours, minutes, seconds int64
	switch {
	case len(s) > 1 && isSpace(s[0]) && isDigit(s[1]):
		days = first
		s = s[1:]
		if hours, some = head(); !some {
			return 0, false
		}
	case strings.HasPrefix(s, ":"):
		hours = first
	default:
		hours, minutes, seconds = first/1e4, first/100%100, first%100
		return timeOf(negative, 0, hours, minutes, seconds, s)
	}
	for _, p := range []*int64{&minutes, &seconds} {
		if !strings.HasPrefix(s, ":") {
			break
		}
		s = s[1:]
		if *p, some = head(); !some {
			return 0, false
		}
	}
	return timeOf(negative, days, hours, minutes, seconds, s)
}

// timeOf puts a duration together. rest is what follows its seconds. false: it is more than a fraction.
func timeOf(negative bool, days, hours, minutes, seconds int64, rest string) (int64, bool) {
	micro := 0
	if strings.HasPrefix(rest, ".") {
		var n int
		micro, n = fraction(rest[1:])
		rest = rest[1+n:]
	}
	if minutes > 59 || seconds > 59 {
		return 0, false
	}
	hours = min(days*24+hours, 1e6)
	n := ((hours*60+minutes)*60+seconds)*1_000_000 + int64(micro)
	if negative {
		n = -n
	}
	return n, rest == ""
}

func clockMicros(hour, minute, second, micro int) int64 {
	return int64((hour*60+minute)*60+second)*1_000_000 + int64(micro)
}

// timeOfNumber reads a number such as 123456 as hours, minutes and seconds.
func timeOfNumber(n int64, micro int64) (int64, bool) {
	sign := int64(1)
	if n < 0 || micro < 0 {
		sign, n, micro = -1, -n, -micro
	}
	if n >= 10000000000 { // a moment
		m, ok := momentOfNumber(n)
		if t, valid := m.valid(); ok && valid {
			return clockMicros(t.Hour(), t.Minute(), t.Second(), int(micro)), true
		}
		return 0, false
	}
	if n%100 > 59 || n/100%100 > 59 {
		return 0, false
	}
	return sign * (((n/1e4*60+n/100%100)*60+n%100)*1_000_000 + micro), true
}
