package saga

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdfastdb/holdfast/serve/ack"
)

// acked is a request's durability level, and the log entries it has to wait for.
type acked struct {
	asked   string      // level by header or metadata, "": none
	session ack.Session // set by admit

	saw  bool // the answer tells more than the last write
	over bool // it has waited, or has nothing to wait for
}

// gate holds an answer back until all is archived that it tells, if the request asks for that. v and err are the answer, v nil for a
// success without further content.
func (d *Door) gate(q *ask, v any, err error) (any, error) {
	if !q.session.Waits() || q.over || err != nil && !tells(err) {
		return v, err
	}
	q.over = true
	index := d.node.ReadIndex()
	if wrote := q.session.Wrote; v == nil && err == nil && wrote != nil && !q.saw {
		index = wrote.Pos.Index
	}
	late := q.session.Hold(d.bounded(), d.node, index)
	var not *ack.NotArchived
	switch {
	case late == nil:
		return v, err
	case errors.As(late, &not):
		return nil, refuse(http.StatusInternalServerError, "%v", not) // with no word in it by which clients know an outcome
	}
	return nil, unread(late)
}

// tells reports whether a failure may reveal the log's content: most are about the request. For those that DTM answers with 500 that is
// unknown.
func tells(err error) bool {
	var f *failure
	if !errors.As(err, &f) {
		return true
	}
	switch f.code {
	case http.StatusConflict, http.StatusTooEarly, http.StatusNotFound, http.StatusInternalServerError:
		return true
	}
	return false
}

// archived waits for as long as a stream of events lives until all is archived that it can say, if it was asked to.
func (d *Door) archived(ctx context.Context, q *ask) error {
	if !q.session.Waits() {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-d.stopping:
			cancel()
		case <-done:
		}
	}()
	return ack.Read(ctx, d.node)
}
