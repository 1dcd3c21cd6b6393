package ops

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfastdb/holdfast/internal/meter"
)

// outcomes are the times of one kind of thing, by whether it went well.
type outcomes struct{ failed, done meter.Histogram }

func (o *outcomes) record(d time.Duration, ok bool) {
	if ok {
		o.done.Record(d)
		return
	}
	o.failed.Record(d)
}

// requestType is etcd's name of the kind of a method's requests, "" where etcd times none.
func requestType(service, name string) string {
	switch service {
	case "etcdserverpb.KV":
		if name == "Compact" {
			return "Compaction"
		}
		return name
	case "etcdserverpb.Lease":
		if name == "LeaseGrant" || name == "LeaseRevoke" {
			return name
		}
	case "etcdserverpb.Maintenance":
		if name == "Alarm" {
			return name
		}
	case "etcdserverpb.Auth":
		if strings.HasPrefix(name, "Auth") {
			return name
		}
		return "Auth" + name
	}
	return ""
}

// durations exports the times of requests and of their steps.
func (c *collector) durations(ch chan<- prometheus.Metric) {
	o := &c.ops.opts
	const requests = "Duration of requests by their type, a Txn that only reads among the others."
	for _, m := range o.Calls.methods {
		if m.requests == nil {
			continue
		}
		c.histogram(ch, "etcd_server_request_duration_seconds", requests, &m.requests.done, fast, "type", m.requestType, "success", "true")
		c.histogram(ch, "etcd_server_request_duration_seconds", requests, &m.requests.failed, fast, "type", m.requestType, "success", "false")
	}
	const ranges = "Duration of reading the keys of a Range."
	c.histogram(ch, "etcd_server_range_duration_seconds", ranges, &o.Counts.ranges.done, fine, "success", "true")
	c.histogram(ch, "etcd_server_range_duration_seconds", ranges, &o.Counts.ranges.failed, fine, "success", "false")
	c.histogram(ch, "etcd_server_apply_duration_seconds", "Duration of applying one log entry with all its commands.", &o.Steps.Apply.Seconds, fine,
		"version", "v3", "op", "Entry", "success", "true")
	c.histogram(ch, "etcd_disk_backend_defrag_duration_seconds", "Duration of answering a defragmentation, which has nothing to do.",
		&o.Counts.Defrag, bounds{100 * time.Millisecond, 13})
	const watch = "etcd_debugging_server_watch_send_loop_"
	c.histogram(ch, watch+"watch_stream_duration_seconds", "Duration of sending one answer with events.", &o.Counts.WatchEvents, fast)
	c.histogram(ch, watch+"watch_stream_duration_per_event_seconds", "The same, by the number of its events.", &o.Counts.WatchEach, fast)
	c.histogram(ch, watch+"control_stream_duration_seconds", "Duration of telling a client that a watch began or ended.", &o.Counts.WatchControl, fast)
	c.histogram(ch, watch+"progress_duration_seconds", "Duration of telling a client how far a watch is.", &o.Counts.WatchProgress, fast)

	k := o.Keys
	buckets, seen, bound := map[float64]uint64{}, uint64(0), 100.0
	for i := range k.Compactions {
		if seen += k.Compactions[i].Load(); i < len(k.Compactions)-1 {
			buckets[bound] = seen
			bound *= 2
		}
	}
	ch <- prometheus.MustNewConstHistogram(prometheus.NewDesc("etcd_debugging_mvcc_db_compaction_total_duration_milliseconds",
		"From a compaction to the log entry that dropped the last of its versions.", nil, nil), seen, float64(k.CompactionMs.Load()), buckets)
}
