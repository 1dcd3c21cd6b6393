package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// journal is the script's actions on each member with their times, and the clients' failures. Its methods may be called from any goroutine.
type journal struct {
	mu       sync.Mutex
	away     map[string][]span // guarded by mu: by member, when it was stopped, frozen or shut out
	noLeader []span            // guarded by mu: when no leader could be
	failed   []failure         // guarded by mu
}

// span is a time. A zero end: it lasts.
type span struct{ began, ended time.Time }

// failure is one request of a client that was not answered as it should be.
type failure struct {
	client       string // what kind of client
	member       string // "": it chose by itself
	began, ended time.Time
	text         string
}

// clientNotice is the time that a client may need to notice a returned member. Until then its connection may be the old one, or wait for
// its next try.
const clientNotice = 3 * time.Second

func newJournal() *journal { return &journal{away: map[string][]span{}} }

func (j *journal) add(member string) { j.gone(member) }

// gone notes that a member cannot be expected to answer from now on.
func (j *journal) gone(member string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := j.away[member]
	if len(all) > 0 && all[len(all)-1].ended.IsZero() {
		return
	}
	j.away[member] = append(all, span{began: time.Now()})
}

// back notes that it must answer again.
func (j *journal) back(member string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if all := j.away[member]; len(all) > 0 && all[len(all)-1].ended.IsZero() {
		all[len(all)-1].ended = time.Now()
	}
}

// leaderless notes that no leader can be until the function it returns is called.
func (j *journal) leaderless() (leads func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := len(j.noLeader)
	j.noLeader = append(j.noLeader, span{began: time.Now()})
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.noLeader[i].ended.IsZero() {
			j.noLeader[i].ended = time.Now()
		}
	}
}

// fail notes a request that failed.
func (j *journal) fail(f failure) {
	f.ended = time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failed = append(j.failed, f)
}

// meets reports whether a request that began and ended then had to do with the span.
func (s span) meets(began, ended time.Time) bool {
	return ended.After(s.began) && (s.ended.IsZero() || began.Before(s.ended.Add(clientNotice)))
}

// excused reports whether a failure is none of the cluster's: no leader could be, or the member asked was away. j.mu is held.
func (j *journal) excused(f failure) bool {
	for _, s := range j.noLeader {
		if s.meets(f.began, f.ended) {
			return true
		}
	}
	for name, spans := range j.away {
		if f.member != "" && name != f.member {
			continue
		}
		for _, s := range spans {
			if s.meets(f.began, f.ended) {
				return true
			}
		}
	}
	return false
}

// judge says what went wrong for which no member's absence is the reason, and how many seconds no leader could be.
func (j *journal) judge() (note string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	excused, bad := 0, map[string]int{}
	first := map[string]failure{}
	for _, f := range j.failed {
		if j.excused(f) {
			excused++
			continue
		}
		key := f.client + ": " + f.text
		if bad[key]++; bad[key] == 1 {
			first[key] = f
		}
	}
	var leaderless time.Duration
	for _, s := range j.noLeader {
		leaderless += s.ended.Sub(s.began)
	}
	note = fmt.Sprintf("%d requests failed at members that were away, or while no leader could be (%.1f s in %d times)", excused, leaderless.Seconds(), len(j.noLeader))
	if len(bad) == 0 {
		return note, nil
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(bad)) {
		f := first[key]
		all = append(all, fmt.Sprintf("%d x %s (at %s, the first at %s after %s)", bad[key], key, f.member, f.began.Format(time.TimeOnly), f.ended.Sub(f.began).Round(time.Millisecond)))
	}
	return note, fmt.Errorf("failed although a leader could be: %s", strings.Join(all, "; "))
}
