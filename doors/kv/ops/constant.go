package ops

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfastdb/holdfast/internal/meter"
)

// never is an empty histogram, of something that does not happen here.
var never meter.Histogram

// constant exports metrics that are always 0 here, because the thing does not exist. That is the true value, and dashboards that name them
// keep working. A metric whose thing exists here in another form, and is therefore not 0, must not be in this list.
func (c *collector) constant(ch chan<- prometheus.Metric, gauge func(name, help string, v float64, labels ...string), counter func(name, help string, v uint64)) {
	const bbolt = "Always without an event: there is no bbolt file whose pages were balanced, split or written."
	for _, step := range [...]string{"rebalance", "spill", "write"} {
		c.histogram(ch, "etcd_debugging_disk_backend_commit_"+step+"_duration_seconds", bbolt, &never, fast)
	}
	for _, what := range [...]string{"db", "index"} {
		c.milliseconds(ch, "etcd_debugging_mvcc_"+what+"_compaction_pause_duration_milliseconds", "Always without an event: compactions pause nothing.")
	}
	const file = "Always without an event: members hand each other a view of the store, no snapshot file."
	for _, name := range [...]string{"etcd_debugging_snap_save_marshalling_duration_seconds", "etcd_debugging_snap_save_total_duration_seconds",
		"etcd_snap_fsync_duration_seconds", "etcd_snap_db_fsync_duration_seconds"} {
		c.histogram(ch, name, file, &never, fast)
	}
	c.histogram(ch, "etcd_snap_db_save_total_duration_seconds", file, &never, bounds{100 * time.Millisecond, 10})
	gauge("etcd_disk_defrag_inflight", "Always 0: a defragmentation is answered at once.", 0)
	counter("etcd_server_heartbeat_send_failures_total", "Always 0: no heartbeat waits for the disk, which is what etcd counts.", 0)
	const proxy = "Always 0: a server is no proxy."
	counter("etcd_grpc_proxy_cache_hits_total", proxy, 0)
	counter("etcd_grpc_proxy_cache_misses_total", proxy, 0)
	gauge("etcd_grpc_proxy_cache_keys_total", proxy, 0)
	counter("etcd_grpc_proxy_events_coalescing_total", proxy, 0)
	counter("etcd_grpc_proxy_watchers_coalescing_total", proxy, 0)
}

// milliseconds is an empty histogram whose bounds etcd has in milliseconds.
func (c *collector) milliseconds(ch chan<- prometheus.Metric, name, help string) {
	buckets := map[float64]uint64{}
	for bound := 1.0; len(buckets) < 13; bound *= 2 {
		buckets[bound] = 0
	}
	ch <- prometheus.MustNewConstHistogram(prometheus.NewDesc(name, help, nil, nil), 0, 0, buckets)
}
