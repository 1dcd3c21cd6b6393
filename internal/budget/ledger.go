package budget

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// Holder tells what one claim holds and takes another bound. Its functions may be called from any goroutine.
type Holder struct {
	// Held returns the bytes held now; nil: not counted.
	Held func() int64
	// Bound sets the most that the holder may have, in bytes, between its floor and its share. Memory above it goes soon: a Cache drops it,
	// and a Passing holder takes no more until work has ended. Nil: it lends nothing. A Kept or Open claim lends nothing either.
	Bound func(bytes int64)
}

// Ledger is the holders of one process's shares, and the loans from lenders to Kept and Open claims. Its methods may be called from any
// goroutine.
type Ledger struct {
	claims []Claim // never changed
	share  map[string]int64

	mu      sync.Mutex
	holders map[string]Holder // guarded by mu
	lent    int64             // guarded by mu: bytes that lenders were told to do without

	others atomic.Pointer[[]Room] // of the other members; nil: none has been heard of
}

func newLedger(claims []Claim, share map[string]int64) *Ledger {
	return &Ledger{claims: claims, share: share, holders: map[string]Holder{}}
}

// Hold enters the holder of a claim; a second one takes the place of the first. A nil Ledger has no holders.
func (l *Ledger) Hold(claim string, h Holder) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders[claim] = h
}

// held returns a claim's bytes, 0 if they are not counted.
func (l *Ledger) held(claim string) int64 {
	l.mu.Lock()
	h := l.holders[claim].Held
	l.mu.Unlock()
	if h == nil {
		return 0
	}
	return h() // without the lock: it may take others
}

// lender is a claim that lends, and how much of its share is above its floor.
type lender struct {
	claim       string
	bound       func(bytes int64)
	share, more int64
}

// may is the lender's bound while lent bytes of a possible loan are lent.
func (c *lender) may(lent, loan int64) int64 {
	return c.share - int64(float64(lent)/float64(loan)*float64(c.more))
}

// lenders returns the claims whose holders take another bound, and how much they can lend together. The caller holds mu.
func (l *Ledger) lenders() (all []lender, loan int64) {
	for _, c := range l.claims {
		h := l.holders[c.Name]
		if c.Kind != Cache && c.Kind != Passing || h.Bound == nil {
			continue
		}
		if more := l.share[c.Name] - c.Floor; more > 0 {
			all = append(all, lender{c.Name, h.Bound, l.share[c.Name], more})
			loan += more
		}
	}
	return all, loan
}

// Own returns this member's room for Kept claims, for the other members.
func (l *Ledger) Own() Room { return l.own(Kept) }

// own returns what this member has for claims of some kinds.
func (l *Ledger) own(kinds ...Kind) (r Room) {
	l.mu.Lock()
	_, r.Loan = l.lenders()
	l.mu.Unlock()
	for _, c := range l.claims {
		if slices.Contains(kinds, c.Kind) {
			r.Own = append(r.Own, Own{c.Name, l.share[c.Name]})
		}
	}
	slices.SortFunc(r.Own, func(a, b Own) int { return cmp.Compare(a.Claim, b.Claim) })
	return r
}

// Others sets the other members' rooms. Kept state is on every member, so the smallest room bounds it.
func (l *Ledger) Others(rooms []Room) { l.others.Store(&rooms) }

// Room returns the most that a claim may have, in bytes, and no more than its ceiling. For a Kept claim it is the least of all known
// members, for an Open one this member's.
func (l *Ledger) Room(claim string) int64 {
	least := l.own(Kept, Open).For(claim, l.held)
	for _, c := range l.claims {
		if c.Name != claim {
			continue
		}
		if c.Ceiling > 0 {
			least = min(least, c.Ceiling)
		}
		if c.Kind == Open { // the other members have clients of their own
			return least
		}
	}
	if others := l.others.Load(); others != nil {
		for _, r := range *others {
			if r.has(claim) { // an older build has no such claim, and no bound
				least = min(least, r.For(claim, l.held))
			}
		}
	}
	return least
}

// Balance has lenders lend the bytes that Kept and Open claims hold beyond their shares, each in proportion to its bytes above its floor.
// It takes unneeded loans back. It is called about once a second: grants in between are a small part of the distance to Go's limit.
func (l *Ledger) Balance() {
	borrowed := l.own(Kept, Open).borrowed(l.held)
	l.mu.Lock()
	defer l.mu.Unlock()
	lenders, loan := l.lenders()
	lent := min((borrowed+mib-1)/mib*mib, loan) // in steps: a bound that changes costs a cache some work
	if lent == l.lent {
		return
	}
	l.lent = lent
	for _, c := range lenders {
		c.bound(c.may(lent, loan))
	}
}

// Entry is one claim as an operator sees it, in bytes.
type Entry struct {
	Claim string
	Kind  Kind
	Share int64
	// May is its present bound. It is below its share for a lender while it lends, and above it for a Kept or Open claim while lenders can
	// lend.
	May int64
	// Held is its bytes, -1 if they are not counted.
	Held int64
}

// Entries lists the claims in the order in which they were brought, and how much is lent.
func (l *Ledger) Entries() (all []Entry, lent int64) {
	l.mu.Lock()
	lenders, loan := l.lenders()
	lent = l.lent
	counted := map[string]func() int64{}
	for claim, h := range l.holders {
		counted[claim] = h.Held
	}
	l.mu.Unlock()
	may := map[string]int64{}
	for i := range lenders {
		may[lenders[i].claim] = lenders[i].may(lent, loan)
	}
	for _, c := range l.claims {
		e := Entry{Claim: c.Name, Kind: c.Kind, Share: l.share[c.Name], Held: -1}
		e.May = cmp.Or(may[c.Name], e.Share)
		if c.Kind == Kept || c.Kind == Open {
			e.May = l.Room(c.Name)
		}
		if held := counted[c.Name]; held != nil {
			e.Held = held()
		}
		all = append(all, e)
	}
	return all, lent
}
