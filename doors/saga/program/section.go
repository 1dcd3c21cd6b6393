package program

import (
	"context"
	"net/http"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	doorsaga "github.com/holdfastdb/holdfast/doors/saga"
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/serve/admin"
)

// Status is the field "sagas" of GET /v1/status.
type Status struct {
	// Open is how many transactions have not ended, Held: a restore has stopped them.
	Open int64 `json:"open"`
	Held bool  `json:"held,omitempty"`
	// Running is how many the leader is carrying on just now, Waiting how many are due and wait for room or for an endpoint.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
}

var (
	descOpen    = admin.NewDesc("saga_transactions", "Transactions in the state, by status.", "status")
	descHeld    = admin.NewDesc("saga_held", "1 if the transactions were restored and not resumed: no service is called.")
	descPasses  = admin.NewDesc("saga_passes_total", "Passes over transactions that ended on this member.")
	descEnded   = admin.NewDesc("saga_ended_total", "Transactions that this member carried to their end.", "status")
	descCalls   = admin.NewDesc("saga_calls_total", "Calls to services, by what came of them.", "outcome")
	descRunning = admin.NewDesc("saga_running", "Transactions that are being carried on.")
	descWaiting = admin.NewDesc("saga_waiting", "Transactions that are due and wait for room or for an endpoint.")
)

// outcomes are what calls come to, with a word for each.
var outcomes = []struct {
	outcome outcall.Outcome
	word    string
}{{outcall.OK, "ok"}, {outcall.Failure, "failure"}, {outcall.Ongoing, "ongoing"}, {outcall.Transient, "transient"}, {outcall.Refused, "refused"}}

// resumeTimeout bounds the command of a resume.
const resumeTimeout = 10 * time.Second

// section is the door's part of the operator's port.
func (r *running) section() admin.Section {
	return admin.Section{
		Status: func(context.Context) []admin.Field {
			c := r.worker.Counts()
			return []admin.Field{{Name: "sagas", Value: Status{Open: r.unfinished(), Held: r.sagas.Held(), Running: c.Running, Waiting: c.Waiting}}}
		},
		Collect: func(m *admin.Metrics) {
			counts := r.sagas.Counts()
			for _, of := range []struct {
				status sagapart.Status
				n      int64
			}{{sagapart.Prepared, counts.Prepared}, {sagapart.Submitted, counts.Submitted}, {sagapart.Succeed, counts.Succeed},
				{sagapart.Aborting, counts.Aborting}, {sagapart.Failed, counts.Failed}} {
				m.Gauge(descOpen, float64(of.n), of.status.String())
			}
			m.Flag(descHeld, r.sagas.Held())
			c := r.worker.Counts()
			m.Count(descPasses, c.Passes)
			m.Count(descEnded, c.Succeed, sagapart.Succeed.String())
			m.Count(descEnded, c.Failed, sagapart.Failed.String())
			for _, o := range outcomes {
				m.Count(descCalls, c.Calls[o.outcome], o.word)
			}
			m.Gauge(descRunning, float64(c.Running))
			m.Gauge(descWaiting, float64(c.Waiting))
		},
		Notes: func(context.Context) []string {
			if r.sagas.Held() {
				return []string{"sagas are held after a restore: `holdfast resume --saga` lets services be called"}
			}
			return nil
		},
		Routes: []admin.Route{{Pattern: "POST /v1/saga/resume", Handle: r.resume}},
	}
}

// unfinished is how many transactions have not ended.
func (r *running) unfinished() int64 {
	c := r.sagas.Counts()
	return c.Prepared + c.Submitted + c.Aborting
}

// resume lets services be called again after a restore.
func (r *running) resume(w http.ResponseWriter, q *http.Request) {
	ctx, cancel := context.WithTimeout(q.Context(), resumeTimeout)
	defer cancel()
	part := entry.Part{Machine: sagapart.Machine, Body: sagapart.Append(nil, &sagapart.Part{Kind: sagapart.Resume})}
	res, err := r.host.Node.Propose(ctx, doorsaga.Lane, part)
	if err == nil && res.Rejection != nil {
		err = res.Rejection
	}
	if err != nil {
		admin.Fail(w, http.StatusServiceUnavailable, err.Error()+"; try again")
		return
	}
	admin.Answer(w, struct{}{})
}

// collect adds what the worker knows to the door's own metrics, under DTM's names.
func (r *running) collect(m *doorsaga.Metrics) {
	c := r.worker.Counts()
	const name, help = "dtm_transaction_process_total", "All processed transactions by dtm"
	m.Count(name, help, c.Failed, "model", "all", "status", "fail")
	m.Count(name, help, c.Succeed, "model", "all", "status", "ok")
}
