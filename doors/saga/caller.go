package saga

import (
	"crypto/tls"
	"errors"
	"net/http"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/node"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/serve/port"
)

// Caller is the sender of a request, as far as the door knows it: for the functions that judge it.
type Caller struct {
	// Host is the address it came from, without a port.
	Host string
	// Authorization is the header field of that name, or the metadata of a gRPC call.
	Authorization string
	// KVAuthorization is the field Kv-Authorization, for the change of keys beside a transaction; where it is empty Authorization holds.
	KVAuthorization string
	// TLS is the state of the connection, nil for cleartext and for HTTP/2 that is not gRPC.
	TLS *tls.ConnectionState
}

// ask is one request on its way through the door, by any protocol.
type ask struct {
	Caller
	acked
	from     *port.From // the account of its connection over gRPC, nil for another
	revision uint64     // of the catalogue by which it was let in; 0: without users
	// repeatable: the same request once more, with the same gid, does no more than once.
	repeatable bool
	// gone returns what is closed when the client goes away; nil: that is not known. It may cost a goroutine, so it is for requests that
	// wait for long.
	gone func() <-chan struct{}
}

// admit judges who may ask at all, and is called first for every request.
func (d *Door) admit(q *ask) error {
	if d.node.Status().Learner {
		return later("this member is a learner and answers for nobody; ask one that votes")
	}
	session, err := d.opts.Ack.Session(q.asked)
	if err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	q.revision, q.session = 0, session
	if d.opts.Admit != nil {
		revision, code, text := d.opts.Admit(&q.Caller)
		if code != 0 {
			return &failure{code, text}
		}
		q.revision = revision
	}
	if q.revision == 0 && d.users.State().Enabled {
		return refuse(http.StatusUnauthorized, "authentication is on: show who you are in the field Authorization")
	}
	return nil
}

// judgements is how often a change is judged anew because the catalogue of users has changed under it.
const judgements = 5

// propose carries a part through the log, and returns where the transaction stands after it. rejected is the saga machine's rejection.
func (d *Door) propose(q *ask, p *sagapart.Part) (st *sagapart.State, rejected *entry.Rejection, err error) {
	part := entry.Part{Machine: sagapart.Machine, Body: sagapart.Append(make([]byte, 0, sizeOf(p)), p)}
	res, err := d.carry(q, func() ([]entry.Part, error) { return []entry.Part{part}, nil })
	switch {
	case err != nil:
		return nil, nil, err
	case res.Rejection == nil:
		q.session.Wrote = res
	case res.Rejection.Machine != sagapart.Machine:
		return nil, nil, refuse(http.StatusForbidden, "refused: %s", res.Rejection.Detail)
	default:
		return nil, res.Rejection, nil
	}
	st, _ = res.Of(sagapart.Machine).(*sagapart.State)
	if st == nil {
		st = &sagapart.State{} // of a part that has none
	}
	return st, nil, nil
}

// carry carries a command through the log, with the pass of the caller, and judges it anew where users or roles have changed under it.
// command makes it for each judgement, with a pass or without. The machines' rejections are in the result.
func (d *Door) carry(q *ask, command func() ([]entry.Part, error)) (*entry.Result, error) {
	for range judgements {
		parts, err := command()
		if err != nil {
			return nil, err
		}
		if q.revision != 0 && parts[0].Machine != entry.MachineIdent {
			parts = append([]entry.Part{passOf(q.revision)}, parts...)
		}
		res, err := d.offer(parts)
		switch {
		case err != nil:
			return nil, unproposed(err, q.repeatable)
		case !eident.Outdated(res.Rejection):
			return res, nil
		}
		if err := d.admit(q); err != nil {
			return nil, err
		}
	}
	return nil, later("users and roles change too fast to judge this by them")
}

const (
	// firstFullWait and longestFullWait bound the waits between two tries where the log's lane is full.
	firstFullWait, longestFullWait = 2 * time.Millisecond, 50 * time.Millisecond
)

// offer proposes a command. If the log's lane is full it waits for room, up to the request's deadline. Nothing has been done by then, and
// the client would only send it all again.
func (d *Door) offer(parts []entry.Part) (*entry.Result, error) {
	ctx := d.bounded()
	for pause := firstFullWait; ; pause = min(2*pause, longestFullWait) {
		res, err := d.node.Propose(ctx, Lane, parts...)
		if !errors.Is(err, node.ErrOverloaded) {
			return res, err
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
			continue
		case <-ctx.Done():
		case <-d.stopping:
		case <-d.node.StoppedC():
		}
		again.Stop()
		return nil, err
	}
}

// passOf is a pass by the catalogue of a revision.
func passOf(revision uint64) entry.Part {
	return entry.Part{Machine: entry.MachineIdent, Body: eident.AppendPart(nil, &eident.Part{Pass: &eident.Pass{Revision: revision}})}
}

// sizeOf is about what a part takes.
func sizeOf(p *sagapart.Part) int {
	n := 256
	var branches []sagapart.Branch
	switch {
	case p.Begin != nil:
		branches = p.Begin.Branches
		n += len(p.Begin.CustomData) + len(p.Begin.QueryPrepared)
	case p.Register != nil:
		branches = p.Register.Branches
	}
	for i := range branches {
		n += len(branches[i].URL) + 16
		if i == 0 || !same(branches[i].Payload, branches[i-1].Payload) {
			n += len(branches[i].Payload)
		}
	}
	return n
}

// same reports whether two payloads are one.
func same(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

// unknown is the error for a rejection that no request should meet.
func unknown(r *entry.Rejection) error {
	switch r.Code {
	case sagapart.TooLarge:
		return refuse(http.StatusRequestEntityTooLarge, "refused: %s", r.Detail)
	case sagapart.Malformed:
		return refuse(http.StatusBadRequest, "refused: %s", r.Detail)
	}
	return errors.New("refused: " + r.Detail)
}
