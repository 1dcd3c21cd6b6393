package lease

import (
	"math/rand/v2"
	"slices"
	"testing"

	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
)

func TestLeaseRunsOutOnce(t *testing.T) {
	l := NewLessor()
	l.Sync([]kvmachine.LeaseChange{{Lease: kvmachine.Lease{ID: 1, TTL: 10}}, {Lease: kvmachine.Lease{ID: 2, TTL: 5}}}, 1000)
	if got := l.NextDeadline(); got != 6000 {
		t.Fatalf("next deadline %d, want 6000", got)
	}
	if due := l.Due(5999, 10); due != nil {
		t.Errorf("due before its time: %v", due)
	}
	if due := l.Due(6000, 10); !slices.Equal(due, []int64{2}) {
		t.Errorf("due at 6000: %v, want [2]", due)
	}
	if due := l.Due(7000, 10); due != nil {
		t.Errorf("due twice: %v", due)
	}
	if _, state := l.Renew(2, 7000); state != Expiring {
		t.Errorf("renewing an expiring lease: state %d, want Expiring", state)
	}
	l.Revoked([]int64{2})
	if _, state := l.Renew(2, 7000); state != Unknown {
		t.Errorf("renewing a revoked lease: state %d, want Unknown", state)
	}
	if l.Len() != 1 {
		t.Errorf("%d leases left, want 1", l.Len())
	}
}

func TestRenewGivesFullTime(t *testing.T) {
	l := NewLessor()
	l.Add(kvmachine.Lease{ID: 1, TTL: 10}, 0)
	if ttl, state := l.Renew(1, 9999); ttl != 10 || state != Live {
		t.Fatalf("renew: ttl %d state %d", ttl, state)
	}
	if granted, remaining, _ := l.Remaining(1, 10_500); granted != 10 || remaining != 9 {
		t.Errorf("granted %d remaining %d, want 10 and 9", granted, remaining)
	}
	// Past its deadline it is over, whether Due came by or not.
	if _, state := l.Renew(1, 19_999); state != Expiring {
		t.Errorf("renewed at its deadline: state %d", state)
	}
	l.Add(kvmachine.Lease{ID: 1, TTL: 10}, 19_999)
	if got := l.NextDeadline(); got != 19_999 {
		t.Errorf("adding a known lease moved its deadline to %d", got)
	}
}

func TestRetryAfterRefusedRevocation(t *testing.T) {
	l := NewLessor()
	l.Add(kvmachine.Lease{ID: 1, TTL: 1}, 0)
	ids := l.Due(1000, 10)
	l.Retry(ids, 1500)
	if due := l.Due(1499, 10); due != nil {
		t.Errorf("due before the retry: %v", due)
	}
	if _, state := l.Renew(1, 1499); state != Expiring {
		t.Errorf("an expired lease was renewed while its revocation was retried")
	}
	if due := l.Due(1500, 10); !slices.Equal(due, ids) {
		t.Errorf("due at the retry: %v, want %v", due, ids)
	}
}

func TestLongestLeaseDoesNotOverflow(t *testing.T) {
	l := NewLessor()
	l.Add(kvmachine.Lease{ID: 1, TTL: 9_000_000_000_000_000}, 5)
	if got := l.NextDeadline(); got <= 5 || got == Never {
		t.Errorf("deadline %d", got)
	}
}

// TestLessorAgainstModel compares with a map of deadlines under random calls. Changes are taken in late, in order, and now and then all
// leases at once; renewals and questions look a lease up as it is.
func TestLessorAgainstModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	l := NewLessor()
	type known struct {
		deadline int64
		grant    uint64
	}
	leases := map[int64]kvmachine.Lease{} // as the machine has them
	told := map[int64]known{}             // those the lessor is to know
	var news []kvmachine.LeaseChange
	grants, now := uint64(0), int64(0)
	learn := func(x kvmachine.Lease) {
		if told[x.ID].grant < x.Grant {
			told[x.ID] = known{now + x.TTL*1000, x.Grant}
		}
	}
	end := func(id int64) {
		if x, ok := leases[id]; ok {
			news = append(news, kvmachine.LeaseChange{Lease: x, Gone: true})
			delete(leases, id)
		}
	}
	for step := range 40_000 {
		now += rnd.Int64N(300)
		id := rnd.Int64N(15) + 1
		switch rnd.IntN(8) {
		case 0, 1:
			if _, ok := leases[id]; !ok {
				grants++
				leases[id] = kvmachine.Lease{ID: id, TTL: rnd.Int64N(30) + 1, Grant: grants}
				news = append(news, kvmachine.LeaseChange{Lease: leases[id]})
			}
		case 2:
			end(id)
		case 3:
			if rnd.IntN(4) > 0 {
				break
			}
			for _, c := range news {
				if l.Change(c, now); !c.Gone {
					learn(c.Lease)
				} else if told[c.ID].grant <= c.Grant {
					delete(told, c.ID)
				}
			}
			news = nil
			for id, k := range told { // any order: each by itself
				if got := l.leases[id].deadline; got != k.deadline {
					t.Fatalf("step %d: lease %d runs out at %d, want %d", step, id, got, k.deadline)
				}
			}
		case 4:
			if rnd.IntN(4) == 0 {
				var all []kvmachine.LeaseChange
				for _, x := range leases {
					all = append(all, kvmachine.LeaseChange{Lease: x})
					learn(x)
				}
				for id, k := range told {
					if leases[id].Grant != k.grant {
						delete(told, id)
					}
				}
				l.Sync(all, now)
				news = nil
			}
		case 5, 6: // as Worker.renew
			if x, ok := leases[id]; ok {
				l.Add(x, now)
				learn(x)
			} else {
				l.Revoked([]int64{id})
				delete(told, id)
			}
			got, state := l.Renew(id, now)
			k, ok := told[id]
			want := leases[id].TTL
			switch {
			case !ok && state != Unknown, ok && k.deadline <= now && state != Expiring, ok && k.deadline > now && (state != Live || got != want):
				t.Fatalf("step %d: renew %d at %d: ttl %d state %d; ttl %d deadline %d", step, id, now, got, state, want, k.deadline)
			}
			if state == Live {
				told[id] = known{now + want*1000, k.grant}
			}
		case 7:
			due := l.Due(now, 3)
			for _, id := range due {
				if k, ok := told[id]; !ok || k.deadline > now {
					t.Fatalf("step %d: lease %d due at %d, deadline %d", step, id, now, k.deadline)
				}
				delete(told, id)
				end(id)
			}
			l.Revoked(due)
		}
		if l.Len() != len(told) {
			t.Fatalf("step %d: %d leases, want %d", step, l.Len(), len(told))
		}
		next := int64(Never)
		for _, k := range told { // any order: the least
			next = min(next, k.deadline)
		}
		if l.NextDeadline() != next {
			t.Fatalf("step %d: the next deadline is %d, want %d", step, l.NextDeadline(), next)
		}
	}
}

func BenchmarkSync100k(b *testing.B) {
	all := make([]kvmachine.LeaseChange, 100_000)
	for i := range all {
		all[i].Lease = kvmachine.Lease{ID: int64(i + 1), TTL: 60}
	}
	l := NewLessor()
	for b.Loop() {
		l.Sync(all, 0)
	}
}
