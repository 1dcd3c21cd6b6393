package sim

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/sim"
)

// Jobs are a queue: clients put rows in, and others take the first that nobody has locked, as SELECT … LIMIT 1 FOR UPDATE SKIP LOCKED and a DELETE do. Each job
// is taken by one transaction that takes effect. Who takes one writes its row in the table taken.

// post puts a job into the queue.
func (t *transaction) post() error {
	c, err := t.lock(jobs, 0, number(t.b.lastJob+1), lock.Exclusive)
	if err != nil {
		return err
	}
	job := int(binary.BigEndian.Uint32(c.key))
	if t.b.lastJob = max(t.b.lastJob, job); c.exists {
		return errTakenBack // another client was faster, and the number is in use
	}
	gone, err := t.lock(taken, 0, c.key, lock.Shared)
	if err != nil {
		return err
	}
	if gone.exists {
		return errTakenBack
	}
	t.posted = append(t.posted, job)
	return c.put(number(t.n))
}

// take takes the first job that nobody has locked.
func (t *transaction) take() error {
	tab, err := t.use(jobs, lock.IntentExclusive)
	if err != nil {
		return err
	}
	it, err := t.x.ScanNewest(tab.ID, 0, nil, nil)
	if err != nil {
		return err
	}
	var waiting [][]byte
	for ok := it.First(); ok; ok = it.Next() {
		waiting = append(waiting, bytes.Clone(it.Key()[sqlmachine.PrefixBytes:]))
	}
	err = it.Error()
	if e := it.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if t.b.r.IntN(4) == 0 {
		t.think()
	}
	for _, key := range waiting {
		c := &cell{t: t, table: tab, key: key}
		c.value, c.exists, c.stored, err = t.x.LockRow(tab.ID, 0, key, lock.Exclusive, txn.Wait{})
		if errors.Is(err, txn.ErrBusy) {
			t.b.w.Count(JobsSkipped, 1)
			continue
		}
		if err != nil {
			return err
		}
		if !c.exists && !t.b.unjudged { // it was taken since the queue was read
			continue
		}
		t.taken = append(t.taken, int(binary.BigEndian.Uint32(key)))
		t.b.w.Count(JobsTaken, 1)
		if err := c.delete(); err != nil {
			return err
		}
		to, err := t.lock(taken, 0, key, lock.Exclusive)
		if err != nil {
			return err
		}
		return to.put(number(t.n))
	}
	return nil
}

// checkJobs checks that each job that was posted waits, or was taken by one transaction.
func (b *book) checkJobs(h *sim.Member, took map[*transaction]bool) {
	posted, by := map[int]bool{}, map[int]*transaction{}
	for _, t := range b.txs {
		if !took[t] {
			continue
		}
		for _, job := range t.posted {
			if posted[job] {
				b.w.Fail(JobTwice, "job %d was posted twice, the second time by %s", job, t)
			}
			posted[job] = true
		}
		for _, job := range t.taken {
			if was := by[job]; was != nil {
				b.w.Fail(JobTwice, "job %d was taken by %s and by %s, and both took effect", job, was, t)
			}
			by[job] = t
		}
	}
	waiting := map[int]bool{}
	for _, p := range b.read(h, jobs, 0) {
		job := int(binary.BigEndian.Uint32(p.key))
		if waiting[job] = true; !posted[job] || by[job] != nil {
			b.w.Fail(JobTwice, "job %d waits; it was posted: %v, it was taken by %v", job, posted[job], by[job])
		}
	}
	for job := range posted { // any order: each is judged by itself
		if by[job] == nil && !waiting[job] {
			b.w.Fail(CommitLost, "job %d was posted, waits no more, and nobody has taken it", job)
		}
	}
	for _, p := range b.read(h, taken, 0) {
		job := int(binary.BigEndian.Uint32(p.key))
		if t := by[job]; t == nil || t.n != int(binary.BigEndian.Uint32(p.value)) {
			b.w.Fail(CommitLost, "job %d was taken by transaction %d, which did not take effect or has not taken it", job, binary.BigEndian.Uint32(p.value))
		}
	}
}
