package saga

import (
	"encoding/json"
	"math"
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

// showBranches makes the JSON of a transaction's branches, in their order.
func showBranches(t *sagamachine.Transaction) []shownBranch {
	all := make([]shownBranch, len(t.Branches))
	for i := range t.Branches {
		b := &t.Branches[i]
		all[i] = shownBranch{shownRow: row(uint64(i)+1, b.Created, b.Updated), Gid: t.Gid, URL: b.URL, Data: b.Payload, ID: b.ID, Op: b.Op,
			Status: b.Status.String(), Finished: wall(b.Finished), RolledBack: wall(b.RolledBack)}
	}
	return all
}

// shownKV is a row of DTM's table of configuration, in which it keeps topics and nothing else.
type shownKV struct {
	shownRow
	Cat     string `json:"cat"`
	Key     string `json:"k"`
	Value   string `json:"v"`
	Version uint64 `json:"version"`
}

// topics is the category of topics.
const topics = "topics"

func showTopic(t *sagamachine.Topic) shownKV {
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
	return shownKV{shownRow: row(t.ID, t.Created, t.Updated), Cat: topics, Key: t.Name, Value: string(b), Version: t.Version}
}
