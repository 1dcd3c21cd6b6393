package ops

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/holdfastdb/holdfast/internal/meter"
)

// Counts are the door's counters. The zero value is ready; all fields may be used by several goroutines.
type Counts struct {
	Pending                       meter.Gauge   // commands on their way through the log
	Failed                        meter.Counter // commands that ended without a result
	LeaderChanges                 meter.Counter
	HealthSuccess, HealthFailures meter.Counter
	Received, Sent                meter.Counter // bytes of gRPC messages from and to clients
	SlowReads, FailedReads        meter.Counter // read rounds that were too late for a reader, or failed
	Promoted                      meter.Counter // learners
	// How long rare things took. A Snapshot is one that a client took, a Hash one of everything, a HashRev one up to a revision.
	Snapshot, Hash, HashRev, Defrag meter.Histogram
	// How long it took to send answers of watches: with events, by the number of these, and without any.
	WatchEvents, WatchEach, WatchControl, WatchProgress meter.Histogram

	Versions Versions // of the clients
	ranges   outcomes
}

// Ranged notes the reading of a Range's keys.
func (c *Counts) Ranged(began time.Time, ok bool) { c.ranges.record(time.Since(began), ok) }

// WatchSent notes an answer with events.
func (c *Counts) WatchSent(began time.Time, events int) {
	d := time.Since(began)
	c.WatchEvents.Record(d)
	c.WatchEach.Record(d / time.Duration(max(events, 1)))
}

// registry holds the content of GET /metrics. Numbers are read at each scrape.
func (o *Ops) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		o.opts.Calls,
		&collector{o},
	)
	return r
}

// collector exports figures of this server under etcd's names, where they mean the same.
type collector struct{ ops *Ops }

// Describe implements prometheus.Collector: unchecked, the list is Collect.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	o := &c.ops.opts
	send := func(kind prometheus.ValueType, name, help string, v float64, labels ...string) {
		names, values := pairs(labels)
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, v, values...)
	}
	gauge := func(name, help string, v float64, labels ...string) {
		send(prometheus.GaugeValue, name, help, v, labels...)
	}
	counter := func(name, help string, v uint64) { send(prometheus.CounterValue, name, help, float64(v)) }

	s := o.Status()
	gauge("etcd_server_has_leader", "1 if this member knows a leader.", truth(s.Leader != 0))
	gauge("etcd_server_is_leader", "1 if this member leads.", truth(s.Leader == s.MemberID))
	gauge("etcd_server_is_learner", "1 if this member does not vote.", truth(s.Learner))
	counter("etcd_server_leader_changes_seen_total", "Leaders this member has seen come.", o.Counts.LeaderChanges.Load())
	gauge("etcd_server_proposals_committed_total", "Log index known to be committed.", float64(s.Commit))
	gauge("etcd_server_proposals_applied_total", "Log index applied.", float64(s.Applied))
	gauge("etcd_server_proposals_pending", "Commands of this member on their way through the log.", float64(o.Counts.Pending.Load()))
	counter("etcd_server_proposals_failed_total", "Commands of this member that ended without a result.", o.Counts.Failed.Load())
	counter("etcd_server_health_success", "Times /health said yes.", o.Counts.HealthSuccess.Load())
	counter("etcd_server_health_failures", "Times /health said no.", o.Counts.HealthFailures.Load())
	gauge("etcd_server_id", "Always 1; the label is this member's id.", 1, "server_id", fmt.Sprintf("%x", s.MemberID))
	gauge("etcd_server_version", "Always 1; the label is the etcd version this server behaves as.", 1, "server_version", o.APIVersion)
	gauge("etcd_server_go_version", "Always 1; the label is the Go version.", 1, "server_go_version", runtime.Version())
	gauge("etcd_cluster_version", "Always 1; the label is the etcd cluster version.", 1, "cluster_version", minor(o.ClusterVersion))

	g := o.Gauges()
	gauge("etcd_server_quota_backend_bytes", "Keys and values with history may take so many bytes.", float64(g.Quota))
	gauge("etcd_mvcc_db_total_size_in_bytes", "Keys and values with history.", float64(g.Size))
	gauge("etcd_mvcc_db_total_size_in_use_in_bytes", "The same: no space waits for a defragmentation.", float64(g.Size))
	gauge("etcd_debugging_mvcc_current_revision", "Revision of the key space.", float64(g.Revision))
	gauge("etcd_debugging_mvcc_compact_revision", "Revision up to which history is gone.", float64(g.Compacted))
	counter("etcd_network_client_grpc_received_bytes_total", "Bytes of gRPC messages from clients.", o.Counts.Received.Load())
	counter("etcd_network_client_grpc_sent_bytes_total", "Bytes of gRPC messages to clients.", o.Counts.Sent.Load())

	counter("etcd_server_read_indexes_failed_total", "Reads whose round among the members failed.", o.Counts.FailedReads.Load())
	counter("etcd_server_slow_read_indexes_total", "Reads that ended before their round among the members did.", o.Counts.SlowReads.Load())
	counter("etcd_server_slow_apply_total", "Log entries that took over 100 ms to apply.", slower(&o.Steps.Apply.Seconds, slowApply))
	counter("etcd_server_learner_promote_successes", "Learners that a client of this member made voters.", o.Counts.Promoted.Load())
	gauge("etcd_debugging_auth_revision", "Revision of the catalogue of users and roles.", float64(g.AuthRevision))
	for _, id := range g.Members {
		gauge("etcd_network_known_peers", "Always 1; the labels are this member and one of all.", 1,
			"Local", fmt.Sprintf("%x", s.MemberID), "Remote", fmt.Sprintf("%x", id))
	}
	gauge("etcd_disk_wal_write_bytes_total", "Bytes written to the log.", float64(g.LogBytes))
	c.histogram(ch, "etcd_disk_wal_write_duration_seconds", "Duration of one write to the log, without its sync.", &o.Steps.Append.Seconds, fast)
	c.histogram(ch, "etcd_disk_wal_fsync_duration_seconds", "Duration of one sync of the log.", &o.Steps.Sync.Seconds, fast)
	c.histogram(ch, "etcd_disk_backend_commit_duration_seconds",
		"Duration of applying one log entry and committing it to the store; no sync is in it.", &o.Steps.Apply.Seconds, fast)
	c.histogram(ch, "etcd_disk_backend_snapshot_duration_seconds", "Duration of one snapshot to a client.", &o.Counts.Snapshot, bounds{10 * time.Millisecond, 17})
	c.histogram(ch, "etcd_mvcc_hash_duration_seconds", "Duration of hashing everything.", &o.Counts.Hash, bounds{10 * time.Millisecond, 15})
	c.histogram(ch, "etcd_mvcc_hash_rev_duration_seconds", "Duration of hashing up to a revision.", &o.Counts.HashRev, bounds{10 * time.Millisecond, 15})
	c.keys(gauge, counter)
	c.leases(ch, counter)
	c.v2(send)
	c.durations(ch)
	c.constant(ch, gauge, counter)
	c.files(gauge)
	gauge("etcd_mvcc_db_open_read_transactions", "Views of the store that somebody reads.", float64(g.OpenViews))
	gauge("etcd_server_snapshot_apply_in_progress_total", "1 while a snapshot of the leader's takes this member's place.", truth(g.Installing))
	o.Counts.Versions.each(func(version string, unary, stream uint64) {
		const name, help = "etcd_server_client_requests_total", "Requests by the API version their client claims."
		send(prometheus.CounterValue, name, help, float64(unary), "type", "unary", "client_api_version", version)
		send(prometheus.CounterValue, name, help, float64(stream), "type", "stream", "client_api_version", version)
	})
	c.peers(ch, send, fmt.Sprintf("%x", s.MemberID))
}

// peers exports the counters of the other members. Every name is there from the start, at zero: without a prior value an alert on a rate
// would miss the first failure.
func (c *collector) peers(ch chan<- prometheus.Metric, send func(kind prometheus.ValueType, name, help string, v float64, labels ...string), self string) {
	for _, p := range c.ops.opts.Peers() {
		id, t := fmt.Sprintf("%x", p.ID), p.Traffic
		send(prometheus.GaugeValue, "etcd_network_active_peers", "1 if both members are connected with each other.", truth(p.Connected), "Local", self, "Remote", id)
		if t == nil {
			continue
		}
		count := func(name, help string, n *meter.Counter, labels ...string) {
			send(prometheus.CounterValue, name, help, float64(n.Load()), labels...)
		}
		count("etcd_network_disconnected_peers_total", "Times the connection to the other member broke.", &t.Disconnects, "Local", self, "Remote", id)
		count("etcd_network_peer_sent_bytes_total", "Bytes sent to the other member.", &t.Sent, "To", id)
		count("etcd_network_peer_received_bytes_total", "Bytes received from the other member.", &t.Received, "From", id)
		count("etcd_network_peer_sent_failures_total", "Frames and snapshots that did not get to the other member.", &t.SendFailures, "To", id)
		count("etcd_network_peer_received_failures_total", "Connections that broke within a frame, and snapshots that were not taken.", &t.ReceiveFailures, "From", id)
		c.histogram(ch, "etcd_network_peer_round_trip_time_seconds", "How long the other member takes to answer, every few seconds.",
			&t.RoundTrip, bounds{100 * time.Microsecond, 16}, "To", id)
	}
}

// keys exports the counters of keys and watchers.
func (c *collector) keys(gauge func(name, help string, v float64, labels ...string), counter func(name, help string, v uint64)) {
	o := &c.ops.opts
	k, g := o.Keys, o.Gauges()
	counter("etcd_mvcc_put_total", "Puts carried out, those in transactions included.", k.Puts.Load())
	counter("etcd_mvcc_delete_total", "Deletes carried out, those in transactions included.", k.Deletes.Load())
	counter("etcd_mvcc_range_total", "Ranges answered by this member, and those in transactions that write.", k.Ranges.Load())
	counter("etcd_mvcc_txn_total", "Transactions of more than one operation.", k.Txns.Load())
	gauge("etcd_debugging_mvcc_keys_total", "Keys there are.", float64(k.Keys.Load()))
	gauge("etcd_debugging_mvcc_total_put_size_in_bytes", "Keys and values of all puts carried out.", float64(k.PutBytes.Load()))
	counter("etcd_debugging_mvcc_db_compaction_keys_total", "Versions of keys that compactions dropped.", k.Scrubbed.Load())
	gauge("etcd_debugging_mvcc_db_compaction_last", "Unix time of the last compaction since the start, 0 if there was none.", float64(k.CompactedAt.Load()))
	gauge("etcd_debugging_mvcc_watch_stream_total", "Streams that watch.", float64(g.WatchStreams))
	gauge("etcd_debugging_mvcc_watcher_total", "Watches.", float64(g.Watchers))
	gauge("etcd_debugging_mvcc_slow_watcher_total", "Watches that catch up.", float64(g.SlowWatchers))
	gauge("etcd_debugging_mvcc_pending_events_total", "Events waiting for their client, once per watch.", float64(g.PendingEvents))
	counter("etcd_debugging_mvcc_events_total", "Events sent.", g.Events)
}

// leases exports what is counted of leases.
func (c *collector) leases(ch chan<- prometheus.Metric, counter func(name, help string, v uint64)) {
	o := &c.ops.opts
	k := o.Keys
	counter("etcd_debugging_lease_granted_total", "Leases granted.", k.Granted.Load())
	counter("etcd_debugging_lease_revoked_total", "Leases revoked.", k.Revoked.Load())
	if o.Leases != nil {
		counter("etcd_debugging_lease_renewed_total", "Renewals answered while this member led.", o.Leases.Renewed())
		counter("etcd_debugging_server_lease_expired_total", "Leases whose time was up while this member led.", o.Leases.Expired())
	}
	buckets, seen := map[float64]uint64{}, uint64(0)
	for i := range k.TTLs {
		if seen += k.TTLs[i].Load(); i < len(k.TTLs)-1 {
			buckets[float64(int64(1)<<i)] = seen
		}
	}
	ch <- prometheus.MustNewConstHistogram(prometheus.NewDesc("etcd_debugging_lease_ttl_total", "Time to live of the leases granted, in seconds.", nil, nil),
		seen, float64(k.TTLSeconds.Load()), buckets)
}

// v2 exports what is counted of the v2 API, under the names of etcd 3.4.
func (c *collector) v2(send func(kind prometheus.ValueType, name, help string, v float64, labels ...string)) {
	o := &c.ops.opts
	t := o.V2()
	if t == nil {
		return
	}
	count := func(name, help, action string, v *atomic.Uint64) {
		send(prometheus.CounterValue, name, help, float64(v.Load()), "action", action)
	}
	const reads, writes = "Reads of the v2 API, by action.", "Writes of the v2 API, by action."
	count("etcd_debugging_store_reads_total", reads, "get", &t.Gets)
	count("etcd_debugging_store_reads_failed_total", "Failed "+reads, "get", &t.GetFails)
	for _, w := range [...]struct {
		action     string
		done, fail *atomic.Uint64
	}{
		{"set", &t.Sets, &t.SetFails}, {"create", &t.Creates, &t.CreateFails}, {"update", &t.Updates, &t.UpdateFails},
		{"delete", &t.Deletes, &t.DeleteFails}, {"compareAndSwap", &t.Swaps, &t.SwapFails},
		{"compareAndDelete", &t.CompareAndDeletes, &t.CompareAndDeleteFails},
	} {
		count("etcd_debugging_store_writes_total", writes, w.action, w.done)
		count("etcd_debugging_store_writes_failed_total", "Failed "+writes, w.action, w.fail)
	}
	send(prometheus.CounterValue, "etcd_debugging_store_expires_total", "Nodes of the v2 API whose time was up.", float64(t.Expired.Load()))
	send(prometheus.CounterValue, "etcd_debugging_store_watch_requests_total", "Watches that were asked for in the v2 API.", float64(t.WatchRequests.Load()))
	if o.V2Watchers != nil {
		send(prometheus.GaugeValue, "etcd_debugging_store_watchers", "Watches of the v2 API.", float64(o.V2Watchers()))
	}
}

// files exports under etcd's names what the process collector knows of open files.
func (c *collector) files(gauge func(name, help string, v float64, labels ...string)) {
	families, err := c.ops.process.Gather()
	if err != nil {
		return // as the process collector does: unreadable ones are left out
	}
	for _, f := range families {
		switch f.GetName() {
		case "process_open_fds":
			gauge("os_fd_used", "Files this process has open.", f.GetMetric()[0].GetGauge().GetValue())
		case "process_max_fds":
			gauge("os_fd_limit", "Files this process may have open.", f.GetMetric()[0].GetGauge().GetValue())
		}
	}
}

// slowApply is from when on etcd calls the applying of an entry slow.
const slowApply = 100 * time.Millisecond

// slower counts the events of h that took longer than d, and of those in the bucket that d cuts none.
func slower(h *meter.Histogram, d time.Duration) (n uint64) {
	var r meter.Reading
	h.Read(&r)
	for i := len(r.Buckets) - 1; i > 0 && meter.Bound(i-1) >= d; i-- {
		n += r.Buckets[i]
	}
	return n
}

// bounds are those of a histogram's buckets: count of them, each twice its predecessor.
type bounds struct {
	first time.Duration
	count int
}

// fast are etcd's bounds for what happens with every write: 1 ms to 8.192 s.
var fast = bounds{time.Millisecond, 14}

// fine is its choice for what happens in memory: 0.1 ms to 52 s.
var fine = bounds{100 * time.Microsecond, 20}

func (c *collector) histogram(ch chan<- prometheus.Metric, name, help string, h *meter.Histogram, b bounds, labels ...string) {
	var r meter.Reading
	h.Read(&r)
	names, values := pairs(labels)
	ch <- prometheus.MustNewConstHistogram(prometheus.NewDesc(name, help, names, nil), r.Count, r.Sum.Seconds(), b.sum(&r), values...)
}

// pairs takes names and values of labels apart that follow each other in turn.
func pairs(labels []string) (names, values []string) {
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	return names, values
}

// sum sums fine buckets into etcd's. Dashboards name these bounds. They do not fall on bounds of the meter's. The bucket that a bound cuts
// is counted above it, so a quantile is too high by at most 6 %.
func (b bounds) sum(r *meter.Reading) map[float64]uint64 {
	out := make(map[float64]uint64, b.count)
	var seen uint64
	bound, left := b.first, b.count
	for i, n := range r.Buckets {
		for left > 0 && meter.Bound(i) > bound {
			out[bound.Seconds()] = seen
			bound *= 2
			left--
		}
		seen += n
	}
	return out
}

// minor is a version without its last number: etcd labels cluster versions so.
func minor(v string) string {
	for i := len(v) - 1; i > 0; i-- {
		if v[i] == '.' {
			return v[:i]
		}
	}
	return v
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
