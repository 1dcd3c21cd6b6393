// Package lease lets leases run out. The log knows that a lease was granted and for how long, not when it ends: that is
// decided by the leader, whose Worker keeps a deadline for every lease in memory, renews it when its owner says so, and
// proposes the revocation of those that ran out.
//
// A new leader gives every lease its full time again, so a lease never ends early because the leader changed; it may end
// late. Nothing is decided outside one term: revocations are proposed under the term in which the deadline passed, and a
// renewal is answered only after a round that confirmed the leadership. A leader that was deposed while it slept can
// therefore neither revoke a lease nor tell its owner that it still holds it.
//
// Lessor is the part that decides, without goroutines or a clock, so that a simulator can drive it; Worker is the
// goroutines around it.
package lease
