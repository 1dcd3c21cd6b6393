package ship

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
)

// TestTheLagOfALeader: in entries, in bytes and in seconds. Bytes that were not read yet are estimated by those that were. Where everything
// is archived, or nothing is known, there is no lag in time.
func TestTheLagOfALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory()
		h.add(99, 10) // the last one is entry 100
		hour := time.Now().UnixNano()
		time.Sleep(time.Hour)
		for name, c := range map[string]struct {
			archived uint64
			shown    Status
			entries  uint64
			bytes    int64
			seconds  float64
		}{
			"all was read":              {90, Status{Bytes: 700, unread: 101, each: 50, oldest: hour}, 10, 700, 3600},
			"the newest was not read":   {90, Status{Bytes: 700, unread: 100, each: 50, oldest: hour}, 10, 750, 3600},
			"many were not read":        {90, Status{Bytes: 700, unread: 96, each: 50, oldest: hour}, 10, 950, 3600},
			"no size is known":          {90, Status{Bytes: 700, each: 50, oldest: hour}, 10, 700, 3600},
			"no time is known":          {90, Status{Bytes: 700}, 10, 700, 0},
			"all is archived":           {100, Status{oldest: hour}, 0, 0, 0},
			"more is, than is applied":  {120, Status{oldest: hour}, 0, 0, 0},
			"a clock that was set back": {90, Status{oldest: time.Now().Add(time.Hour).UnixNano()}, 10, 0, 0},
		} {
			m := newMember(h)
			w := New(m, objstore.NewMemory(), Options{})
			w.term, w.shown = newTerm(w, 1), c.shown
			m.SetArchived(c.archived)
			if s := w.Status(); !s.Leads || s.Archived != c.archived || s.Entries != c.entries || s.Bytes != c.bytes || s.Seconds != c.seconds {
				t.Errorf("%s: %d entries, %d bytes, %v s behind %d; want %d, %d, %v s", name, s.Entries, s.Bytes, s.Seconds, s.Archived,
					c.entries, c.bytes, c.seconds)
			}
		}
	})
}

// TestAFailureIsSaidOnce, and so is its end.
func TestAFailureIsSaidOnce(t *testing.T) {
	said := &lines{}
	w := New(newMember(newHistory()), objstore.NewMemory(), Options{Logger: said.logger()})
	w.wentWell()
	if text := said.String(); text != "" {
		t.Errorf("nothing has failed, and it says %s", text)
	}
	for range 2 {
		w.wentWrong(errors.New("the first"))
		w.wentWrong(errors.New("the second"))
		if s := w.shown.Failing; s != "the second" {
			t.Errorf("the newest failure is %q", s)
		}
		w.wentWell()
		w.wentWell()
		if s := w.shown.Failing; s != "" {
			t.Errorf("it is well, and fails with %q", s)
		}
	}
	text := said.String()
	if strings.Count(text, "the first") != 2 || strings.Contains(text, "the second") || strings.Count(text, "well again") != 2 {
		t.Errorf("it says\n%s", text)
	}
}

// TestWhatAStrangePlaceIsToldAs: the archive there, the expected one, and the identity that the operator has to give up to begin a new
// archive.
func TestWhatAStrangePlaceIsToldAs(t *testing.T) {
	for _, c := range []struct {
		err  strange
		says []string
		not  string
	}{
		{strange{url: "s3://b/p", want: "aaaa", have: "bbbb"}, []string{"s3://b/p holds archive bbbb", "is in archive aaaa", "--archive-lost aaaa,"},
			"no archive"},
		{strange{url: "s3://b/p", want: "aaaa"}, []string{"s3://b/p holds no archive", "is in archive aaaa", "--archive-lost aaaa,"}, "unknown"},
		{strange{url: "s3://b/p", archived: 7}, []string{"s3://b/p holds no archive", "up to entry 7", "--archive-lost unknown,"}, "aaaa"},
	} {
		text := c.err.Error()
		for _, part := range c.says {
			if !strings.Contains(text, part) {
				t.Errorf("%q is missing in: %s", part, text)
			}
		}
		if strings.Contains(text, c.not) {
			t.Errorf("%q is in: %s", c.not, text)
		}
	}
}

// TestAnArchiveThatIsAwayIsSaidOnce, with what was acknowledged since the last look, which may lie in another place;
// and so is that it is back.
func TestAnArchiveThatIsAwayIsSaidOnce(t *testing.T) {
	for name, c := range map[string]struct {
		looked, archived uint64
		says             string // "": no entries are named
	}{
		"acknowledged since":          {10, 20, "11 to 20"},
		"one entry":                   {19, 20, "20 to 20"},
		"nothing since":               {20, 20, ""},
		"it was never looked at":      {0, 20, ""},
		"nothing was acknowledged":    {0, 0, ""},
		"another member is told less": {30, 20, ""},
	} {
		said, m := &lines{}, newMember(newHistory())
		w := New(m, objstore.NewMemory(), Options{Logger: said.logger()})
		m.SetArchived(c.archived)
		w.looked = c.looked
		w.wentBack()
		if text := said.String(); text != "" {
			t.Errorf("%s: it was not away, and it says %s", name, text)
		}
		w.wentAway(errors.New("the first"))
		w.wentAway(errors.New("the second"))
		if s := w.shown.Away; s != "the second" {
			t.Errorf("%s: it is away with %q", name, s)
		}
		w.wentBack()
		w.wentBack()
		text := said.String()
		if strings.Count(text, "the archive is away") != 1 || strings.Count(text, "the archive is back") != 1 || w.shown.Away != "" {
			t.Errorf("%s: it says\n%s", name, text)
		}
		if named := strings.Contains(text, "acknowledged_since_the_last_look"); named != (c.says != "") || !strings.Contains(text, c.says) {
			t.Errorf("%s: want %q in\n%s", name, c.says, text)
		}
	}
}

// TestWhatIsMissingIsSaidUntilItIsThereAgain: a missing range is shown until the archive has its last entry.
func TestWhatIsMissingIsSaidUntilItIsThereAgain(t *testing.T) {
	said := &lines{}
	w := New(newMember(newHistory()), objstore.NewMemory(), Options{Logger: said.logger()})
	w.chained(4, 4)
	w.miss(5, 10)
	for last := uint64(4); last <= 12; last++ {
		w.chained(last, 4)
		at, missing := w.shown.Missing, last < 10
		if again := strings.Contains(said.String(), "up_to=10"); (at != nil) != missing || again == missing {
			t.Errorf("the archive ends at %d: %v is missing, and it is said to be there again: %v", last, at, again)
		}
	}
	if n := strings.Count(said.String(), "has again all"); n != 1 {
		t.Errorf("it is said %d times\n%s", n, said)
	}
}
