package program

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/serve/admin"
)

// NewLog is the body of POST /v1/tlog/logs.
type NewLog struct {
	Name   string `json:"name"`
	Origin string `json:"origin"`
	Dedup  bool   `json:"dedup,omitempty"`
	Index  bool   `json:"index,omitempty"`
}

// LogStatus is what GET /v1/tlog/logs says of each log; the answer to a NewLog has its first four fields.
type LogStatus struct {
	Name   string `json:"name"`
	Origin string `json:"origin"`
	Vkey   string `json:"vkey"`
	// Path is where the log answers on the tlog address.
	Path  string `json:"path"`
	Dedup bool   `json:"dedup,omitempty"`
	Index bool   `json:"index,omitempty"`
	// Held: restored and not resumed.
	Held bool `json:"held,omitempty"`
	// State is ok, or a word for the fault; Why is the reason and the operator's remedy.
	State string `json:"state,omitempty"`
	Why   string `json:"why,omitempty"`
	// Size is the number of entries, Checkpoint how many of them the newest checkpoint covers.
	Size       uint64 `json:"size"`
	Checkpoint uint64 `json:"checkpoint"`
}

// changeTimeout bounds the command of a request.
const changeTimeout = 10 * time.Second

// section is the door's part of the operator's port.
func (r *running) section() admin.Section {
	return admin.Section{
		Status: func(ctx context.Context) []admin.Field {
			fields := []admin.Field{{Name: "logs", Value: r.list(ctx)}}
			if held := r.refusals(ctx); len(held) > 0 {
				fields = append(fields, admin.Field{Name: "held_logs", Value: held})
			}
			return fields
		},
		Collect: func(m *admin.Metrics) {
			s := r.host.Node.Status()
			collect(m, r.logs, &r.meter, s.Leader == s.MemberID)
			for _, l := range r.list(context.Background()) {
				m.Gauge(descLogState, 1, l.Name, l.State)
			}
		},
		// One log that is held is no reason to send clients of everything else away.
		Notes: func(ctx context.Context) (lines []string) {
			for _, s := range r.troubled(ctx) {
				lines = append(lines, "but "+s.line())
			}
			return lines
		},
		Routes: []admin.Route{
			{Pattern: "GET /v1/tlog/logs", Handle: r.getLogs},
			{Pattern: "POST /v1/tlog/logs", Handle: r.postLog},
			{Pattern: "POST /v1/tlog/logs/{name}/resume", Handle: r.resumeLog},
			{Pattern: "POST /v1/tlog/logs/{name}/republish", Handle: r.republishLog},
		},
	}
}

func statusOf(l *tlogmachine.Log) LogStatus {
	s := LogStatus{Name: l.Spec.Name, Origin: l.Spec.Key.Name, Vkey: l.Spec.Key.String(), Path: "/", Dedup: l.Spec.Dedup, Index: l.Spec.Index,
		Held: l.Held(), Size: l.View().Size}
	if l.Spec.Name != "default" {
		s.Path = "/logs/" + l.Spec.Name + "/"
	}
	if c := l.Checkpoint(); c != nil {
		s.Checkpoint = c.Size
	}
	return s
}

func (r *running) getLogs(w http.ResponseWriter, q *http.Request) {
	admin.Answer(w, r.list(q.Context()))
}

// list is the status of every log.
func (r *running) list(ctx context.Context) []LogStatus {
	out, why := []LogStatus{}, r.refusals(ctx)
	for _, l := range r.logs.Logs() {
		out = append(out, r.judged(l, why))
	}
	return out
}

// refusals is why logs take no entries and what to do, by name; none before the workers run. A restored log that lacks its key has both
// reasons: after `holdfast resume` it would still refuse.
func (r *running) refusals(ctx context.Context) map[string]string {
	why := map[string]string{}
	if !r.host.Serving() {
		return why
	}
	maps.Copy(why, r.signer.Holds(ctx))
	for _, l := range r.logs.Logs() {
		if !l.Held() {
			continue
		}
		name := l.Spec.Name
		restored := "the log was restored; show its last published checkpoint with `holdfast resume --tlog " + name + " --checkpoint FILE`"
		if key := why[name]; key != "" {
			restored += "; " + key
		}
		why[name] = restored
	}
	return why
}

// resumed answers for a log that an operator has released, with its remaining conditions.
func (r *running) resumed(w http.ResponseWriter, q *http.Request, l *tlogmachine.Log) {
	admin.Answer(w, r.judged(l, r.refusals(q.Context())))
}

func (r *running) postLog(w http.ResponseWriter, q *http.Request) {
	var asked NewLog
	d := json.NewDecoder(http.MaxBytesReader(w, q.Body, 64<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(&asked); err != nil {
		admin.Fail(w, http.StatusBadRequest, "want {\"name\", \"origin\", \"dedup\", \"index\"}: "+err.Error())
		return
	}
	switch {
	case !tlogpart.ValidName(asked.Name):
		admin.Fail(w, http.StatusBadRequest, "a log's name is up to 63 of a-z, 0-9 and -, and does not begin with -; give another name")
		return
	case !tiles.ValidKeyName(asked.Origin):
		admin.Fail(w, http.StatusBadRequest, "an origin has no space and no +, and is not empty; give one like log.example.org/2026")
		return
	case r.logs.Find(asked.Name) != nil:
		admin.Fail(w, http.StatusConflict, "there is a log "+asked.Name+"; give another name")
		return
	}
	for _, l := range r.logs.Logs() { // checked here so that no key file is made for nothing; Apply decides
		if l.Spec.Key.Name == asked.Origin {
			admin.Fail(w, http.StatusConflict, "the log "+l.Spec.Name+" has the origin "+asked.Origin+"; give another origin")
			return
		}
	}
	// Members may differ, so this is judged here, by the one with the least, and not where it is applied.
	n := len(r.logs.Logs())
	if room := r.room(); int64(n+1)*tlogmachine.LogBytes > room {
		admin.Fail(w, http.StatusInsufficientStorage, fmt.Sprintf("the least --memory of a member has room for %d logs; start the members with more", room/tlogmachine.LogBytes))
		return
	}
	key, err := r.keys.forNew(asked.Name, asked.Origin)
	if err != nil {
		admin.Fail(w, http.StatusPreconditionFailed, err.Error())
		return
	}
	kind := tlogpart.Create
	if n >= tlogpart.MaxLogs { // where a member's build knows no more, this is refused
		kind = tlogpart.CreateMore
	}
	ok := r.change(w, q, &tlogpart.Part{Kind: kind, Spec: tlogpart.LogSpec{Name: asked.Name, Key: *key, Dedup: asked.Dedup, Index: asked.Index}})
	if l := r.logs.Find(asked.Name); ok && l != nil {
		s := statusOf(l)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(s) // the client went away
	}
}

// resumeLog releases a log that was restored, or that is held because its places do not answer. It takes the last checkpoint that any
// reader may have seen: of the log's key, and a prefix of the restored log.
func (r *running) resumeLog(w http.ResponseWriter, q *http.Request) {
	l := r.logs.Find(q.PathValue("name"))
	if l == nil {
		admin.Fail(w, http.StatusNotFound, "no such log; `curl /v1/tlog/logs` lists them")
		return
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, q.Body, tlogpart.MaxNote))
	if err != nil {
		admin.Fail(w, http.StatusBadRequest, "read the checkpoint: "+err.Error())
		return
	}
	c, _, err := tiles.OpenCheckpoint(b, &l.Spec.Key)
	if err != nil {
		admin.Fail(w, http.StatusBadRequest, "the body is no checkpoint of this log: "+err.Error()+"; give the last one that was published")
		return
	}
	if !l.Held() { // held by its leader, not by a restore
		if err := r.release(q.Context(), l.Spec.Name, b); err != nil {
			admin.Fail(w, http.StatusConflict, err.Error())
			return
		}
		r.resumed(w, q, l)
		return
	}
	if err := r.mayResume(q.Context(), l); err != nil {
		admin.Fail(w, http.StatusConflict, "the log was published further than it was restored: "+err.Error()+"; begin another log under another origin")
		return
	}
	if r.change(w, q, &tlogpart.Part{Kind: tlogpart.Resume, Log: l.Number, Size: c.Size, Root: c.Root}) {
		r.resumed(w, q, l)
	}
}

// Republished is what became of one place of a log.
type Republished struct {
	To string `json:"to"`
	// Looked counts tiles and bundles, Bad those that were missing or altered, Mended those that were put again.
	Looked int    `json:"looked"`
	Bad    int    `json:"bad"`
	Mended int    `json:"mended"`
	First  string `json:"first,omitempty"` // the fault of the first
	Error  string `json:"error,omitempty"`
}

// republishLog compares what is published with the log. With ?check=1 nothing is written.
func (r *running) republishLog(w http.ResponseWriter, q *http.Request) {
	l := r.logs.Find(q.PathValue("name"))
	if l == nil {
		admin.Fail(w, http.StatusNotFound, "no such log; `holdfast tlog list` lists them")
		return
	}
	out := r.republish(q.Context(), l, q.URL.Query().Get("check") != "1")
	if len(out) == 0 {
		admin.Fail(w, http.StatusConflict, "this member publishes the log nowhere; ask one that has --tlog-publish for it")
		return
	}
	admin.Answer(w, out)
}

// change proposes a part and answers if that fails.
func (r *running) change(w http.ResponseWriter, q *http.Request, p *tlogpart.Part) bool {
	ctx, cancel := context.WithTimeout(q.Context(), changeTimeout)
	defer cancel()
	res, err := r.host.Node.Propose(ctx, node.LaneSystem, entry.Part{Machine: entry.MachineTlog, Body: tlogpart.AppendPart(nil, p)})
	switch {
	case err != nil:
		admin.Fail(w, http.StatusServiceUnavailable, err.Error())
		return false
	case res.Rejection == nil:
		return true
	}
	code, text := http.StatusBadRequest, strings.TrimSpace(res.Rejection.Detail)
	switch res.Rejection.Code {
	case tlogpart.LogExists, tlogpart.NotHeld, tlogpart.NotPrefix, tlogpart.TooManyLogs:
		code = http.StatusConflict
	case tlogpart.UnknownLog:
		code = http.StatusNotFound
	}
	admin.Fail(w, code, text)
	return false
}
