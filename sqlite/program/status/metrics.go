package status

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfastdb/holdfast/sqlite/agent"
)

// metric is one of a database, read when it is scraped.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(v *agent.View) float64
}

func one(name, help string, kind prometheus.ValueType, of func(v *agent.View) float64) metric {
	return metric{prometheus.NewDesc(name, help, []string{"db"}, nil), kind, of}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// The first ones have Litestream's names (v0.5), where there is a true value for them.
var ofDatabase = []metric{
	one("litestream_db_size", "Size of the database file in bytes.", prometheus.GaugeValue, func(v *agent.View) float64 { return float64(v.Bytes) }),
	one("litestream_wal_size", "Size of the WAL file in bytes.", prometheus.GaugeValue, func(v *agent.View) float64 { return float64(v.WALBytes) }),
	one("litestream_txid", "TXID of the newest state that is stored.", prometheus.GaugeValue, func(v *agent.View) float64 { return float64(v.Stored) }),
	one("litestream_sync_count", "Captures that were tried.", prometheus.CounterValue, func(v *agent.View) float64 { return float64(v.Syncs) }),
	one("litestream_sync_error_count", "Captures that failed.", prometheus.CounterValue, func(v *agent.View) float64 { return float64(v.Failures) }),
	one("holdfast_sqlite_followed", "1: commits are captured.", prometheus.GaugeValue, func(v *agent.View) float64 { return flag(v.Followed) }),
	one("holdfast_sqlite_writes_refused", "1: writes under ack archive are refused.", prometheus.GaugeValue, func(v *agent.View) float64 { return flag(v.Phase != 0) }),
	one("holdfast_sqlite_captured_txid", "TXID of the newest state that is captured.", prometheus.GaugeValue, func(v *agent.View) float64 { return float64(v.Captured) }),
	one("holdfast_sqlite_stored_timestamp_seconds", "When the newest state that is stored was captured, in Unix time; 0: nothing is stored.", prometheus.GaugeValue,
		func(v *agent.View) float64 {
			if v.StoredAt.IsZero() {
				return 0
			}
			return float64(v.StoredAt.UnixMilli()) / 1000
		}),
	one("holdfast_sqlite_behind_seconds", "Age of the oldest commit that is captured and not stored; 0: there is none.", prometheus.GaugeValue,
		func(v *agent.View) float64 { return v.Behind.Seconds() }),
	one("holdfast_sqlite_groups_on_the_way", "Groups of commits that are captured and not stored.", prometheus.GaugeValue, func(v *agent.View) float64 { return float64(v.OnTheWay) }),
	one("holdfast_sqlite_unfenced", "1: the store ignores conditions, and nothing fences another agent.", prometheus.GaugeValue, func(v *agent.View) float64 { return flag(v.Unfenced) }),
	one("holdfast_sqlite_extension_connections", "Connections of programs that have loaded the extension.", prometheus.GaugeValue,
		func(v *agent.View) float64 { return float64(v.Connections) }),
	one("holdfast_sqlite_commits_without_extension_total", "Commits under ack archive that did not wait, because their program has no extension.", prometheus.CounterValue,
		func(v *agent.View) float64 { return float64(v.Without) }),
}

var (
	alarmDesc = prometheus.NewDesc("holdfast_sqlite_alarm", "1: this alarm of the database is on; the log and `holdfast sqlite status` say why.", []string{"db", "kind"}, nil)
	byReplica = []string{"replica_type", "operation"}
	opsDesc   = prometheus.NewDesc("litestream_replica_operation_total", "Operations on replicas that succeeded.", byReplica, nil)
	bytesDesc = prometheus.NewDesc("litestream_replica_operation_bytes", "Bytes of operations on replicas that succeeded.", byReplica, nil)
	errsDesc  = prometheus.NewDesc("holdfast_sqlite_replica_operation_failures_total", "Operations on replicas that failed; each attempt counts.", byReplica, nil)
)

// collector reads an agent when it is scraped.
type collector struct{ of Views }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range ofDatabase {
		ch <- m.desc
	}
	for _, d := range []*prometheus.Desc{alarmDesc, opsDesc, bytesDesc, errsDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	type sums struct{ puts, bytes, failures float64 }
	types := map[string]*sums{}
	for _, v := range c.of.Views() {
		for _, m := range ofDatabase {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(&v), v.Path)
		}
		on := map[string]bool{}
		for _, a := range v.Alarms {
			on[a.Kind] = true
		}
		for _, kind := range agent.AlarmKinds() {
			ch <- prometheus.MustNewConstMetric(alarmDesc, prometheus.GaugeValue, flag(on[kind]), v.Path, kind)
		}
		kind, _, _ := strings.Cut(v.URL, ":")
		s := types[kind]
		if s == nil {
			s = &sums{}
			types[kind] = s
		}
		s.puts, s.bytes, s.failures = s.puts+float64(v.Puts), s.bytes+float64(v.PutBytes), s.failures+float64(v.PutFailures)
	}
	for kind, s := range types { // any order: a scrape sorts
		ch <- prometheus.MustNewConstMetric(opsDesc, prometheus.CounterValue, s.puts, kind, "PUT")
		ch <- prometheus.MustNewConstMetric(bytesDesc, prometheus.CounterValue, s.bytes, kind, "PUT")
		ch <- prometheus.MustNewConstMetric(errsDesc, prometheus.CounterValue, s.failures, kind, "PUT")
	}
}

// serveMetrics serves GET /metrics of an agent at a TCP address, as host:port or :port.
func serveMetrics(addr string, a Views, log *slog.Logger) (*server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w; give another address", err)
	}
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collector{a})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	log.Info("metrics", "addr", l.Addr().String())
	return serve(l, mux, "", log), nil
}
