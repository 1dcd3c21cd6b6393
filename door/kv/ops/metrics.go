package ops

import (
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/holdfastdb/holdfast/internal/meter"
)

// Counts are what the door counts as it goes. The zero value is ready; all fields may be used by several goroutines.
type Counts struct {
	Pending                       meter.Gauge   // commands on their way through the log
	Failed                        meter.Counter // commands that ended without a result
	LeaderChanges                 meter.Counter
	HealthSuccess, HealthFailures meter.Counter
	Received, Sent                meter.Counter // bytes of gRPC messages from and to clients
	SlowReads                     meter.Counter
}

// registry holds what GET /metrics answers. Numbers are read when somebody scrapes.
func (o *Ops) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&collector{o},
	)
	return r
}

// collector exports under etcd's names what is true under them.
type collector struct{ ops *Ops }

// Describe implements prometheus.Collector: unchecked, the list is Collect.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	o := &c.ops.opts
	send := func(kind prometheus.ValueType, name, help string, v float64, labels ...string) {
		var names, values []string
		for i := 0; i < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
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
	gauge("etcd_mvcc_db_total_size_in_use_in_bytes", "Keys and values without history.", float64(g.SizeInUse))
	gauge("etcd_debugging_mvcc_current_revision", "Revision of the key space.", float64(g.Revision))
	gauge("etcd_debugging_mvcc_compact_revision", "Revision up to which history is gone.", float64(g.Compacted))
	counter("etcd_network_client_grpc_received_bytes_total", "Bytes of gRPC messages from clients.", o.Counts.Received.Load())
	counter("etcd_network_client_grpc_sent_bytes_total", "Bytes of gRPC messages to clients.", o.Counts.Sent.Load())

	c.histogram(ch, "etcd_disk_wal_fsync_duration_seconds", "Duration of one sync of the log.", &o.Steps.Sync)
	c.histogram(ch, "etcd_disk_backend_commit_duration_seconds",
		"Duration of applying one log entry and committing it to the store; no sync is in it.", &o.Steps.Apply)
}

func (c *collector) histogram(ch chan<- prometheus.Metric, name, help string, step *meter.Step) {
	var r meter.Reading
	step.Seconds.Read(&r)
	ch <- prometheus.MustNewConstHistogram(prometheus.NewDesc(name, help, nil, nil), r.Count, r.Sum.Seconds(), etcdBuckets(&r))
}

// etcdBuckets sums fine buckets into etcd's, 1 ms to 8.192 s by powers of two. Dashboards name these bounds. They do not
// fall on bounds of the meter's; what lies in the bucket a bound cuts is counted above it, so a quantile is too high by at
// most 6 %.
func etcdBuckets(r *meter.Reading) map[float64]uint64 {
	out := make(map[float64]uint64, 14)
	var seen uint64
	bound, left := time.Millisecond, 14
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
