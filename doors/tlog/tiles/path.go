package tiles

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// EntryLevel is the Level of a Ref to an entry bundle.
const EntryLevel = -1

// Ref names a tile or an entry bundle as tlog-tiles paths do.
type Ref struct {
	// Level is 0 for the tiles over leaf hashes and one more for each level of tiles above; EntryLevel for a bundle.
	Level int
	// N counts tiles of a level, or bundles, from 0.
	N uint64
	// Width is how many hashes or entries it has: Width if it is full, 1 to 255 if it is partial.
	Width int
}

// Path is where the resource lies below the log's prefix, without a leading slash: tile/0/x001/234 or
// tile/entries/001.p/17.
func (r Ref) Path() string {
	level := "entries"
	if r.Level != EntryLevel {
		level = strconv.Itoa(r.Level)
	}
	n := fmt.Sprintf("%03d", r.N%1000)
	for rest := r.N / 1000; rest > 0; rest /= 1000 {
		n = fmt.Sprintf("x%03d/%s", rest%1000, n)
	}
	if r.Width != Width {
		return fmt.Sprintf("tile/%s/%s.p/%d", level, n, r.Width)
	}
	return "tile/" + level + "/" + n
}

// ErrPath: the path names no tile and no bundle.
var ErrPath = errors.New("not a tile path")

// ParsePath is the inverse of Path. Other spellings of the same resource are refused, because caches would keep a copy for
// each.
func ParsePath(path string) (Ref, error) {
	rest, ok := strings.CutPrefix(path, "tile/")
	if !ok {
		return Ref{}, ErrPath
	}
	level, rest, ok := strings.Cut(rest, "/")
	if !ok {
		return Ref{}, ErrPath
	}
	r := Ref{Level: EntryLevel, Width: Width}
	if level != "entries" {
		if r.Level, ok = decimal(level, 63); !ok {
			return Ref{}, ErrPath
		}
	}
	if n, width, partial := strings.Cut(rest, ".p/"); partial {
		if r.Width, ok = decimal(width, Width-1); !ok || r.Width == 0 {
			return Ref{}, ErrPath
		}
		rest = n
	}
	for {
		group, next, more := strings.Cut(rest, "/")
		if more {
			if group, ok = strings.CutPrefix(group, "x"); !ok {
				return Ref{}, ErrPath
			}
		}
		if len(group) != 3 || !digits(group) || more && r.N == 0 && group == "000" || r.N > MaxSize/1000 {
			return Ref{}, ErrPath
		}
		v, _ := strconv.Atoi(group) // three digits
		r.N = r.N*1000 + uint64(v)
		if !more {
			return r, nil
		}
		rest = next
	}
}

// decimal reads a number up to most, without leading zeros.
func decimal(s string, most int) (int, bool) {
	if len(s) == 0 || len(s) > 3 || len(s) > 1 && s[0] == '0' || !digits(s) {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n <= most
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
