package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// confirmEvery is for how long a store that takes uploads is believed to be the one it was. A file:// store says it at each call besides.
const confirmEvery = time.Minute

// swappedError says that the store at the replica's place is not the replica's own store. It is an objstore.ErrSwapped.
type swappedError struct{ text string }

func (e *swappedError) Error() string { return e.text }
func (e *swappedError) Unwrap() error { return objstore.ErrSwapped }

// confirm asks the store for the replica's identity before an upload counts as stored. It asks after a failure, and a minute after the last
// answer. An idle database asks nothing. It sets s.confirmed.
func (d *database) confirm(ctx context.Context, s *ship) error {
	d.mu.Lock()
	due := d.confirmed.IsZero() || d.now().Sub(d.confirmed) >= confirmEvery || d.now().Before(d.confirmed)
	d.mu.Unlock()
	if !due || s.identity == "" {
		return nil
	}
	err := d.sameStore(ctx, s.identity, func(ctx context.Context, f func(ctx context.Context) error) error {
		return d.insist(ctx, "ask the store who it is", 0, f)
	})
	if err != nil {
		return err
	}
	s.confirmed = true
	d.mu.Lock()
	d.confirmed = d.now()
	d.mu.Unlock()
	return nil
}

// unsure reports whether the store is being asked for its identity, because an upload was stored since the last question. The outcome must
// hold for the replica's own store. It is asked once, at the end; a store that does not answer has taken the uploads.
func (d *database) unsure() bool {
	if d.asked || d.files == nil || d.replicaID == "" || d.stored.TXID <= d.sure.TXID {
		return false
	}
	d.asked = true
	d.jobs++
	identity, head := d.replicaID, d.stored
	d.async(func(ctx context.Context) func() {
		err := d.sameStore(ctx, identity, d.ask)
		return func() {
			d.jobs--
			switch {
			case isSwapped(err):
				d.swapped(err)
			case err == nil:
				d.sure, d.sureAt = head, d.now()
			}
		}
	})
	return true
}

// sameStore reports whether the store still has the identity: a swappedError, or objstore.ErrSwapped, if not. do makes the request.
func (d *database) sameStore(ctx context.Context, identity string, do func(ctx context.Context, f func(ctx context.Context) error) error) error {
	found := ""
	err := do(ctx, func(ctx context.Context) (err error) { found, err = d.target.Replica.Identity(ctx, false); return })
	switch {
	case err != nil || found == identity:
		return err
	case found == "":
		return &swappedError{fmt.Sprintf("%s is not the store that it was: it has no %s; mount its disk, or give its objects back", d.target.URL, replica.IdentityName)}
	}
	return &swappedError{fmt.Sprintf("%s is not the store that it was: its identity is %s, and was %s; give the right one back", d.target.URL, found, identity)}
}

// swapped is called when the store turns out to be another one. Commits are no longer acknowledged, and the possibly lost ones are named.
// The database is taken over again when the right store is back. It has all data, so missing files are shipped anew then.
func (d *database) swapped(err error) {
	text := err.Error()
	if d.stored.TXID > d.sure.TXID {
		since := "the agent began"
		if !d.sureAt.IsZero() {
			since = d.sureAt.UTC().Format(time.RFC3339)
		}
		text += fmt.Sprintf("; TXIDs %s to %s were acknowledged since it was last seen to be the right one (%s), and may be nowhere but in %s",
			d.sure.TXID+1, d.stored.TXID, since, d.target.Path)
	}
	d.trouble(err)
	d.raise(alarmSwapped, text)
	d.leave()
	// Before the answers, so that no extension begins a transaction behind one. Opening would have each write wait for what only a person can end.
	d.enter(gate.InDoubt, text)
	d.answerAll(gate.NotStored, err)
	d.failed(err)
}

// isSwapped reports whether an error says that the store is another one.
func isSwapped(err error) bool { return errors.Is(err, objstore.ErrSwapped) }
