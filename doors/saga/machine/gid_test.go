package machine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
)

// TestAGidThatIsAnothersBeginning: DTM's default store finds branches by the beginning of their keys, and so lost those of order-1 beside
// order-100. Here nothing is found by a gid but the whole of it, in any order and with any outcome of either.
func TestAGidThatIsAnothersBeginning(t *testing.T) {
	for _, order := range [][]string{{"order-1", "order-100"}, {"order-100", "order-1"}} {
		r := openRig(t, store.NewMem(), Options{RetentionMs: 1000})
		for _, gid := range order {
			r.must("begin " + gid + " tcc prepared first=9000")
		}
		for i := range 3 {
			for _, gid := range order {
				r.must(fmt.Sprintf("register %s branch=%02d,cancel,http://%s branch=%02d,confirm,http://%s,prepared,%s", gid, i, gid, i, gid, gid))
			}
		}
		check := func(gid string) {
			t.Helper()
			got := r.find(gid)
			if got.Gid != gid || len(got.Branches) != 6 {
				t.Fatalf("%s is %s", gid, showTransaction(got))
			}
			for _, b := range got.Branches {
				if b.URL != "http://"+gid || len(b.Payload) > 0 && string(b.Payload) != gid {
					t.Errorf("%s has a branch of another one: %s %s", gid, b.URL, b.Payload)
				}
			}
		}
		check("order-1")
		check("order-100")
		r.must("begin order-1 tcc submitted", "change order-1 results=1:succeed,3:succeed,5:succeed to=succeed")
		check("order-1")
		check("order-100")
		if got := r.find("order-100"); got.Status.Final() || got.Branches[1].Finished != 0 {
			t.Errorf("the end of order-1 became order-100's: %s", showTransaction(got))
		}
		r.Tick += 1000
		r.Apply() // order-1 is forgotten
		if got, err := r.m.Find("order-1"); got != nil || err != nil {
			t.Errorf("order-1 is %v, %v", got, err)
		}
		check("order-100")
		if n := strings.Count(r.Dump(), "order-1"); n == 0 {
			t.Error("nothing of order-100 is left")
		}
	}
}

// TestAForgottenGidMayBeUsedAgain: a holder of the old transaction's number changes nothing of the new one.
func TestAForgottenGidMayBeUsedAgain(t *testing.T) {
	r := openRig(t, store.NewMem(), Options{RetentionMs: 1000})
	r.must("begin g saga submitted steps=2 payload=2000", "change g to=failed")
	old := r.find("g").Number
	r.Tick += 999
	if got := r.say("begin g saga submitted"); got != "702 failed" {
		t.Errorf("before its time is over a second one began: %s", got)
	}
	r.Tick++
	if got := r.say("begin g saga submitted"); got != "702 failed" {
		t.Errorf("within the entry that forgets it: %s", got)
	}
	if got := r.say("begin g saga submitted steps=1"); got != "2 new → submitted" {
		t.Errorf("it began as %s", got)
	}
	for _, line := range []string{"results=0:succeed", "to=failed reason=late", "next=1 pass"} {
		if got := r.say(fmt.Sprintf("change g number=%d %s", old, line)); !strings.HasPrefix(got, "701 ") {
			t.Errorf("a change of the old one: %s", got)
		}
	}
	if got, err := r.m.FindNumber(old); got != nil || err != nil {
		t.Errorf("the old one is %v, %v", got, err)
	}
	if got := r.find("g"); got.Status.Final() || got.Updated != got.Created || len(got.Branches) != 2 {
		t.Errorf("the new one is %s", showTransaction(got))
	}
}
