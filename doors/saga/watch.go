package saga

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/port"
)

// heartbeat is between two lines that say nothing, for proxies that end what is silent.
const heartbeat = 15 * time.Second

// statusEvent is a watch's message about a transaction: its data line.
type statusEvent struct {
	Gid    string `json:"gid"`
	Mode   string `json:"trans_type"`
	Status string `json:"status"`
	Reason string `json:"rollback_reason,omitempty"`
	Result string `json:"result,omitempty"`
}

// watch answers GET /watch?gid= with server-sent events: the present status, each status that follows, and the end after a final one.
// Where a watch ends without one, this member has stopped or no longer answers: ask again.
func (d *Door) watch(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	err := d.watched(w, r)
	d.meters.http["watch"].done(began, err == nil)
	if err != nil {
		f := broken(err)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		if f.code == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(f.code)
		_, _ = w.Write(f.body()) // the client went away
	}
}

// watched returns an error only while nothing has been sent.
func (d *Door) watched(w http.ResponseWriter, r *http.Request) error {
	q := &ask{acked: acked{asked: r.Header.Get(ack.Header)}, Caller: Caller{Host: port.HostOf(addr(r.RemoteAddr)), Authorization: r.Header.Get("Authorization"), TLS: r.TLS}}
	if err := d.admit(q); err != nil {
		return err
	}
	gid := r.URL.Query().Get("gid")
	if err := checkGid(gid); err != nil {
		return err
	}
	if d.watching.Add(1) > int64(d.opts.MaxWatchers) {
		d.watching.Add(-1)
		return later("%d watches are open at this member, and that is as many as may be", d.opts.MaxWatchers)
	}
	defer d.watching.Add(-1)
	news := d.wait(gid) // before it is looked at: nothing that follows may be missed
	defer news.cancel()
	t, err := d.find(gid)
	if _, err = d.gate(q, t, err); err != nil {
		return err
	}
	if t == nil {
		return refuse(http.StatusNotFound, "no TransGlobal with gid: %s found", gid)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	d.stream(w, r, q, t, news)
	return nil
}

// stream sends events until a final one. Statuses only ever go forward, which is how what was shown already is told from news.
func (d *Door) stream(w http.ResponseWriter, r *http.Request, q *ask, t *sagamachine.Transaction, news *waiter) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for shown, coming := sagapart.Status(0), []sagapart.Status{t.Status}; ; {
		for _, s := range coming {
			if rank[s] <= rank[shown] {
				continue
			}
			if shown = s; d.send(w, r, q, t, s) != nil || s.Final() {
				return
			}
		}
		coming = coming[:0]
		select {
		case <-news.news:
			for _, e := range news.take() {
				if e.Number == t.Number {
					coming = append(coming, e.Status)
				}
			}
		case <-beat.C:
			if _, err := w.Write([]byte(":\n\n")); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-d.stopping:
			return
		case <-d.node.StoppedC():
			return
		}
	}
}

// rank is the order in which a transaction comes to its statuses.
var rank = [...]int{sagapart.Prepared: 1, sagapart.Submitted: 2, sagapart.Aborting: 3, sagapart.Succeed: 4, sagapart.Failed: 4}

// send sends that a transaction has come to a status, with the facts known by now.
func (d *Door) send(w http.ResponseWriter, r *http.Request, q *ask, t *sagamachine.Transaction, s sagapart.Status) error {
	if now, err := d.machine.BriefNumber(t.Number); err == nil && now != nil {
		t = now
	}
	data, err := json.Marshal(&statusEvent{Gid: t.Gid, Mode: t.Mode.String(), Status: s.String(), Reason: t.Reason, Result: t.Result})
	if err != nil {
		return err // cannot be: texts can be written
	}
	if err := d.archived(r.Context(), q); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "event: status\ndata: %s\n\n", data); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// addr is an address as net/http has it.
type addr string

// Network implements net.Addr.
func (addr) Network() string { return "tcp" }

// String implements net.Addr.
func (a addr) String() string { return string(a) }
