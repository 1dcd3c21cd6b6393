package saga

import (
	"encoding/json"
	"strconv"
	"time"

	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
)

// tried is a transaction with what operators want to know beyond DTM's row. It has paths of its own (/api/holdfast/all and query), because
// some of DTM's clients refuse fields that they do not know.
type tried struct {
	*shownTransaction
	// Attempts is how many passes over it have ended. It is in the log, so every member tells the same.
	Attempts uint32 `json:"attempts"`
	// LastError and its URL are of the leader's memory: empty on other members, and after a change of leader until the next attempt fails.
	LastError    string `json:"last_error,omitempty"`
	LastErrorURL string `json:"last_error_url,omitempty"`
	// LastCall is of the leader's memory as well.
	LastCall *shownCall `json:"last_call,omitempty"`
}

// shownCall is the newest call of a transaction. Time is when it ended, or when it began if it is under way.
type shownCall struct {
	URL      string    `json:"url"`
	Op       string    `json:"op"`
	BranchID string    `json:"branch_id"`
	Time     time.Time `json:"time"`
	UnderWay bool      `json:"under_way"`
}

// Trouble is the reason why an open transaction is tried again.
type Trouble struct {
	// URL and Text are of the newest error, both "" if there is none.
	URL, Text string
	// Call is the newest call; its URL is "" if none is known.
	Call Call
}

// Call is a call of a branch. Tick is when it ended, by the clock that transactions go by, or when it began if it is Running.
type Call struct {
	URL, Op, BranchID string
	Tick              int64
	Running           bool
}

// write writes it, without the operator's members where it is for DTM's clients.
func (t *tried) write(w *writer, operator bool) {
	if !operator {
		t.shownTransaction.write(w)
		return
	}
	w.raw("{")
	t.members(w)
	w.name("attempts")
	w.raw(strconv.FormatUint(uint64(t.Attempts), 10))
	w.textOf("last_error", t.LastError)
	w.textOf("last_error_url", t.LastErrorURL)
	if c := t.LastCall; c != nil {
		b, err := json.Marshal(c)
		if err != nil { // cannot be: texts and a time can be written
			b = []byte("null")
		}
		w.name("last_call")
		w.raw(string(b))
	}
	w.raw("}")
}

// knows says where the errors of an answer come from.
type knows struct {
	// Leads reports whether this member leads, and so would know errors. Leader is the name of the one that does, "" if none is known.
	Leads  bool   `json:"leads"`
	Leader string `json:"leader"`
	// Held: a restore has stopped all transactions, and none is tried.
	Held bool `json:"held"`
}

func (d *Door) knows() knows {
	k := knows{Held: d.machine.Held()}
	if d.opts.Trouble != nil {
		_, k.Leads = d.opts.Trouble(0, 0)
	}
	if d.opts.Leader != nil {
		k.Leader = d.opts.Leader()
	}
	return k
}

// tried makes the JSON of a transaction. One that has ended has a reason, and no error.
func (d *Door) tried(t *sagamachine.Transaction) *tried {
	s := &tried{shownTransaction: d.show(t), Attempts: t.Passes}
	if d.opts.Trouble != nil && !t.Status.Final() {
		of, _ := d.opts.Trouble(t.Number, t.Status)
		s.LastErrorURL, s.LastError = of.URL, of.Text
		if c := of.Call; c.URL != "" {
			at := d.opts.Now().Add(time.Duration(c.Tick-d.now()) * time.Millisecond)
			s.LastCall = &shownCall{URL: c.URL, Op: c.Op, BranchID: c.BranchID, Time: at.UTC().Truncate(time.Millisecond), UnderWay: c.Running}
		}
	}
	return s
}

// begin is how an answer that says it begins.
func (k knows) begin() string {
	b, err := json.Marshal(k)
	if err != nil { // cannot be: texts can be written
		b = []byte("{}")
	}
	return string(b[:len(b)-1]) + ","
}

// allTried is all for operators.
func (d *Door) allTried(q *ask, p params) (any, error) {
	l, next, err := d.list(p)
	if err != nil {
		return nil, err
	}
	l.operator = true
	return d.paged(q, l.of(d.knows().begin()+`"next_position":"`+next+`","transactions":[`))
}

// queryTried is query for operators.
func (d *Door) queryTried(q *ask, p params) (any, error) {
	return d.queried(q, p.get("gid"), &shownWhole{head: d.knows().begin() + `"branches":[`, operator: true})
}

// listRows and listBytes bound what the making of one list reads. It is read in pieces: the first among many readers, and the others, which
// are larger, among few. A list without a filter may read megabytes, and a hundred clients may ask at once.
const (
	listRows, listBytes = 10_000, 8 << 20
	smallListRows       = 1000
	largeListBytes      = 1 << 20
)

// list reads which transactions are on the page that is asked for, and the position of the next one, "" if there is none.
func (d *Door) list(p params) (l *shownList, next string, err error) {
	before, n, f, err := listOf(p)
	if err != nil {
		return nil, "", err
	}
	if err := d.node.Linearize(d.bounded()); err != nil {
		return nil, "", unread(err)
	}
	l = &shownList{d: d, filter: f}
	slots, piece := d.small, sagamachine.Reads{Rows: smallListRows, Bytes: smallPage}
	for left := (sagamachine.Reads{Rows: listRows, Bytes: listBytes}); ; {
		most := sagamachine.Reads{Rows: min(piece.Rows, left.Rows), Bytes: min(piece.Bytes, left.Bytes)}
		left.Rows, left.Bytes = left.Rows-most.Rows, left.Bytes-most.Bytes
		var found []sagamachine.Listed
		var after uint64
		err := d.reading(slots, func() (err error) {
			found, after, err = d.machine.List(before, n-len(l.listed), smallPage-int(l.size), &most, f)
			return err
		})
		if err != nil {
			return nil, "", err
		}
		for _, one := range found {
			l.listed, l.size = append(l.listed, one), l.size+one.Bytes
		}
		left.Rows, left.Bytes = left.Rows+most.Rows, left.Bytes+most.Bytes
		switch {
		case after == 0:
			return l, "", nil
		case len(l.listed) >= n, left.Rows <= 0, left.Bytes < 0:
			return l, strconv.FormatUint(after, 10), nil
		}
		before, slots, piece = after, d.large, sagamachine.Reads{Rows: listRows, Bytes: largeListBytes}
	}
}
