package tlog

import (
	"errors"
	"strconv"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// add answers POST /add. Clients send an entry again after a 503, so a 503 is answered only if the entry is provably not in the log. If
// that is unknown the answer is a 500 that says so.
//
// archived: the answer waits for the archive.
func (d *Door) add(l *tlogmachine.Log, name string, r *request, archived bool) response {
	if r.method != "POST" {
		a := fail(405, "add with POST")
		a.allow = "POST"
		return a
	}
	decoding := d.opts.Steps.Decode.Begin()
	done := func() {}
	if d.opts.Admit != nil {
		code, text, settle := d.opts.Admit(name, r.auth, len(r.body))
		if code != 0 {
			if l != nil { // only for logs that exist: strangers must not create labels in the metrics
				d.opts.Meter.Log(name).Refused.Inc()
			}
			a := fail(code, text)
			a.bearer, a.retryAfter = code == 401, code == 429
			return a
		}
		if settle != nil {
			done = settle
		}
	}
	defer done()
	proof := false
	if r.query != "" {
		v, ok := values(r.query, "proof")
		if !ok || v["proof"] != "1" && v["proof"] != "" && v["proof"] != "0" {
			return fail(400, "the only parameter is proof=1")
		}
		proof = v["proof"] == "1"
	}
	switch {
	case l == nil && name == DefaultLog:
		return later("the log default has not begun: no member that leads has its key, default.key in --tlog-keys")
	case l == nil:
		return fail(404, "no such log")
	case len(r.body) > tiles.MaxEntryBytes:
		return fail(413, "an entry has at most 65535 bytes")
	case d.node.Status().Learner:
		d.opts.Meter.Log(name).Refused.Inc()
		return later("this member is a learner and takes no entries; ask one that votes")
	case l.Held():
		d.opts.Meter.Log(name).Refused.Inc()
		return later("the log was restored and takes no entries before `holdfast resume --tlog " + name + "`")
	}
	if why := d.opts.ReadOnly(l); why != "" {
		d.opts.Meter.Log(name).Refused.Inc()
		return later(why)
	}
	q := d.queue(l)
	d.opts.Steps.Decode.End(decoding)
	index, by, err := q.add(r.body, proof)
	if err != nil {
		var rej *entry.Rejection
		a := refusal(err)
		if a.retryAfter || errors.As(err, &rej) {
			q.meter.Refused.Inc()
		} else {
			q.meter.Unknown.Inc()
		}
		return a
	}
	if archived && !proof {
		if instead := d.archivedAdd(by, false); instead != nil {
			return *instead
		}
	}
	replying := d.opts.Steps.Reply.Begin()
	number := strconv.AppendUint(make([]byte, 0, 20), index, 10)
	d.opts.Steps.Reply.End(replying)
	if proof { // waiting for a checkpoint is no part of the step
		b, ok := d.prove(l, index)
		if archived {
			if instead := d.archivedAdd(by, true); instead != nil {
				return *instead
			}
		}
		if ok {
			return response{code: 200, contentType: typeProof, cache: cacheNever, body: b}
		}
		return response{code: 202, contentType: typeText, cache: cacheNever, body: number}
	}
	return response{code: 200, contentType: typeText, body: number} // and no newline: Tessera's tools parse all of it
}

// refusal is the answer to an add that failed.
func refusal(err error) response {
	var rej *entry.Rejection
	switch {
	case errors.As(err, &rej) && rej.Code == tlogpart.LogHeld:
		return later(rej.Detail)
	case errors.As(err, &rej):
		return fail(500, "refused: "+rej.Detail)
	case errors.Is(err, errQueueFull), errors.Is(err, errNoTurn), errors.Is(err, node.ErrOverloaded), errors.Is(err, node.ErrNoLeader),
		errors.Is(err, node.ErrSuperseded), errors.Is(err, node.ErrStopped):
		return later("not added: " + err.Error())
	}
	return fail(500, "it is not known whether the entry was added: "+err.Error())
}

// showAgain is the time between two looks at the shown checkpoint.
const showAgain = 20 * time.Millisecond

// prove waits for a checkpoint that covers index and returns the proof under it. false: there was none in time, or its tiles could not be
// read.
func (d *Door) prove(l *tlogmachine.Log, index uint64) ([]byte, bool) {
	late := time.NewTimer(d.opts.ProofTimeout)
	defer late.Stop()
	for {
		c, next := l.Newest()
		var again <-chan time.Time
		if d.opts.Shown != nil { // a change of the shown checkpoint has no wake-up
			c, again = d.opts.Shown(l), time.After(showAgain)
		}
		if c != nil && c.Size > index {
			b, err := proofUnder(l, c, index)
			return b, err == nil
		}
		select {
		case <-next:
		case <-again:
		case <-late.C:
			return nil, false
		case <-d.node.StoppedC():
			return nil, false
		}
	}
}

// proofUnder is the tlog-proof of an entry under a checkpoint.
func proofUnder(l *tlogmachine.Log, c *tlogmachine.Checkpoint, index uint64) ([]byte, error) {
	hashes, err := l.Prover(l.View(), c.Size).Inclusion(index)
	if err != nil {
		return nil, err
	}
	p := tiles.TlogProof{Index: index, Hashes: hashes, Checkpoint: c.Note}
	return p.Append(make([]byte, 0, 128+len(hashes)*45+len(c.Note))), nil
}
