package saga

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"

	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// params are the parameters of a GET.
type params interface {
	// get is a parameter, "" if it is not there.
	get(name string) string
}

// Pages of lists.
const (
	usualPage = 100
	mostPage  = 1000
)

// limit is how many rows a client wants of a list.
func limit(p params) (int, error) {
	s := p.get("limit")
	if s == "" {
		return usualPage, nil
	}
	n, err := whole(s)
	if err != nil {
		return 0, err
	}
	return int(min(max(n, 1), mostPage)), nil
}

// whole is a number in a parameter; errors are in DTM's words.
func whole(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, errors.New("convert to int error: " + s)
	}
	return n, nil
}

// query answers a transaction with its branches; null if there is none.
func (d *Door) query(q *ask, p params) (any, error) {
	return d.queried(q, p.get("gid"), &shownWhole{head: `{"branches":[`})
}

// queried answers the transaction of a gid as s shows it.
func (d *Door) queried(q *ask, gid string, s *shownWhole) (any, error) {
	if gid == "" {
		return nil, errors.New("no gid specified")
	}
	t, err := d.find(gid)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return json.RawMessage(s.head + `],"transaction":null}`), nil
	}
	return d.paged(q, s.of(d, t))
}

// progress is the answer to a client that is about to run a workflow, perhaps once more: the transaction and its recorded results.
func (d *Door) progress(q *ask, r *request) (*sagamachine.Transaction, error) {
	st, rej, err := d.prepared(q, r, true)
	if err == nil && rej != nil {
		err = refusedAs(rej, "prepare")
	}
	if err != nil {
		return nil, err
	}
	t, err := d.machine.BriefNumber(st.Number)
	if err == nil && t == nil {
		err = later("the transaction has been forgotten meanwhile")
	}
	return t, err
}

func (d *Door) prepareWorkflow(q *ask, r *request) (any, error) {
	t, err := d.progress(q, r)
	if err != nil {
		return nil, err
	}
	s := &shownWhole{head: `{"progresses":[`}
	return d.paged(q, s.of(d, t))
}

// all lists transactions, the newest first. A page may have fewer than asked for, or none, and still a next: the list is read up to a bound.
func (d *Door) all(q *ask, p params) (any, error) {
	if gid := p.get("gid"); gid != "" {
		t, err := d.find(gid)
		if err != nil {
			return nil, err
		}
		if t == nil {
			return json.RawMessage(`{"next_position":"","transactions":null}`), nil
		}
		l := &shownList{d: d, listed: []sagamachine.Listed{{Number: t.Number}}, size: t.Bytes}
		return d.paged(q, l.of(`{"next_position":"","transactions":[`))
	}
	l, next, err := d.list(p)
	if err != nil {
		return nil, err
	}
	return d.paged(q, l.of(`{"next_position":"`+next+`","transactions":[`))
}

// listOf reads which page of which list is asked for.
func listOf(p params) (before uint64, n int, f sagamachine.Filter, err error) {
	if s := p.get("position"); s != "" {
		at, err := whole(s)
		if err != nil || at < 1 {
			return 0, 0, f, errors.New("convert to int error: " + s)
		}
		before = uint64(at)
	}
	if n, err = limit(p); err != nil {
		return 0, 0, f, err
	}
	if s := p.get("status"); s != "" {
		if f.Status = sagapart.ParseStatus(s); f.Status == 0 {
			return 0, 0, f, refuse(400, "status %s: there are prepared, submitted, succeed, aborting and failed", quote(s))
		}
	}
	if s := p.get("transType"); s != "" {
		if f.Mode = sagapart.ParseMode(s); f.Mode == 0 {
			return 0, 0, f, refuse(400, "transType %s: there are saga, msg, tcc, xa and workflow", quote(s))
		}
	}
	if f.From, err = moment(p.get("createTimeStart"), 0); err == nil {
		f.To, err = moment(p.get("createTimeEnd"), 999_999)
	}
	return before, n, f, err
}

// moment converts a time in milliseconds since 1970 to nanoseconds; rest is added to cover the whole of that millisecond.
func moment(s string, rest int64) (int64, error) {
	if s == "" {
		return 0, nil
	}
	ms, err := whole(s)
	if err != nil {
		return 0, err
	}
	if ms < 0 || ms > math.MaxInt64/1_000_000-1 {
		return 0, refuse(400, "%s is no time in milliseconds since 1970", s)
	}
	return ms*1_000_000 + rest, nil
}
