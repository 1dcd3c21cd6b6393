package program

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/serve/admin"
)

// TestMetricsOfTransparencyLogs: two logs, one of them damaged, one published to two places; as the leader and as a follower.
func TestMetricsOfTransparencyLogs(t *testing.T) {
	m := tlogmachine.New()
	rig := machinetest.Open(t, store.NewMem(), m)
	apply := func(p *tlogpart.Part) {
		t.Helper()
		rig.Must(entry.MachineTlog, tlogpart.AppendPart(nil, p))
	}
	var keys []*tiles.Signer
	for i, name := range []string{"default", "other"} {
		key, err := tiles.NewSigner("log.example/"+name, bytes.Repeat([]byte{byte(i)}, 32))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
		apply(&tlogpart.Part{Kind: tlogpart.Create, Spec: tlogpart.LogSpec{Name: name, Key: *key.Verifier()}})
	}
	add := &tlogpart.Part{Kind: tlogpart.Append, Log: 1}
	for range 7 {
		add.Entries = tiles.AppendEntry(add.Entries, []byte("entry"))
	}
	apply(add)
	v := m.Find("default").View()
	n := &tiles.Note{Text: (&tiles.Checkpoint{Origin: "log.example/default", Size: v.Size, Root: v.Root}).Text()}
	keys[0].Sign(n)
	apply(&tlogpart.Part{Kind: tlogpart.Checkpoint, Checkpoints: []tlogpart.Signed{{Log: 1, Size: v.Size, Root: v.Root, Note: n.Append(nil)}}})
	apply(add)
	m.Find("other").SetDamage(errors.New("altered"))

	k := new(meter.Tlog)
	k.Batch.Record(3)
	k.Batch.Record(4)
	k.Sign.Record(100 * time.Microsecond)
	k.Show.Record(3 * time.Millisecond)
	k.Log("default").Added.Add(14)
	k.Log("default").Refused.Inc()
	k.Log("other").Unknown.Add(2)
	k.Log("default").ScrubDone.Set(5)
	k.Log("default").ScrubAll.Set(7)
	k.Log("other").ScrubBad.Inc()
	k.Log("other").ScrubEnded.Set(1_800_000_000)
	k.Place("default", "file:///www").Size.Set(4)
	k.Place("default", "s3://b/p").Failed.Inc()

	scrape := func(leads bool) string {
		t.Helper()
		r := prometheus.NewRegistry()
		r.MustRegister(collector(func(ch chan<- prometheus.Metric) { collect(admin.NewMetrics(ch), m, k, leads) }))
		w := httptest.NewRecorder()
		promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	body := scrape(true)
	for _, want := range []string{
		`holdfast_tlog_size{log="default"} 14`, `holdfast_tlog_checkpoint_size{log="default"} 7`, `holdfast_tlog_size{log="other"} 0`,
		`holdfast_tlog_held{log="default"} 0`, `holdfast_tlog_damaged{log="default"} 0`, `holdfast_tlog_damaged{log="other"} 1`,
		`holdfast_tlog_added_total{log="default"} 14`, `holdfast_tlog_refused_total{log="default"} 1`, `holdfast_tlog_unknown_total{log="other"} 2`,
		`holdfast_tlog_batch_entries_bucket{le="2"} 0`, `holdfast_tlog_batch_entries_bucket{le="4"} 2`, `holdfast_tlog_batch_entries_sum 7`,
		`holdfast_tlog_sign_seconds_count 1`, `holdfast_tlog_checkpoint_seconds_sum 0.003`,
		`holdfast_tlog_scrub_entries{log="default"} 5`, `holdfast_tlog_scrub_entries_to_do{log="default"} 7`,
		`holdfast_tlog_scrub_timestamp_seconds{log="other"} 1.8e+09`, `holdfast_tlog_scrub_damage_total{log="other"} 1`,
		`holdfast_tlog_published_size{log="default",to="file:///www"} 4`, `holdfast_tlog_published_lag_entries{log="default",to="file:///www"} 3`,
		`holdfast_tlog_published_lag_entries{log="default",to="s3://b/p"} 7`, `holdfast_tlog_publish_failures_total{log="default",to="s3://b/p"} 1`} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("no line %q", want)
		}
	}
	if body = scrape(false); strings.Contains(body, "holdfast_tlog_published_size") || !strings.Contains(body, "holdfast_tlog_size") {
		t.Error("a follower says what is published")
	}
}

// collector is a function as a prometheus.Collector.
type collector func(ch chan<- prometheus.Metric)

func (c collector) Describe(chan<- *prometheus.Desc)    {}
func (c collector) Collect(ch chan<- prometheus.Metric) { c(ch) }
