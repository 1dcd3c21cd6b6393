// Package lease lets leases run out. The log knows that a lease was granted and for how long, not when it ends. The leader decides that.
// Its Worker keeps a deadline for every lease in memory, renews it for its owner, and proposes the revocation of expired leases.
//
// A new leader gives every lease its full time again, so a lease never ends early because the leader changed; it may end late. Nothing is
// decided outside one term. Revocations are proposed under the term in which the deadline passed, and a renewal is answered only after a
// round that confirmed the leadership. A leader that was deposed while it slept can therefore neither revoke a lease nor tell its owner
// that it still holds it.
//
// Lessor is the part that decides, without goroutines or a clock, so that a simulator can drive it; Worker is the goroutines around it.
package lease
