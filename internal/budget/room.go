package budget

// Room is what one member has for what is kept: the share of each Kept claim, and what its caches can lend to all of them together.
// Kept state is the same on every member, so the smallest member's Room bounds it on all of them.
type Room struct {
	Own  []Own // by name
	Loan int64 // bytes
}

// Own is the share of one Kept claim, in bytes.
type Own struct {
	Claim string
	Bytes int64
}

// For returns how many bytes the claim may have, if held is what each claim has now: its own share, and what the other claims have left of
// the loan. Less than what it has: it has borrowed what another one needs, or the member's memory has become smaller. Nothing is
// taken back then, only nothing is added.
func (r Room) For(claim string, held func(claim string) int64) int64 {
	own, loan := int64(0), r.Loan
	for _, o := range r.Own {
		if o.Claim == claim {
			own = o.Bytes
		} else {
			loan -= max(held(o.Claim)-o.Bytes, 0)
		}
	}
	return own + max(loan, 0)
}

// borrowed is what the claims hold beyond their own shares.
func (r Room) borrowed(held func(claim string) int64) (bytes int64) {
	for _, o := range r.Own {
		bytes += max(held(o.Claim)-o.Bytes, 0)
	}
	return bytes
}

// has reports whether the member has such a claim.
func (r Room) has(claim string) bool {
	for _, o := range r.Own {
		if o.Claim == claim {
			return true
		}
	}
	return false
}
