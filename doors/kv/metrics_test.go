package kv_test

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// scrape returns every sample of /metrics by its name and labels as they stand there.
func (s *server) scrape(t testing.TB) map[string]float64 {
	t.Helper()
	resp, err := http.Get("http://" + s.addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	samples := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(strings.ReplaceAll(lines.Text(), "} ", "}\t"), "\t")
		if value == "" {
			name, value, _ = strings.Cut(lines.Text(), " ")
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			samples[name] = v
		}
	}
	return samples
}

// call is the labels of a method.
func call(service, method, kind string) string {
	return `{grpc_method="` + method + `",grpc_service="etcdserverpb.` + service + `",grpc_type="` + kind + `"}`
}

func handled(code, service, method, kind string) string {
	return `grpc_server_handled_total{grpc_code="` + code + `",` + call(service, method, kind)[1:]
}

func TestMetricsSayWhatHappened(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	want := func(what string, samples map[string]float64, name string, v float64) {
		t.Helper()
		if got, ok := samples[name]; !ok || got != v {
			t.Errorf("%s: %s is %v (there: %v), want %v", what, name, got, ok, v)
		}
	}

	fresh := s.scrape(t)
	want("before any call", fresh, "grpc_server_started_total"+call("KV", "Put", "unary"), 0)
	want("before any call", fresh, handled("NotFound", "KV", "Put", "unary"), 0)
	want("before any call", fresh, "etcd_mvcc_put_total", 0)

	put(t, c, "a", "12345")
	put(t, c, "a", "6")
	if _, err := c.Put(ctx, "b", "v", clientv3.WithLease(99)); err == nil {
		t.Fatal("a put with a lease that is not there went through")
	}
	must(c.Get(ctx, "a"))(t)
	must(c.Txn(ctx).Then(clientv3.OpPut("c", "1"), clientv3.OpDelete("a"), clientv3.OpGet("c")).Commit())(t)
	must(c.Grant(ctx, 100))(t)
	now := s.scrape(t)
	want("two puts and a refused one", now, "grpc_server_started_total"+call("KV", "Put", "unary"), 3)
	want("two puts and a refused one", now, handled("OK", "KV", "Put", "unary"), 2)
	want("two puts and a refused one", now, handled("NotFound", "KV", "Put", "unary"), 1)
	want("two puts and a refused one", now, "grpc_server_msg_received_total"+call("KV", "Put", "unary"), 3)
	want("two puts and a refused one", now, "grpc_server_msg_sent_total"+call("KV", "Put", "unary"), 2)
	want("two puts and a refused one", now, "grpc_server_handling_seconds_count"+call("KV", "Put", "unary"), 3)
	want("a Txn of three", now, "etcd_mvcc_put_total", 3)
	want("a Txn of three", now, "etcd_mvcc_delete_total", 1)
	want("a Txn of three", now, "etcd_mvcc_range_total", 2)
	want("a Txn of three", now, "etcd_mvcc_txn_total", 1)
	want("keys", now, "etcd_debugging_mvcc_keys_total", 1)
	want("keys", now, "etcd_debugging_mvcc_total_put_size_in_bytes", 10)
	want("a lease of 100 s", now, "etcd_debugging_lease_granted_total", 1)
	want("a lease of 100 s", now, "etcd_debugging_lease_ttl_total_sum", 100)
	want("a lease of 100 s", now, `etcd_debugging_lease_ttl_total_bucket{le="64"}`, 0)
	want("a lease of 100 s", now, `etcd_debugging_lease_ttl_total_bucket{le="128"}`, 1)

	watching, stop := context.WithCancel(ctx)
	ch := c.Watch(watching, "w", clientv3.WithPrefix())
	put(t, c, "w/1", "v") // the watch may or may not have begun: it reads what it missed
	events(t, c.Watch(watching, "w/1", clientv3.WithRev(1)), 1)
	now = s.scrape(t)
	want("two watches", now, "etcd_debugging_mvcc_watcher_total", 2)
	want("two watches", now, "etcd_debugging_mvcc_watch_stream_total", 1)
	want("two watches", now, "grpc_server_started_total"+call("Watch", "Watch", "bidi_stream"), 1)
	if n := now["etcd_debugging_mvcc_events_total"]; n < 1 {
		t.Errorf("%v events were sent, want one at least", n)
	}
	stop()
	for range ch { // until it is closed
	}
	for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(10 * time.Millisecond) {
		now = s.scrape(t)
		if now["etcd_debugging_mvcc_watcher_total"] == 0 && now["etcd_debugging_mvcc_watch_stream_total"] == 0 &&
			now[handled("Canceled", "Watch", "Watch", "bidi_stream")] == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after the watches: %v watchers, %v streams, %v ended", now["etcd_debugging_mvcc_watcher_total"],
				now["etcd_debugging_mvcc_watch_stream_total"], now[handled("Canceled", "Watch", "Watch", "bidi_stream")])
		}
	}
	want("after the watches", now, "etcd_debugging_mvcc_pending_events_total", 0)
	want("after the watches", now, "etcd_debugging_mvcc_slow_watcher_total", 0)
}

// TestMetricsHaveTheNamesAlertsAreWrittenWith has the names in the alerts and the dashboard that come with etcd, except those of other
// members: TestPeerMetrics has these.
func TestMetricsHaveTheNamesAlertsAreWrittenWith(t *testing.T) {
	t.Parallel()
	samples := serve(t, doorkv.Options{}).scrape(t)
	there := map[string]bool{}
	for name := range samples {
		name, _, _ = strings.Cut(name, "{")
		there[name] = true
	}
	for _, name := range []string{
		"etcd_server_has_leader", "etcd_server_is_leader", "etcd_server_leader_changes_seen_total", "etcd_server_id", "etcd_server_version",
		"etcd_server_proposals_failed_total", "etcd_server_proposals_pending", "etcd_server_proposals_committed_total",
		"etcd_server_proposals_applied_total", "etcd_server_quota_backend_bytes", "etcd_server_slow_apply_total",
		"etcd_server_read_indexes_failed_total", "etcd_server_health_success", "etcd_server_health_failures", "etcd_cluster_version",
		"etcd_disk_wal_fsync_duration_seconds_bucket", "etcd_disk_backend_commit_duration_seconds_bucket",
		"etcd_mvcc_db_total_size_in_bytes", "etcd_mvcc_db_total_size_in_use_in_bytes", "etcd_debugging_mvcc_db_compaction_keys_total",
		"etcd_network_client_grpc_received_bytes_total", "etcd_network_client_grpc_sent_bytes_total", "etcd_network_known_peers",
		"grpc_server_handled_total", "grpc_server_started_total", "grpc_server_handling_seconds_bucket",
		"process_resident_memory_bytes", "process_open_fds", "process_max_fds", "process_cpu_seconds_total", "go_goroutines",
	} {
		if !there[name] {
			t.Errorf("%s is missing", name)
		}
	}
}
