package lease

import (
	"math/rand/v2"
	"slices"
	"testing"

	mkv "github.com/holdfastdb/holdfast/machine/kv"
)

func TestLeaseRunsOutOnce(t *testing.T) {
	l := NewLessor()
	l.Sync([]mkv.Lease{{ID: 1, TTL: 10}, {ID: 2, TTL: 5}}, 1000)
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
	l.Add(mkv.Lease{ID: 1, TTL: 10}, 0)
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
	l.Add(mkv.Lease{ID: 1, TTL: 10}, 19_999)
	if got := l.NextDeadline(); got != 19_999 {
		t.Errorf("adding a known lease moved its deadline to %d", got)
	}
}

func TestRetryAfterRefusedRevocation(t *testing.T) {
	l := NewLessor()
	l.Add(mkv.Lease{ID: 1, TTL: 1}, 0)
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
	l.Add(mkv.Lease{ID: 1, TTL: 9_000_000_000_000_000}, 5)
	if got := l.NextDeadline(); got <= 5 || got == Never {
		t.Errorf("deadline %d", got)
	}
}

// TestLessorAgainstModel compares with a map of deadlines under random calls.
func TestLessorAgainstModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	l := NewLessor()
	ttl, deadline := map[int64]int64{}, map[int64]int64{}
	now := int64(0)
	for step := range 20_000 {
		now += rnd.Int64N(200)
		id := rnd.Int64N(300) + 1
		switch rnd.IntN(5) {
		case 0, 1:
			if _, ok := ttl[id]; !ok {
				ttl[id] = rnd.Int64N(30) + 1
				deadline[id] = now + ttl[id]*1000
			}
			var all []mkv.Lease
			for id, t := range ttl {
				all = append(all, mkv.Lease{ID: id, TTL: t})
			}
			l.Sync(all, now)
		case 2:
			got, state := l.Renew(id, now)
			want, ok := ttl[id]
			switch {
			case !ok && state != Unknown, ok && deadline[id] <= now && state != Expiring, ok && deadline[id] > now && (state != Live || got != want):
				t.Fatalf("step %d: renew %d at %d: ttl %d state %d; ttl %d deadline %d", step, id, now, got, state, want, deadline[id])
			}
			if state == Live {
				deadline[id] = now + want*1000
			}
		case 3:
			delete(ttl, id)
			delete(deadline, id)
			l.Revoked([]int64{id})
		case 4:
			due := l.Due(now, 3)
			for _, id := range due {
				if at, ok := deadline[id]; !ok || at > now {
					t.Fatalf("step %d: lease %d due at %d, deadline %d", step, id, now, at)
				}
				delete(ttl, id)
				delete(deadline, id)
			}
			l.Revoked(due)
		}
		if l.Len() != len(ttl) {
			t.Fatalf("step %d: %d leases, want %d", step, l.Len(), len(ttl))
		}
	}
}

func BenchmarkSync100k(b *testing.B) {
	all := make([]mkv.Lease, 100_000)
	for i := range all {
		all[i] = mkv.Lease{ID: int64(i + 1), TTL: 60}
	}
	l := NewLessor()
	for b.Loop() {
		l.Sync(all, 0)
	}
}
