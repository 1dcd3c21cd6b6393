package results

import (
	"strconv"
	"strings"
	"time"
)

// Scripts is the result of a run of the same random scripts against the original and Holdfast.
type Scripts struct {
	Seed                             uint64
	Members, Scripts, Same, Requests int
	Took                             time.Duration
}

// Table loads the table of a file, which has a row for each size of cluster, and puts this run into it. old is the text of the file.
func (s *Scripts) Table(file string) (t *Table, old string, err error) {
	t = NewTable(1, Heading{"members", true}, Heading{"scripts", true}, Heading{"same", true}, Heading{"requests", true}, Heading{"took", true},
		Heading{"seed", true}, Heading{"day", false})
	if old, err = t.Load(file); err != nil {
		return nil, "", err
	}
	t.Put(strconv.Itoa(s.Members), strconv.Itoa(s.Scripts), strconv.Itoa(s.Same), strconv.Itoa(s.Requests), s.Took.Round(time.Second).String(),
		strconv.FormatUint(s.Seed, 10), time.Now().Format(time.DateOnly))
	t.Sort(func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return t, old, nil
}
