package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfastdb/holdfast/serve/admin"
)

// The alarm begins below the smaller of 5 % and 1 GiB.
func TestWhenAFileSystemIsNearlyFull(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for size, want := range map[uint64]uint64{0: 0, 1 * gib: gib / 20, 20 * gib: gib, 19 * gib: 19 * gib / 20, 1000 * gib: gib} {
		if got := roomLimit(size); got != want {
			t.Errorf("%d bytes: below %d, want %d", size, got, want)
		}
	}
}

// One line says that it begins, one an hour that it lasts, one that it has ended; figures that swing about the limit add none. Status,
// metric and the notes of /readyz tell the same, the second time as the first.
func TestANearlyFullDiskIsTold(t *testing.T) {
	t.Parallel()
	const size, limit = uint64(10 << 30), uint64(10<<30) / 20
	var out bytes.Buffer
	r := newRoom("/data", "/log", slog.New(slog.NewTextHandler(&out, nil)))
	free := map[string]uint64{"/data": 5 << 30, "/log": 5 << 30}
	var failed error
	r.statfs = func(dir string) (uint64, uint64, error) { return size, free[dir], failed }
	now := time.Unix(1e9, 0)
	r.now = func() time.Time { return now }
	lines := func(after time.Duration) (n int) {
		now = now.Add(after)
		out.Reset()
		r.look()
		return strings.Count(out.String(), "\n")
	}
	told := func(want string) {
		t.Helper()
		s := r.section()
		fields := map[string]diskStatus{}
		for _, f := range s.Status(context.Background()) {
			fields[f.Name] = f.Value.(diskStatus)
		}
		alarms, notes, set := "", strings.Join(s.Notes(context.Background()), " "), ""
		for _, name := range []string{"disk", "log_disk"} {
			if d := fields[name]; d.Bytes != size || d.FreeBytes != free[d.Dir] {
				t.Errorf("status: %+v", d)
			} else if d.Alarm != "" {
				alarms += d.Dir
				if !strings.Contains(notes, d.Alarm) || !strings.Contains(d.Alarm, "; make room") {
					t.Errorf("notes %q, alarm %q", notes, d.Alarm)
				}
			}
		}
		for of, v := range gauges(s, "disk_nearly_full") {
			if v == 1 {
				set += map[string]string{"data": "/data", "log": "/log"}[of]
			}
		}
		if alarms != want || set != want || (notes == "") != (want == "") {
			t.Errorf("alarms of %q in the status, of %q in the metrics, notes %q; want %q", alarms, set, notes, want)
		}
	}
	for round := range 2 {
		if n := lines(time.Minute); n != 0 {
			t.Fatalf("round %d: %d lines with room: %s", round, n, out.String())
		}
		told("")
		free["/log"] = limit
		if n := lines(time.Minute); n != 0 {
			t.Errorf("round %d: %d lines at the limit", round, n)
		}
		free["/log"] = limit - 1
		if n := lines(time.Minute); n != 1 || !strings.Contains(out.String(), "level=WARN") || !strings.Contains(out.String(), "/log is nearly full") {
			t.Errorf("round %d: %d lines below the limit: %s", round, n, out.String())
		}
		told("/log")
		free["/log"] = limit + 1
		if n := lines(time.Minute); n != 0 {
			t.Errorf("round %d: %d lines while it swings: %s", round, n, out.String())
		}
		told("/log")
		failed = errors.New("statfs fails")
		if n := lines(time.Minute); n != 0 {
			t.Errorf("round %d: %d lines while it cannot be asked: %s", round, n, out.String())
		}
		failed = nil
		if n := lines(time.Hour); n != 1 {
			t.Errorf("round %d: %d lines an hour later: %s", round, n, out.String())
		}
		free["/log"] = limit + limit/10
		if n := lines(time.Minute); n != 1 || !strings.Contains(out.String(), "there is room again") {
			t.Errorf("round %d: %d lines with room again: %s", round, n, out.String())
		}
		told("")
	}
	if b, err := json.Marshal(r.look()[0]); err != nil || string(b) != `{"dir":"/data","bytes":10737418240,"free_bytes":5368709120}` {
		t.Errorf("%s %v", b, err)
	}
}

// gauges are the values of a metric of a section, by its label.
func gauges(s admin.Section, name string) map[string]float64 {
	ch := make(chan prometheus.Metric, 64)
	s.Collect(admin.NewMetrics(ch))
	close(ch)
	r := prometheus.NewRegistry()
	for m := range ch {
		r.MustRegister(one{m})
	}
	all := map[string]float64{}
	families, _ := r.Gather()
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "holdfast_"+name {
				all[m.Label[0].GetValue()] = m.Gauge.GetValue()
			}
		}
	}
	return all
}

// one is a collector of one metric.
type one struct{ prometheus.Metric }

func (o one) Describe(chan<- *prometheus.Desc)    {}
func (o one) Collect(ch chan<- prometheus.Metric) { ch <- o.Metric }
