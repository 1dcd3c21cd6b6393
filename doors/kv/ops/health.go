package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// readTimeout bounds one probe's read. It is etcd's for a request at default settings.
const readTimeout = 7 * time.Second

// health answers GET /health[?serializable=true][&exclude=NOSPACE]: is this member, or with it the cluster, able to serve?
// 200 or 503, the reason in the body.
func (o *Ops) health(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	reason := o.unhealthy(r.Context(), q.Get("serializable") == "true", q["exclude"])
	b, _ := json.Marshal(struct { // strings always marshal
		Health string `json:"health"`
		Reason string `json:"reason"`
	}{fmt.Sprint(reason == ""), reason})
	if reason != "" {
		o.opts.Counts.HealthFailures.Inc()
		http.Error(w, string(b), http.StatusServiceUnavailable)
		return
	}
	o.opts.Counts.HealthSuccess.Inc()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8") // as etcd's, though it is JSON
	_, _ = w.Write(b)                                           // the client went away
}

// unhealthy returns the reason in etcd's words, "" if the member is healthy.
func (o *Ops) unhealthy(ctx context.Context, serializable bool, exclude []string) string {
	for _, a := range o.opts.Alarms() {
		if name := alarmName(a.Type); !slices.Contains(exclude, name) {
			return "ALARM " + name
		}
	}
	if !serializable && o.opts.Leaderless() {
		return "RAFT NO LEADER"
	}
	if err := o.read(ctx, serializable); err != nil {
		return "RANGE ERROR:" + err.Error()
	}
	return ""
}

func (o *Ops) read(ctx context.Context, serializable bool) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return o.opts.Read(ctx, serializable)
}

func alarmName(t kvpart.AlarmType) string {
	switch t {
	case kvpart.AlarmNoSpace:
		return "NOSPACE"
	case kvpart.AlarmCorrupt:
		return "CORRUPT"
	}
	return "UNKNOWN"
}

// check is one line of /livez or /readyz.
type check struct {
	name string
	run  func(ctx context.Context) error
}

func (o *Ops) serializableRead() check {
	return check{"serializable_read", func(ctx context.Context) error { return o.read(ctx, true) }}
}

func (o *Ops) linearizableRead() check {
	return check{"linearizable_read", func(ctx context.Context) error { return o.read(ctx, false) }}
}

func (o *Ops) nonLearner() check {
	return check{"non_learner", func(context.Context) error {
		if o.opts.Status().Learner {
			return errors.New("not supported for learner")
		}
		return nil
	}}
}

func (o *Ops) corruption() check {
	return check{"data_corruption", func(context.Context) error {
		if slices.ContainsFunc(o.opts.Alarms(), func(a kvpart.AlarmState) bool { return a.Type == kvpart.AlarmCorrupt }) {
			return errors.New("alarm activated: CORRUPT")
		}
		return nil
	}}
}

// registerChecks adds GET /kind, which runs all checks but those excluded, and GET /kind/name for each of them. Every failure is named;
// passed checks are named too with ?verbose.
func (o *Ops) registerChecks(mux *http.ServeMux, kind string, checks []check) {
	mux.HandleFunc("/"+kind, get(func(w http.ResponseWriter, r *http.Request) {
		exclude := r.URL.Query()["exclude"]
		o.answerChecks(w, r, slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return slices.Contains(exclude, c.name) }))
	}))
	for _, c := range checks {
		mux.HandleFunc("/"+kind+"/"+c.name, get(func(w http.ResponseWriter, r *http.Request) { o.answerChecks(w, r, []check{c}) }))
	}
}

func (o *Ops) answerChecks(w http.ResponseWriter, r *http.Request, checks []check) {
	var report strings.Builder
	failed := false
	for _, c := range checks {
		if err := c.run(r.Context()); err != nil {
			failed = true
			fmt.Fprintf(&report, "[-]%s failed: %v\n", c.name, err)
		} else {
			fmt.Fprintf(&report, "[+]%s ok\n", c.name)
		}
	}
	if failed {
		http.Error(w, report.String(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.URL.Query().Has("verbose") {
		fmt.Fprint(w, report.String())
	}
	fmt.Fprint(w, "ok\n")
}
