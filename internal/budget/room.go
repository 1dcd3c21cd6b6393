package budget

// Room is one member's room for Kept claims: the share of each, and the amount its caches can lend to all of them together. Kept state is
// the same on every member, so the smallest member's Room bounds it on all of them.
type Room struct {
	Own  []Own // by name
	Loan int64 // bytes
}

// Own is the share of one Kept claim, in bytes.
type Own struct {
	Claim string
	Bytes int64
}

// For returns how many bytes the claim may have: its own share, and the rest of the loan that other claims leave. held returns each claim's
// bytes. A result below the claim's bytes means that it has borrowed room that another claim needs, or the member's memory has shrunk.
// Nothing is taken back then, only nothing is added.
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

// borrowed is the bytes that the claims hold beyond their own shares.
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
