package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/holdfastdb/holdfast/internal/task"
)

// status is the one that an error of a faulty store has.
func status(err error) int {
	var r minio.ErrorResponse
	if errors.As(err, &r) {
		return r.StatusCode
	}
	return 0
}

// TestEveryFaultIsWhatItIsCalled: its answer, and the object afterwards.
func TestEveryFaultIsWhatItIsCalled(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name   string
		f      Faults
		status int    // of a creation
		is     error  // what a creation is answered
		there  string // what a creation leaves
	}{
		{"none", Faults{}, 0, nil, "whole"},
		{"refused", Faults{Refused: 1}, 429, nil, ""},
		{"before", Faults{Before: 1}, 500, nil, ""},
		{"after", Faults{After: 1}, 500, nil, "whole"},
		{"repeated", Faults{Repeated: 1}, 0, ErrExists, "whole"},
		{"half", Faults{Half: 1}, 500, nil, "wh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewMemory()
			s := NewFaulty(m, 1, task.Goroutines{}, c.f)
			err := s.PutIfAbsent(ctx, object("o", "whole"))
			if status(err) != c.status || errors.Is(err, ErrExists) != (c.is == ErrExists) || (err == nil) != (c.name == "none") {
				t.Errorf("created: %v", err)
			}
			if b := m.Objects()["o"]; string(b) != c.there {
				t.Errorf("it leaves %q", b)
			}
			_, err = s.PutIfMatch(ctx, object("v", "whole"), Absent)
			if status(err) != c.status || errors.Is(err, ErrChanged) != (c.is != nil) || (err == nil) != (c.name == "none") {
				t.Errorf("put on a condition: %v", err)
			}
			if b := m.Objects()["v"]; string(b) != c.there {
				t.Errorf("on a condition it leaves %q", b)
			}
			if err = s.Put(ctx, object("p", "whole")); status(err) != c.status || (err == nil) != (c.status == 0) {
				t.Errorf("put: %v", err)
			}
			if b := m.Objects()["p"]; string(b) != c.there {
				t.Errorf("put leaves %q", b)
			}
			err = s.PutFrom(ctx, "s", 5, strings.NewReader("whole"), true)
			if status(err) != c.status || errors.Is(err, ErrExists) != (c.is != nil) || (err == nil) != (c.name == "none") {
				t.Errorf("put as a stream: %v", err)
			}
			if b := m.Objects()["s"]; string(b) != c.there {
				t.Errorf("as a stream it leaves %q", b)
			}
			if err := m.Put(ctx, object("o", "whole")); err != nil {
				t.Fatal(err)
			}
			read, err := readAll(s, "o", 0, -1)
			if good := c.name == "none" || c.name == "repeated"; (err == nil) != good || good && string(read) != "whole" ||
				c.name == "half" && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("read as a stream: %q, %v", read, err)
			}
			b, err := s.Get(ctx, "o")
			if (err == nil) != (c.status == 0) || err == nil && string(b) != "whole" || err != nil && b != nil {
				t.Errorf("read: %q, %v", b, err)
			}
			if err = s.Delete(ctx, "o"); status(err) != c.status {
				t.Errorf("removed: %v", err)
			}
			if _, ok := m.Objects()["o"]; ok == (c.status == 0 || c.name == "after") {
				t.Errorf("it is there after its removal: %t", ok)
			}
		})
	}
}

// TestHalfOfSeveral: of several objects the first half is put and it is said which; a list ends in the middle and says so.
func TestHalfOfSeveral(t *testing.T) {
	ctx, m := context.Background(), NewMemory()
	s := NewFaulty(m, 1, task.Goroutines{}, Faults{Half: 1})
	var all []Object
	for i := range 20 {
		all = append(all, object(fmt.Sprintf("o%02d", i), "x"))
	}
	var p *Partial
	if err := s.Put(ctx, all...); !errors.As(err, &p) {
		t.Fatal(err)
	}
	for i, done := range p.Done {
		if _, there := m.Objects()[all[i].Name]; there != done || done != (i < 10) {
			t.Errorf("%s: there %t, said %t", all[i].Name, there, done)
		}
	}
	lengths := map[int]bool{}
	for range 50 {
		found, err := list(s, "", "")
		if err == nil || len(found) >= 10 {
			t.Fatalf("%d objects, %v", len(found), err)
		}
		lengths[len(found)] = true
	}
	if len(lengths) < 3 {
		t.Errorf("lists end after %v", lengths)
	}
	if err := s.Delete(ctx, "o00", "o01"); err == nil {
		t.Error("half a removal is a success")
	}
	if _, there := m.Objects()["o00"]; there || len(m.Objects()) != 9 {
		t.Errorf("%d objects", len(m.Objects()))
	}
}

// TestASeedRepeats: the same calls meet the same faults, another seed's others, and about as many as was said.
func TestASeedRepeats(t *testing.T) {
	run := func(seed uint64) (story string) {
		s := NewFaulty(NewMemory(), seed, task.Goroutines{}, Faults{Refused: 0.1, Before: 0.1, After: 0.1, Repeated: 0.1, Half: 0.1})
		for i := range 400 {
			err := s.PutIfAbsent(context.Background(), object(fmt.Sprint(i), "xy"))
			story += fmt.Sprintln(err)
		}
		return story
	}
	first, again := run(1), run(1)
	if first != again || first == run(2) {
		t.Error("a seed does not say what happens")
	}
	if good := bytes.Count([]byte(run(3)), []byte("<nil>")); good < 160 || good > 240 {
		t.Errorf("%d of 400 go well, not about half", good)
	}
}

// steps is a task.Runner in which time passes as soon as a task waits for nothing else. Tasks run when their answers are waited for, or
// when the test says so.
type steps struct {
	waiting []func()
	waited  time.Duration // in all
}

func (s *steps) Go(f func()) { s.waiting = append(s.waiting, f) }

func (s *steps) run() {
	for len(s.waiting) > 0 {
		f := s.waiting[0]
		s.waiting = s.waiting[1:]
		f()
	}
}

func (s *steps) Wait(d time.Duration, on ...<-chan struct{}) int {
	if d >= 0 {
		s.waited += d
		return -1
	}
	for i := len(on) - 1; i >= 0; i-- { // the end of a context first
		select {
		case <-on[i]:
			return i
		default:
		}
	}
	s.run()
	return s.Wait(d, on...)
}

func (s *steps) Timeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

func (s *steps) Yield() {}

// TestACallerThatGivesUpDoesNotTakeItBack: of the uploads that are on their way when their callers leave, some take effect later.
func TestACallerThatGivesUpDoesNotTakeItBack(t *testing.T) {
	m, tasks := NewMemory(), &steps{}
	s := NewFaulty(m, 1, tasks, Faults{Delay: time.Hour})
	ctx, cancel := context.WithCancel(context.Background())
	if err := s.PutIfAbsent(ctx, object("first", "x")); err != nil {
		t.Fatal(err)
	}
	if tasks.waited <= 0 || tasks.waited > time.Hour {
		t.Errorf("one call took %v", tasks.waited)
	}
	cancel()
	const n = 40
	for i := range n {
		if err := s.PutIfAbsent(ctx, object(fmt.Sprint(i), "x")); !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
	}
	if b, err := s.Get(ctx, "first"); b != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("read by a caller that has given up: %q, %v", b, err)
	}
	if got := len(m.Objects()); got != 1 {
		t.Errorf("%d uploads have arrived already", got)
	}
	tasks.run()
	if got := len(m.Objects()) - 1; got < n/4 || got > 3*n/4 {
		t.Errorf("%d of %d uploads arrived", got, n)
	}
}
