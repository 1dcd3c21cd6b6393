package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/entry"
	etree "github.com/holdfastdb/holdfast/entry/tree"
	mtree "github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/node"
	"github.com/holdfastdb/holdfast/tiles"
)

// ErrNoKey: this member has no private key for a log, and makes none.
var ErrNoKey = errors.New("no key")

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
	// Why is the reason why the log takes no entries until an operator releases it, "" if it takes them.
	Why string `json:"why,omitempty"`
	// Size is the number of entries, Checkpoint how many of them the newest checkpoint covers.
	Size       uint64 `json:"size"`
	Checkpoint uint64 `json:"checkpoint"`
}

// logs is what this door needs of the tree machine and of the node to change it.
type logs struct {
	tree    *mtree.Machine
	propose func(ctx context.Context, lane node.Lane, parts ...entry.Part) (*entry.Result, error)
}

// changeTimeout bounds the command of a request.
const changeTimeout = 10 * time.Second

func statusOf(l *mtree.Log) LogStatus {
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

func (a *Admin) getLogs(n *attached, w http.ResponseWriter, r *http.Request) {
	out, holds := []LogStatus{}, a.opts.Holds(r.Context())
	for _, l := range n.logs.tree.Logs() {
		s := statusOf(l)
		s.Why = holds[s.Name]
		out = append(out, s)
	}
	answer(w, out)
}

func (a *Admin) postLog(n *attached, w http.ResponseWriter, r *http.Request) {
	var q NewLog
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		fail(w, http.StatusBadRequest, "want {\"name\", \"origin\", \"dedup\", \"index\"}: "+err.Error())
		return
	}
	switch {
	case !etree.ValidName(q.Name):
		fail(w, http.StatusBadRequest, "a log's name is up to 63 of a-z, 0-9 and -, and does not begin with -; give another name")
		return
	case !tiles.ValidKeyName(q.Origin):
		fail(w, http.StatusBadRequest, "an origin has no space and no +, and is not empty; give one like log.example.org/2026")
		return
	case n.logs.tree.Find(q.Name) != nil:
		fail(w, http.StatusConflict, "there is a log "+q.Name+"; give another name")
		return
	}
	for _, l := range n.logs.tree.Logs() { // checked here so that no key file is made for nothing; Apply decides
		if l.Spec.Key.Name == q.Origin {
			fail(w, http.StatusConflict, "the log "+l.Spec.Name+" has the origin "+q.Origin+"; give another origin")
			return
		}
	}
	key, err := a.opts.TlogKey(q.Name, q.Origin)
	if err != nil {
		fail(w, http.StatusPreconditionFailed, err.Error())
		return
	}
	ok := change(n, w, r, &etree.Part{Kind: etree.Create, Spec: etree.LogSpec{Name: q.Name, Key: *key, Dedup: q.Dedup, Index: q.Index}})
	if l := n.logs.tree.Find(q.Name); ok && l != nil {
		s := statusOf(l)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(s) // the client went away
	}
}

// resumeLog releases a log that was restored, or that is held because its places do not answer, given the last checkpoint that
// anybody may have seen: it must be of the log's key, and a prefix of what was restored.
func (a *Admin) resumeLog(n *attached, w http.ResponseWriter, r *http.Request) {
	l := n.logs.tree.Find(r.PathValue("name"))
	if l == nil {
		fail(w, http.StatusNotFound, "no such log; `curl /v1/tlog/logs` lists them")
		return
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, etree.MaxNote))
	if err != nil {
		fail(w, http.StatusBadRequest, "read the checkpoint: "+err.Error())
		return
	}
	c, _, err := tiles.OpenCheckpoint(b, &l.Spec.Key)
	if err != nil {
		fail(w, http.StatusBadRequest, "the body is no checkpoint of this log: "+err.Error()+"; give the last one that was published")
		return
	}
	if !l.Held() && a.opts.Release != nil { // held by its leader, not by a restore
		if err := a.opts.Release(r.Context(), l.Spec.Name, b); err != nil {
			fail(w, http.StatusConflict, err.Error())
			return
		}
		answer(w, statusOf(l))
		return
	}
	if a.opts.MayResume != nil {
		if err := a.opts.MayResume(r.Context(), l); err != nil {
			fail(w, http.StatusConflict, "the log was published further than it was restored: "+err.Error()+"; begin another log under another origin")
			return
		}
	}
	if change(n, w, r, &etree.Part{Kind: etree.Resume, Log: l.Number, Size: c.Size, Root: c.Root}) {
		answer(w, statusOf(l))
	}
}

// Republished is what became of one place of a log.
type Republished struct {
	To string `json:"to"`
	// Looked counts tiles and bundles, Bad those that were missing or altered, Mended those that were put again.
	Looked int    `json:"looked"`
	Bad    int    `json:"bad"`
	Mended int    `json:"mended"`
	First  string `json:"first,omitempty"` // what was wrong with the first
	Error  string `json:"error,omitempty"`
}

// republishLog compares what is published with the log. With ?check=1 nothing is written.
func (a *Admin) republishLog(n *attached, w http.ResponseWriter, r *http.Request) {
	l := n.logs.tree.Find(r.PathValue("name"))
	if l == nil {
		fail(w, http.StatusNotFound, "no such log; `holdfast tlog list` lists them")
		return
	}
	var out []Republished
	if a.opts.Republish != nil {
		out = a.opts.Republish(r.Context(), l, r.URL.Query().Get("check") != "1")
	}
	if len(out) == 0 {
		fail(w, http.StatusConflict, "this member publishes the log nowhere; ask one that has --tlog-publish for it")
		return
	}
	answer(w, out)
}

// change proposes a part and answers if that fails.
func change(n *attached, w http.ResponseWriter, r *http.Request, p *etree.Part) bool {
	ctx, cancel := context.WithTimeout(r.Context(), changeTimeout)
	defer cancel()
	res, err := n.logs.propose(ctx, node.LaneSystem, entry.Part{Machine: entry.MachineTree, Body: etree.AppendPart(nil, p)})
	switch {
	case err != nil:
		fail(w, http.StatusServiceUnavailable, err.Error())
		return false
	case res.Rejection == nil:
		return true
	}
	code, text := http.StatusBadRequest, strings.TrimSpace(res.Rejection.Detail)
	switch res.Rejection.Code {
	case etree.LogExists, etree.NotHeld, etree.NotPrefix, etree.TooManyLogs:
		code = http.StatusConflict
	case etree.UnknownLog:
		code = http.StatusNotFound
	}
	fail(w, code, text)
	return false
}
