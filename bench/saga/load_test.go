package main

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// TestTransactionsAreWrittenAsDTMsClientWritesThem.
func TestTransactionsAreWrittenAsDTMsClientWritesThem(t *testing.T) {
	for want, tr := range map[string]transaction{
		`{"gid":"g-1","trans_type":"saga","wait_result":true,"concurrent":false,"steps":[{"action":"http://a","compensate":"http://b"},` +
			`{"action":"http://c","compensate":"http://d"}],"payloads":["{}","{}"],"protocol":""}`: {gid: "g-1", kind: "saga", wait: true,
			steps: [][2]string{{"http://a", "http://b"}, {"http://c", "http://d"}}},
		`{"gid":"m","trans_type":"msg","custom_data":"{\"delay\":10}","request_timeout":60,"concurrent":false,"steps":[{"action":"http://a"}],` +
			`"payloads":["{}"],"protocol":""}`: {gid: "m", kind: "msg", delay: 10, timeout: 60, steps: [][2]string{{"http://a", ""}}},
	} {
		got := string(tr.append(nil))
		if got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestServicesWriteDownWhoWasCalled: that is what answers are checked against.
func TestServicesWriteDownWhoWasCalled(t *testing.T) {
	s, err := newServices(2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	call := func(url, args string) int {
		t.Helper()
		code, _, err := fasthttp.Post(nil, url+"?trans_type=saga&"+args, nil)
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	if code := call(s.url(0, agrees), "gid=a&branch_id=01&op=action"); code != 200 {
		t.Errorf("status %d", code)
	}
	if code := call(s.url(1, refuses), "gid=a&branch_id=02&op=action"); code != 409 {
		t.Errorf("the refusal has status %d", code)
	}
	for range 2 {
		if code := call(s.url(3, refuses), "gid=a&branch_id=02&op=compensate"); code != 200 {
			t.Errorf("a compensation has status %d", code)
		}
	}
	before := time.Now()
	call(s.url(0, stamps), "gid=b&branch_id=01&op=action")
	first := s.seen("b").stamped
	call(s.url(0, stamps), "gid=b&branch_id=01&op=action")
	if again := s.seen("b"); first.Before(before) || !again.stamped.Equal(first) || again.action[0] != 2 {
		t.Errorf("stamped %v, then %+v", first, again)
	}
	if got := s.seen("a"); got != (calls{action: [2]uint16{1, 1}, compensate: [2]uint16{0, 2}}) {
		t.Errorf("%+v", got)
	}
	var wg sync.WaitGroup
	wg.Go(func() { call(s.url(1, hangs), "gid=c&branch_id=02&op=action") })
	for s.hanging.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	s.release()
	wg.Wait()
}

// TestAnAnswerIsComparedWithTheCalls.
func TestAnAnswerIsComparedWithTheCalls(t *testing.T) {
	two := func(a, b uint16) [2]uint16 { return [2]uint16{a, b} }
	for _, c := range []struct {
		action, compensate [2]uint16
		done, good         bool
		repeated           int
	}{
		{two(1, 1), two(0, 0), true, true, 0},
		{two(2, 1), two(0, 0), true, true, 1},
		{two(1, 1), two(1, 3), false, true, 2},
		{two(1, 0), two(0, 0), true, false, 0},  // done without its second action
		{two(1, 1), two(0, 1), true, false, 0},  // done and undone
		{two(1, 1), two(0, 1), false, false, 0}, // half undone
		{two(0, 1), two(1, 1), false, false, 0}, // undone without an attempt
	} {
		repeated, err := (calls{action: c.action, compensate: c.compensate}).judge("g", c.done)
		if (err == nil) != c.good || repeated != c.repeated {
			t.Errorf("%+v: %d, %v", c, repeated, err)
		}
	}
}

// TestRefusalsAreEvenlySpread.
func TestRefusalsAreEvenlySpread(t *testing.T) {
	for _, r := range []refusal{0, 1, 50, 100} {
		for from := range 300 {
			n := 0
			for i := range 100 {
				if r.of(from + i) {
					n++
				}
			}
			if n != int(r) {
				t.Fatalf("%d of 100 from %d on", n, from)
			}
		}
	}
}

// TestTimesAreTakenFromWhenASagaWasDue: one slow answer makes those behind it late, and that is seen.
func TestTimesAreTakenFromWhenASagaWasDue(t *testing.T) {
	got := []time.Duration{5 * time.Millisecond, time.Millisecond, 3 * time.Millisecond, 2 * time.Millisecond}
	if l := latency(got); l != (Latency{4, 3, 5, 5}) {
		t.Errorf("%+v", l)
	}
	if _, err := paced(canceled(), 1000, 1, time.Second, nil); err == nil {
		t.Error("it went on after the end")
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestDelaysAreJudged: early, late and lost.
func TestDelaysAreJudged(t *testing.T) {
	d := judgeDelays([]time.Duration{-time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond, never})
	if !reflect.DeepEqual(*d, Delayed{Messages: 4, Early: 1, Lost: 1, P50: 2, P99: 4, Max: 4}) {
		t.Errorf("%+v", d)
	}
	if text := (&Delayed{Server: dtm, Messages: 4, Lost: 1}).String(); !strings.Contains(text, "1 not delivered") {
		t.Error(text)
	}
}
