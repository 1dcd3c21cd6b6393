package status

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfastdb/holdfast/internal/golden"
	"github.com/holdfastdb/holdfast/sqlite/agent"
	"github.com/holdfastdb/holdfast/sqlite/gate"
)

type views []agent.View

func (v views) Views() []agent.View { return v }

// TestMetrics: every name, of a database that is well and of one that is not, in the file.
func TestMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{views{
		{Path: "/data/app.db", URL: "s3://backups/app", Ack: gate.Archive, Followed: true, Stored: 0x10, Captured: 0x12, StoredAt: time.Unix(1000, 5e8), OnTheWay: 2,
			Behind: 250 * time.Millisecond, Connections: 3, Bytes: 8192, WALBytes: 4152, Syncs: 9, Failures: 1, Puts: 7, PutBytes: 1000, PutFailures: 2},
		{Path: "/data/other.db", URL: "s3://backups/other", Ack: gate.Archive, Phase: gate.Opening, Without: 4, Unfenced: true, Puts: 1, PutBytes: 10,
			Alarms: []agent.Alarm{{Kind: "store", Text: "it is away"}}},
		{Path: "/data/new.db", URL: "file:///mnt/new", Ack: gate.Local},
	}})
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	golden.Check(t, "testdata/metrics.txt", w.Body.String())
}

// TestEveryStateHasItsWord, and only two of them are no reason to look further.
func TestEveryStateHasItsWord(t *testing.T) {
	alarm := []agent.Alarm{{Kind: "capture", Text: "no database"}}
	for want, v := range map[string]agent.View{
		"followed": {Followed: true}, "waiting": {}, "not kept": {Alarms: alarm}, "opening": {Phase: gate.Opening}, "in doubt": {Phase: gate.InDoubt, Followed: true},
		"refused": {Phase: gate.Fenced}, "stopping": {Phase: gate.Stopping, Followed: true},
	} {
		r := row(v)
		if r.State != want || r.Kept() != (want == "followed" || want == "waiting") {
			t.Errorf("%s: %s, kept: %v", want, r.State, r.Kept())
		}
	}
	if r := row(agent.View{Followed: true, Alarms: alarm}); r.Kept() {
		t.Error("a database with an alarm is kept")
	}
}
