package advance

import (
	"encoding/json"

	"github.com/holdfastdb/holdfast/doors/saga/outcall"
)

// maxAlerts bounds the alerts under way: beyond it they are logged alone.
const maxAlerts = 64

// alert is what operators are told of a transaction that does not get on, in DTM's words.
type alert struct {
	Gid        string `json:"gid"`
	Status     string `json:"status"`
	Branch     string `json:"branch"` // the URL that was called
	Error      string `json:"error"`
	RetryCount int    `json:"retry_count"`
}

// alert describes the trouble at a place.
func (v *view) alert(place, doublings int) *alert {
	a := &alert{Gid: v.tx.Gid, Status: v.tx.Status.String(), Branch: v.tx.QueryPrepared, Error: v.query.message, RetryCount: doublings}
	switch {
	case v.plan.problem != "":
		a.Branch, a.Error = "", v.plan.problem
	case place != queryCall:
		a.Branch, a.Error = v.tx.Branches[place].URL, v.branches[place].message
	}
	return a
}

// tell logs an alert and posts it to the operator's URL.
func (w *Worker) tell(a *alert) {
	log := w.opt.Logger
	log.Warn("saga: a transaction does not get on", "gid", a.Gid, "status", a.Status, "url", a.Branch, "error", a.Error, "retries", a.RetryCount)
	if w.opt.AlertURL == "" {
		return
	}
	if w.alerts.Add(1) > maxAlerts {
		w.alerts.Add(-1)
		return
	}
	body, err := json.Marshal(a)
	if err != nil { // strings and a number: it cannot be
		body = nil
	}
	r := &outcall.Request{URL: w.opt.AlertURL, Protocol: outcall.HTTP, Payload: body, Post: true}
	w.opt.Caller.Go(r, func(r outcall.Result) {
		w.alerts.Add(-1)
		if r.Outcome != outcall.OK {
			log.Warn("saga: the alert URL did not take an alert", "gid", a.Gid, "error", r.Message)
		}
	})
}
