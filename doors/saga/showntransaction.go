package saga

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// shownTransaction is a transaction in DTM's JSON: the names, their order and which are left out when empty are those of its row.
type shownTransaction struct {
	shownRow
	Gid            string     `json:"gid,omitempty"`
	Mode           string     `json:"trans_type,omitempty"`
	Status         string     `json:"status,omitempty"`
	QueryPrepared  string     `json:"query_prepared,omitempty"`
	Protocol       string     `json:"protocol,omitempty"`
	Finished       *time.Time `json:"finish_time,omitempty"`
	RolledBack     *time.Time `json:"rollback_time,omitempty"`
	Result         string     `json:"result,omitempty"`
	RollbackReason string     `json:"rollback_reason,omitempty"`
	Options        string     `json:"options,omitempty"`
	CustomData     string     `json:"custom_data,omitempty"`
	Interval       seconds    `json:"next_cron_interval,omitempty"`
	Next           *time.Time `json:"next_cron_time,omitempty"`
	shownOptions
}

// shownRow is how every row of DTM's begins. Its clients have an id in 32 bits, so no more of a number is shown; nothing is found by it.
type shownRow struct {
	ID      uint64     `json:"id"`
	Created *time.Time `json:"create_time"`
	Updated *time.Time `json:"update_time"`
}

// shownOptions are the options, which DTM shows as a text and each by itself.
type shownOptions struct {
	WaitResult     bool              `json:"wait_result,omitempty"`
	TimeoutToFail  seconds           `json:"timeout_to_fail,omitempty"`
	RequestTimeout seconds           `json:"request_timeout,omitempty"`
	RetryInterval  seconds           `json:"retry_interval,omitempty"`
	Headers        map[string]string `json:"branch_headers,omitempty"`
	Concurrent     bool              `json:"concurrent"`
	RetryLimit     int64             `json:"retry_limit,omitempty"`
	RetryCount     int64             `json:"retry_count,omitempty"`
}

// shownBranch is a branch.
type shownBranch struct {
	shownRow
	Gid        string     `json:"gid,omitempty"`
	URL        string     `json:"url,omitempty"`
	Data       []byte     `json:"bin_data,omitempty"`
	ID         string     `json:"branch_id,omitempty"`
	Op         string     `json:"op,omitempty"`
	Status     string     `json:"status,omitempty"`
	Finished   *time.Time `json:"finish_time,omitempty"`
	RolledBack *time.Time `json:"rollback_time,omitempty"`
}

// seconds is a time in milliseconds, shown as DTM's whole seconds where it is whole.
type seconds int64

// MarshalJSON implements json.Marshaler.
func (s seconds) MarshalJSON() ([]byte, error) {
	if s%1000 == 0 {
		return json.Marshal(int64(s / 1000))
	}
	return json.Marshal(float64(s) / 1000)
}

// wall is a time of people in UTC to the millisecond, nil where there is none: more digits than C# reads are no use.
func wall(ns int64) *time.Time {
	if ns == 0 {
		return nil
	}
	t := time.UnixMilli(ns / 1e6).UTC()
	return &t
}

func row(number uint64, created, updated int64) shownRow {
	return shownRow{ID: number & math.MaxInt32, Created: wall(created), Updated: wall(updated)}
}

// show makes the JSON of a transaction. When it is due next is a tick of the cluster; people are shown it by this member's clock.
func (d *Door) show(t *sagamachine.Transaction) *shownTransaction {
	s := &shownTransaction{
		shownRow: row(t.Number, t.Created, t.Updated), Gid: t.Gid, Mode: t.Mode.String(), Status: t.Status.String(),
		QueryPrepared: t.QueryPrepared, Protocol: t.Protocol, Finished: wall(t.Finished), RolledBack: wall(t.RolledBack),
		Result: t.Result, RollbackReason: t.Reason, CustomData: t.CustomData, Interval: seconds(t.IntervalMs),
		shownOptions: shownOptions{WaitResult: t.Options.WaitResult, TimeoutToFail: seconds(t.Options.TimeoutMs),
			RequestTimeout: seconds(t.Options.RequestTimeoutMs), RetryInterval: seconds(t.Options.RetryIntervalMs), Headers: headers(t.Headers),
			Concurrent: t.Options.Concurrent, RetryLimit: t.Options.RetryLimit, RetryCount: t.Retries},
	}
	if b, err := json.Marshal(&s.shownOptions); err == nil { // it cannot fail
		s.Options = string(b)
	}
	if t.DueTick != sagamachine.Never {
		next := d.opts.Now().Add(time.Duration(t.DueTick-d.now()) * time.Millisecond)
		s.Next = wall(next.UnixNano())
	}
	return s
}

func headers(all []sagapart.Header) map[string]string {
	if len(all) == 0 {
		return nil
	}
	m := make(map[string]string, len(all))
	for _, h := range all {
		m[h.Name] = h.Value
	}
	return m
}

// showBranch makes the JSON of a transaction's i-th branch.
func showBranch(gid string, i int, b *sagamachine.Branch) *shownBranch {
	return &shownBranch{shownRow: row(uint64(i)+1, b.Created, b.Updated), Gid: gid, URL: b.URL, Data: b.Payload, ID: b.ID, Op: b.Op,
		Status: b.Status.String(), Finished: wall(b.Finished), RolledBack: wall(b.RolledBack)}
}

// shownKV is a row of DTM's table of configuration, in which it keeps topics and nothing else.
type shownKV struct {
	shownRow
	Cat     string `json:"cat"`
	Key     string `json:"k"`
	Value   string `json:"v"`
	Version uint64 `json:"version"`
}

// write writes what encoding/json makes of it, in an order of its own where that has none.
func (r *shownRow) write(w *writer) {
	w.name("id")
	w.raw(strconv.FormatUint(r.ID, 10))
	w.name("create_time")
	w.time(r.Created)
	w.name("update_time")
	w.time(r.Updated)
}

func (w *writer) time(t *time.Time) {
	if t == nil {
		w.raw("null")
		return
	}
	w.raw(t.Format(`"` + time.RFC3339Nano + `"`))
}

// The members that are left out when they are empty.

func (w *writer) textOf(name, s string) {
	if s != "" {
		w.name(name)
		w.text(s)
	}
}

func (w *writer) timeOf(name string, t *time.Time) {
	if t != nil {
		w.name(name)
		w.time(t)
	}
}

func (w *writer) secondsOf(name string, s seconds) {
	if s == 0 {
		return
	}
	b, err := s.MarshalJSON()
	if err != nil { // cannot be: it is a number
		b = []byte("0")
	}
	w.name(name)
	w.raw(string(b))
}

func (w *writer) numberOf(name string, n int64) {
	if n != 0 {
		w.name(name)
		w.raw(strconv.FormatInt(n, 10))
	}
}

func (b *shownBranch) write(w *writer) {
	w.raw("{")
	b.shownRow.write(w)
	w.textOf("gid", b.Gid)
	w.textOf("url", b.URL)
	if len(b.Data) > 0 {
		w.name("bin_data")
		w.base64(b.Data)
	}
	w.textOf("branch_id", b.ID)
	w.textOf("op", b.Op)
	w.textOf("status", b.Status)
	w.timeOf("finish_time", b.Finished)
	w.timeOf("rollback_time", b.RolledBack)
	w.raw("}")
}

func (t *shownTransaction) write(w *writer) {
	w.raw("{")
	t.members(w)
	w.raw("}")
}

func (t *shownTransaction) members(w *writer) {
	t.shownRow.write(w)
	w.textOf("gid", t.Gid)
	w.textOf("trans_type", t.Mode)
	w.textOf("status", t.Status)
	w.textOf("query_prepared", t.QueryPrepared)
	w.textOf("protocol", t.Protocol)
	w.timeOf("finish_time", t.Finished)
	w.timeOf("rollback_time", t.RolledBack)
	w.textOf("result", t.Result)
	w.textOf("rollback_reason", t.RollbackReason)
	w.textOf("options", t.Options)
	w.textOf("custom_data", t.CustomData)
	w.secondsOf("next_cron_interval", t.Interval)
	w.timeOf("next_cron_time", t.Next)
	o := &t.shownOptions
	if o.WaitResult {
		w.name("wait_result")
		w.raw("true")
	}
	w.secondsOf("timeout_to_fail", o.TimeoutToFail)
	w.secondsOf("request_timeout", o.RequestTimeout)
	w.secondsOf("retry_interval", o.RetryInterval)
	if len(o.Headers) > 0 {
		w.name("branch_headers")
		w.raw("{")
		for i, name := range slices.Sorted(maps.Keys(o.Headers)) {
			if i > 0 {
				w.raw(",")
			}
			w.text(name)
			w.raw(":")
			w.text(o.Headers[name])
		}
		w.raw("}")
	}
	w.name("concurrent")
	w.raw(strconv.FormatBool(o.Concurrent))
	w.numberOf("retry_limit", o.RetryLimit)
	w.numberOf("retry_count", o.RetryCount)
}

// kept is the part of a transaction that stays in memory while a page ends within its JSON: all but the long texts. The rest is then of the
// same moment.
type kept struct {
	shown *tried // nil: it has not begun
	sum   uint64 // of the texts
}

var textSeed = maphash.MakeSeed()

// long are the texts in it that can be long.
func (t *tried) long() []*string {
	return []*string{&t.QueryPrepared, &t.Result, &t.RollbackReason, &t.Options, &t.CustomData}
}

// keep returns what to write of a transaction of which v is shown now: as it was first shown. Where a text has changed there is no going on.
func (k *kept) keep(v *tried) (*tried, error) {
	var h maphash.Hash
	h.SetSeed(textSeed)
	for _, s := range v.long() {
		maphash.WriteComparable(&h, len(*s))
		_, _ = h.WriteString(*s) // it never fails
	}
	if k.shown == nil {
		own := *v.shownTransaction
		k.shown, k.sum = &tried{&own, v.Attempts, v.LastError, v.LastErrorURL, v.LastCall}, h.Sum64()
		for _, s := range k.shown.long() {
			*s = ""
		}
		k.shown.Headers = nil
		return v, nil
	}
	if h.Sum64() != k.sum || v.Gid != k.shown.Gid {
		return nil, errGone
	}
	same := *k.shown.shownTransaction
	all := &tried{&same, k.shown.Attempts, k.shown.LastError, k.shown.LastErrorURL, k.shown.LastCall}
	for i, s := range all.long() {
		*s = *v.long()[i]
	}
	same.Headers = v.Headers
	return all, nil
}

// topics is the category of topics.
const topics = "topics"

func showTopic(t *sagamachine.Topic) *shownKV {
	type subscriber struct {
		URL    string `json:"url"`
		Remark string `json:"remark"`
	}
	all := make([]subscriber, len(t.Subscribers))
	for i, s := range t.Subscribers {
		all[i] = subscriber{s.URL, s.Remark}
	}
	b, err := json.Marshal(all)
	if err != nil { // cannot be: texts can be written
		b = []byte("[]")
	}
	return &shownKV{shownRow: row(t.ID, t.Created, t.Updated), Cat: topics, Key: t.Name, Value: string(b), Version: t.Version}
}

func (v *shownKV) write(w *writer) {
	w.raw("{")
	v.shownRow.write(w)
	w.name("cat")
	w.text(v.Cat)
	w.name("k")
	w.text(v.Key)
	w.name("v")
	w.text(v.Value)
	w.name("version")
	w.raw(strconv.FormatUint(v.Version, 10))
	w.raw("}")
}
