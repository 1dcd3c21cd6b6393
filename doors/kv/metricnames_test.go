package kv_test

import (
	"context"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestEveryNameOfEtcdsIsThere has the names that etcd 3.7's own end-to-end suite looks for and no other test here does.
func TestEveryNameOfEtcdsIsThere(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	put(t, s.client(t), "a", "1")
	there := map[string]bool{}
	for name := range s.scrape(t) {
		name, _, _ = strings.Cut(name, "{")
		there[strings.TrimSuffix(name, "_count")] = true
	}
	for _, name := range []string{
		"etcd_debugging_disk_backend_commit_rebalance_duration_seconds", "etcd_debugging_disk_backend_commit_spill_duration_seconds",
		"etcd_debugging_disk_backend_commit_write_duration_seconds", "etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds",
		"etcd_debugging_mvcc_db_compaction_total_duration_milliseconds", "etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds",
		"etcd_debugging_server_watch_send_loop_watch_stream_duration_seconds",
		"etcd_debugging_server_watch_send_loop_watch_stream_duration_per_event_seconds",
		"etcd_debugging_server_watch_send_loop_control_stream_duration_seconds",
		"etcd_debugging_server_watch_send_loop_progress_duration_seconds", "etcd_debugging_snap_save_marshalling_duration_seconds",
		"etcd_debugging_snap_save_total_duration_seconds", "etcd_disk_backend_defrag_duration_seconds", "etcd_disk_defrag_inflight",
		"etcd_grpc_proxy_cache_hits_total", "etcd_grpc_proxy_cache_keys_total", "etcd_grpc_proxy_cache_misses_total",
		"etcd_grpc_proxy_events_coalescing_total", "etcd_grpc_proxy_watchers_coalescing_total", "etcd_mvcc_db_open_read_transactions",
		"etcd_server_apply_duration_seconds", "etcd_server_client_requests_total", "etcd_server_heartbeat_send_failures_total",
		"etcd_server_range_duration_seconds", "etcd_server_request_duration_seconds", "etcd_server_snapshot_apply_in_progress_total",
		"etcd_snap_db_fsync_duration_seconds", "etcd_snap_db_save_total_duration_seconds", "etcd_snap_fsync_duration_seconds",
		"os_fd_limit", "os_fd_used",
	} {
		if !there[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestRequestsAreCountedByTypeAndVersion(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	was := s.scrape(t)
	put(t, c, "a", "1")
	put(t, c, "a", "2")
	must(c.Get(ctx, "a"))(t)
	if _, err := c.Get(ctx, "a", clientv3.WithRev(99)); err == nil {
		t.Fatal("a revision to come was read")
	}
	must(c.Defragment(ctx, s.addr))(t)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	events(t, c.Watch(watching, "a", clientv3.WithRev(2)), 2)
	now := s.scrape(t)
	for name, more := range map[string]float64{
		`etcd_server_request_duration_seconds_count{success="true",type="Put"}`:       2,
		`etcd_server_request_duration_seconds_count{success="true",type="Range"}`:     1,
		`etcd_server_request_duration_seconds_count{success="false",type="Range"}`:    1,
		`etcd_server_range_duration_seconds_count{success="true"}`:                    1,
		`etcd_server_range_duration_seconds_count{success="false"}`:                   1,
		`etcd_server_client_requests_total{client_api_version="3.7",type="stream"}`:   1,
		`etcd_disk_backend_defrag_duration_seconds_count`:                             1,
		`etcd_debugging_server_watch_send_loop_control_stream_duration_seconds_count`: 1,
		`etcd_debugging_server_watch_send_loop_progress_duration_seconds_count`:       0,
	} {
		got, ok := now[name]
		if got -= was[name]; !ok || got != more {
			t.Errorf("%s grew by %v (there: %v), want %v", name, got, ok, more)
		}
	}
	const unary = `etcd_server_client_requests_total{client_api_version="3.7",type="unary"}`
	if got := now[unary] - was[unary]; got < 5 {
		t.Errorf("%s grew by %v, want 5 at least", unary, got)
	}
	const sends, perEvent = "etcd_debugging_server_watch_send_loop_watch_stream_duration_seconds", "etcd_debugging_server_watch_send_loop_watch_stream_duration_per_event_seconds"
	if now[sends+"_count"] == 0 || now[perEvent+"_count"] != now[sends+"_count"] || now[perEvent+"_sum"] > now[sends+"_sum"] {
		t.Errorf("%v answers with events took %v s, %v s an event", now[sends+"_count"], now[sends+"_sum"], now[perEvent+"_sum"])
	}
	// The two are not counted at the same moment, and other tests open files in between.
	for tries := 0; ; tries++ {
		used, most, open := now["os_fd_used"], now["os_fd_limit"], now["process_open_fds"]
		if used >= 3 && most >= used && used <= open+20 {
			break
		}
		if tries == 20 {
			t.Fatalf("%v files of %v are open, and the process says %v", used, most, open)
		}
		time.Sleep(50 * time.Millisecond)
		now = s.scrape(t)
	}
}

// TestClientVersionsAreBounded: the version is what a client claims, and each is a series.
func TestClientVersionsAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	conn := must(grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	bare := pb.NewKVClient(conn)
	for i := range 100 {
		ctx := metadata.AppendToOutgoingContext(context.Background(), rpctypes.MetadataClientAPIVersionKey, strings.Repeat("9", i+1))
		must(bare.Range(ctx, &pb.RangeRequest{Key: []byte("a")}))(t)
	}
	must(bare.Range(context.Background(), &pb.RangeRequest{Key: []byte("a")}))(t)
	series, sum := 0, 0.0
	now := s.scrape(t)
	for name, v := range now {
		if strings.HasPrefix(name, "etcd_server_client_requests_total{") {
			series, sum = series+1, sum+v
		}
	}
	if series > 40 || sum < 101 {
		t.Errorf("%d series with %v requests", series, sum)
	}
	if now[`etcd_server_client_requests_total{client_api_version="unknown",type="unary"}`] < 1 {
		t.Error("who says no version is not counted")
	}
}

func TestACompactionHasADuration(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	put(t, c, "a", "1")
	put(t, c, "a", "2")
	must(c.Compact(ctx, 3, clientv3.WithCompactPhysical()))(t)
	const name = "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds_count"
	for end := time.Now().Add(wait.Limit(t)); s.scrape(t)[name] != 1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is %v after one compaction", name, s.scrape(t)[name])
		}
	}
}
