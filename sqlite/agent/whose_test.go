package agent

import (
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// TestWhoWroteLast: this disk was the last to write if the last group is its own, or the fence at the end. It also was if it began the
// replica and no other agent has taken that over. Everything else belongs to another disk.
func TestWhoWroteLast(t *testing.T) {
	const next = 12
	// began is a disk whose agent has begun a replica and was killed, and whose only group cannot be read.
	began := func(v *view) {
		v.here.stated, v.here.state = true, known{Owner: me, Replica: thisPlace, Identity: itsIdentity}
		v.there.groupBy, v.there.head.Owner = 0, 0
	}
	// fence is a disk whose agent has made the fence at the end, and was killed before its state said so.
	fence := func(v *view) {
		v.here.stated, v.here.state = true, known{Owner: me, Next: next, TXID: 9, Replica: thisPlace, Identity: itsIdentity}
		v.there.groupBy, v.there.head.Owner, v.there.head.Fence, v.there.fenced = foe, next, true, true
	}
	with := func(first, then func(v *view)) func(v *view) { return func(v *view) { first(v); then(v) } }
	wroteLast := func(v *view) { wrote(v, newest) }
	for name, c := range map[string]struct {
		set  func(v *view)
		mine bool
	}{
		"the last group is its own":                    {wroteLast, true},
		"the last group is the next owner's":           {with(wroteLast, func(v *view) { v.here.state.Owner, v.here.state.Next = foe, me }), true},
		"the last group is another disk's":             {with(wroteLast, func(v *view) { v.there.groupBy = foe }), false},
		"it has no state":                              {with(wroteLast, func(v *view) { v.here.stated = false }), false},
		"its state says that it was fenced":            {with(wroteLast, func(v *view) { v.here.state.Fenced = true }), false},
		"its state is of another replica":              {with(wroteLast, func(v *view) { v.here.state.Identity = anotherOne }), false},
		"it began the replica":                         {began, true},
		"the last group is known to be another's":      {with(began, func(v *view) { v.there.groupBy = foe }), false},
		"it has compared itself with a later state":    {with(began, func(v *view) { v.here.state.TXID = 8 }), false},
		"its state names no owner":                     {with(began, func(v *view) { v.here.state.Owner = 0 }), false},
		"its state names no identity":                  {with(began, func(v *view) { v.here.state.Identity = "" }), false},
		"the replica has no identity":                  {with(began, func(v *view) { v.there.identity = "" }), false},
		"another agent has taken over what it began":   {with(began, func(v *view) { v.there.fenced = true }), false},
		"it has made the fence":                        {fence, true},
		"the fence is the owner's that its state has":  {with(fence, func(v *view) { v.here.state.Owner, v.here.state.Next = next, 0 }), true},
		"the fence is another disk's":                  {with(fence, func(v *view) { v.there.head.Owner = foe }), false},
		"nobody knows whose the fence is":              {with(fence, func(v *view) { v.there.head.Owner, v.here.state.Next = 0, 0 }), false},
		"an earlier version names the fence's owner":   {with(fence, func(v *view) { v.here.state.Replica, v.here.state.Identity = "", "" }), false},
		"what the next owner has at the end is a file": {with(fence, func(v *view) { v.there.head.Fence = false }), false},
	} {
		if got := lying(c.set).mine(); got != c.mine {
			t.Errorf("%s: this disk wrote last: %v", name, got)
		}
	}
}

// TestWhereAStateComesFrom: identities tell whether a state is about the replica that lies there. The place tells where one of them is missing.
func TestWhereAStateComesFrom(t *testing.T) {
	for _, c := range []struct {
		identity, place, there string
		want                   bool
	}{
		{itsIdentity, thisPlace, itsIdentity, true},
		{itsIdentity, elsewhere, itsIdentity, true}, // the store has another address
		{anotherOne, thisPlace, itsIdentity, false}, // another store has this address
		{"", thisPlace, itsIdentity, true},
		{"", elsewhere, itsIdentity, false},
		{"", "", itsIdentity, true}, // an earlier version
		{itsIdentity, thisPlace, "", true},
		{itsIdentity, elsewhere, "", false},
	} {
		v := lying(func(v *view) { v.there.identity = c.there })
		if got := v.fromHere(c.identity, c.place); got != c.want {
			t.Errorf("a state of %q at %q, and %q lies there: %v", c.identity, c.place, c.there, got)
		}
	}
}

// TestWhatTheReplicaHasPassed: a database is an earlier state of its replica if a file there ends with it. It also is if this disk stored
// it and made it durable.
func TestWhatTheReplicaHasPassed(t *testing.T) {
	ended := func(v *view) {
		v.here.sum = other
		v.here.stated, v.here.state = true, known{Owner: me, TXID: 5, Checksum: other, Clean: true, Replica: thisPlace, Identity: itsIdentity}
	}
	for name, c := range map[string]struct {
		set  func(v *view)
		want bool
	}{
		"a file there ends with it":               {behindBy, true},
		"no file ends with it":                    {func(v *view) { v.here.sum = other }, false},
		"this disk stored it":                     {ended, true},
		"this disk stored it as the newest state": {func(v *view) { ended(v); v.here.state.TXID = 9 }, true},
		"this disk stored a later state":          {func(v *view) { ended(v); v.here.state.TXID = 10 }, false},
		"it was written to since":                 {func(v *view) { ended(v); v.here.sum = other + 1 }, false},
		"it was not made durable":                 {func(v *view) { ended(v); v.here.state.Clean = false }, false},
		"the state is damaged":                    {func(v *view) { ended(v); v.here.stated = false }, false},
		"the state is of another replica":         {func(v *view) { ended(v); v.here.state.Identity = anotherOne }, false},
	} {
		if got := lying(c.set).past(); got != c.want {
			t.Errorf("%s: it is an earlier state: %v", name, got)
		}
	}
}

// TestADamagedEndIsStoredAnewFromTheDiskThatKnowsIt: the newest state in the store cannot be restored. A database that is known to be that state is
// stored anew; another one is refused.
func TestADamagedEndIsStoredAnewFromTheDiskThatKnowsIt(t *testing.T) {
	// compared is a disk whose state names the damaged end and its checksum, although the end's owner cannot be read.
	compared := func(v *view) {
		damagedEnd(v)
		v.there.groupBy = 0
		v.here.stated, v.here.state = true, known{Owner: me, TXID: 9, Checksum: newest, Boot: "b1", Replica: thisPlace, Identity: itsIdentity}
	}
	for name, c := range map[string]struct {
		set  func(v *view)
		want action
	}{
		"its state names the end":                             {compared, toRenew},
		"its state names an earlier end":                      {func(v *view) { compared(v); v.here.state.TXID = 8 }, toRefuse},
		"its state is of another replica":                     {func(v *view) { compared(v); v.here.state.Identity = anotherOne }, toRefuse},
		"another agent took the replica from this disk":       {func(v *view) { compared(v); v.here.state.Fenced = true }, toRefuse},
		"it was written to since, and the machine still runs": {func(v *view) { compared(v); v.here.sum = other }, toRenew},
		"it was written to since a clean end": {func(v *view) {
			compared(v)
			v.here.sum, v.here.state.Clean, v.here.boot = other, true, "b2"
		}, toRenew},
		"it is another state, and the machine was started anew": {func(v *view) {
			compared(v)
			v.here.sum, v.here.boot = other, "b2"
		}, toRefuse},
	} {
		if got := decide(lying(c.set)); got.do != c.want {
			t.Errorf("%s: %s (%s), want %s", name, got.do, got.says, c.want)
		}
	}
}

// TestARefusalSaysHowFarTheReplicaReached, if the state knows it.
func TestARefusalSaysHowFarTheReplicaReached(t *testing.T) {
	for txid, want := range map[replica.TXID]string{9: "was stored there up to TXID 0000000000000009.", 0: "was stored there."} { // any order: each alone
		v := lying(func(v *view) {
			wrote(v, newest)
			nothingThere(v)
			v.here.state.TXID = txid
		})
		if got := decide(v); got.do != toRefuse || !strings.Contains(got.says, want) {
			t.Errorf("a state up to TXID %d: %s, %q, want %q", txid, got.do, got.says, want)
		}
	}
}
