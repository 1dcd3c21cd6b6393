package machine

import (
	"fmt"
	"math"
	"strings"
	"testing"

	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
)

// TestStories are sequences of commands with what a client hears. The answers are those of etcd 3.4; conformance/v2diff
// compares the two directly.
func TestStories(t *testing.T) {
	stories := map[string]string{
		"keys": `
			set /a=1 → set /a=1 4,4
			set /a=2 → set /a=2 5,5 was /a=1 4,4
			create /a=3 → 105 /a (5)
			create /b=3 → create /b=3 6,6
			update /a=4 → update /a=4 5,7 was /a=2 5,5
			update /none=4 → 100 /none (7)
			delete /a → delete /a= 5,8 was /a=4 5,7
			delete /a → 100 /a (8)`,
		"directories": `
			set /a/b/c=1 → set /a/b/c=1 4,4
			set /a=1 → 102 /a (4)
			set /a dir → 102 /a (4)
			set /a/b/c/d=1 → 104 /a/b/c (4)
			delete /a → 102 /a (4)
			delete /a dir → 108 /a (4)
			set /e dir → set /e/ 5,5
			delete /e dir → delete /e/ 5,6 was /e/ 5,5
			delete /a recursive → delete /a/ 4,7 was /a/ 4,4
			delete /a/b/c → 100 /a (7)
			set /f=1 → set /f=1 8,8
			set /f dir → set /f/ 9,9 was /f=1 8,8
			delete / recursive → 107 / (9)
			set /=1 → 107 / (9)
			cad / at=1 → 102  (9)`,
		"comparisons": `
			set /a=1 → set /a=1 4,4
			swap /a=2 if=0 → 101 [0 != 1] (4)
			swap /a=2 at=3 → 101 [3 != 4] (4)
			swap /a=2 if=0 at=3 → 101 [0 != 1] [3 != 4] (4)
			swap /a=2 if=1 at=4 → compareAndSwap /a=2 4,5 was /a=1 4,4
			swap /b=2 if=1 → 100 /b (5)
			cad /a if=1 → 101 [1 != 2] (5)
			cad /a if=2 → compareAndDelete /a= 4,6 was /a=2 4,5`,
		"in order": `
			post /q=1 → create /q/00000000000000000004=1 4,4
			post /q=2 → create /q/00000000000000000005=2 5,5
			post /=3 → create /00000000000000000006=3 6,6
			post /q dir → create /q/00000000000000000007/ 7,7
			set /k=1 → set /k=1 8,8
			post /k=1 → 104 /k (8)`,
		"time": `
			set /a=1 ttl=5 → set /a=1 4,4 ttl=5
			update /a=2 ttl=9 → update /a=2 4,5 ttl=9 was /a=1 4,4 ttl=5
			update /a=3 → update /a=3 4,6 was /a=2 4,5 ttl=9
			set /b=1 ttl=0 → set /b=1 7,7 ttl=0
			expire → 1
			delete /b → 100 /b (8)
			set /a ttl=3 refresh → set /a=3 9,9 ttl=3 was /a=3 4,6 quietly
			set /none ttl=3 refresh → 100 /none (9)
			set /d dir ttl=5 → set /d/ 10,10 ttl=5
			update /d ttl=7 → update /d/ 10,11 ttl=7 was /d/ 10,10 ttl=5
			update /d=x → 102 /d (11)
			set /d/e=1 → set /d/e=1 12,12`,
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for _, line := range strings.Split(strings.TrimSpace(story), "\n") {
				cmd, want, _ := strings.Cut(strings.TrimSpace(line), " → ")
				if got := r.say(cmd); got != want {
					t.Errorf("%s\n got %s\nwant %s", cmd, got, want)
				}
			}
		})
	}
}

func TestTimeIsUp(t *testing.T) {
	r := newRig(t)
	r.say("set /d dir ttl=2")
	r.say("set /d/x=1 ttl=1")
	r.say("set /d/y=1 ttl=60")
	r.say("set /k=1 ttl=3")
	if at, _, err := r.m.NextDeadline(); at != r.Tick+1000 || err != nil {
		t.Fatalf("next deadline %d, %v; the tick is %d", at, err, r.Tick)
	}
	_, sooner, _ := r.m.NextDeadline()
	r.say("set /k2=1 ttl=50")
	select {
	case <-sooner:
		t.Error("a later deadline was called an earlier one")
	default:
	}
	r.say("set /k3=1 ttl=0")
	select {
	case <-sooner:
	default:
		t.Error("an earlier deadline was not told")
	}
	r.Tick += 2500
	if got := r.say("expire limit=2"); got != "2" { // k3 and x
		t.Errorf("expired %s", got)
	}
	if got := r.say("expire"); got != "1" { // the directory, with y
		t.Errorf("expired %s", got)
	}
	if got, want := r.tree("/"), "// 0,0\n  /k=1 7,7 ttl=1\n  /k2=1 8,8 ttl=48\n"; got != want {
		t.Errorf("left:\n%swant:\n%s", got, want)
	}
	r.Tick += 100_000
	if got := r.say("expire"); got != "2" {
		t.Errorf("expired %s", got)
	}
	if at, _, _ := r.m.NextDeadline(); at != math.MaxInt64 {
		t.Errorf("a deadline is left: %d", at)
	}
	if rows := r.Dump(); strings.Contains(rows, `"et`) || strings.Contains(rows, `"en`) {
		t.Errorf("rows are left:\n%s", rows)
	}
	r.reopen(Options{})
	r.say("set /k=1 ttl=1")
	r.Tick += 2000
	if got := r.say("expire"); got != "1" {
		t.Errorf("after a restart expired %s", got)
	}
}

func TestHiddenAndSorted(t *testing.T) {
	r := newRig(t)
	for _, k := range []string{"/b", "/a/_h/x", "/_hidden/y", "/a/z", "/a!b", "/a/z_", "/a/b/_c", "/a\x00", "/a\x01"} {
		r.apply(&v2part.Part{Kind: v2part.Set, Path: []byte(k), Value: []byte("v")})
	}
	want := "// 0,0\n  /a/ 5,5\n    /a/b/ 10,10\n    /a/z=v 7,7\n    /a/z_=v 9,9\n  /a\x00=v 11,11\n  /a\x01=v 12,12\n  /a!b=v 8,8\n  /b=v 4,4\n"
	if got := r.tree("/"); got != want {
		t.Errorf("got:\n%q\nwant:\n%q", got, want)
	}
	if got, want := r.tree("/_hidden"), "/_hidden/ 6,6\n  /_hidden/y=v 6,6\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	var flat []string
	r.m.List([]byte("/a"), false, r.Tick, 1<<20, func(_ int, n *Node) { flat = append(flat, string(n.Path)) })
	if got := strings.Join(flat, " "); got != "/a /a/b /a/z /a/z_" {
		t.Errorf("listed %s", got)
	}
	if _, err := r.m.List([]byte("/"), true, r.Tick, 10, func(int, *Node) {}); err != ErrTooLarge {
		t.Errorf("a listing over its budget: %v", err)
	}
}

func TestHistory(t *testing.T) {
	for _, opt := range []Options{{}, {RecentBytes: 20_000}} {
		t.Run(fmt.Sprint(opt.RecentBytes), func(t *testing.T) {
			r := openRig(t, newRig(t).Store, opt)
			check := func() {
				t.Helper()
				start := historyStart(r.m.Index())
				for since := start; since <= r.m.Index(); since++ {
					e, _, err := r.m.Scan(since, func(*Event) bool { return true })
					if since <= freshIndex && err == nil {
						continue // nothing happened at these
					}
					if err != nil || e == nil || e.Index() != since {
						t.Fatalf("event %d: %v, %v", since, e, err)
					}
				}
				_, _, err := r.m.Scan(start-1, func(*Event) bool { return true })
				if ref, ok := err.(*v2part.Refusal); start > 1 && (!ok || ref.Code != v2part.IndexCleared) {
					t.Fatalf("before the history: %v", err)
				}
				if e, _, err := r.m.Scan(r.m.Index()+5, func(*Event) bool { return true }); e != nil || err != nil {
					t.Fatalf("the future: %v, %v", e, err)
				}
			}
			check()
			for i := range 60 {
				var parts []*v2part.Part
				for j := range i {
					parts = append(parts, &v2part.Part{Kind: v2part.Set, Path: fmt.Appendf(nil, "/d/%d", j), Value: make([]byte, 100)})
				}
				r.apply(parts...)
				if i%7 == 0 {
					check()
				}
			}
			check()
			r.reopen(opt)
			check()
			if got := strings.Count(r.Dump(), `"eh`); got > 60 {
				t.Errorf("%d rows of history", got)
			}
			// The feed follows without a gap.
			after := r.m.Index()
			r.say("set /x=1")
			r.say("set /x=2")
			evs, index, ok, _ := r.m.Recent(after)
			if !ok || len(evs) != 2 || evs[0].Index() != after+1 || index != after+2 {
				t.Errorf("recent: %d events, at %d, %v", len(evs), index, ok)
			}
			if _, _, ok, changed := r.m.Recent(index); !ok || changed == nil {
				t.Error("nothing to wait for")
			}
			if opt.RecentBytes > 0 {
				if _, _, ok, _ := r.m.Recent(after - 900); ok {
					t.Error("a ring of 20,000 bytes holds 900 events")
				}
			}
		})
	}
}
