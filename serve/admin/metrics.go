package admin

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/holdfastdb/holdfast/internal/meter"
)

// registry holds everything GET /metrics answers. Numbers are read at each scrape; nothing is pushed.
func (a *Admin) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newStepCollector(a.opts.Steps),
		&memberCollector{admin: a},
		&sectionCollector{admin: a},
	)
	return r
}

// stepCollector exports every step of a write as holdfast_<step>_total and holdfast_<step>_seconds.
type stepCollector struct {
	steps []exportedStep
}

type exportedStep struct {
	step           *meter.Step
	total, seconds *prometheus.Desc
}

var stepHelp = map[string]string{
	"decode":    "Commands a door decoded.",
	"propose":   "Commands proposed, from Propose to its answer.",
	"append":    "Log entries written to the log file, without the sync.",
	"sync":      "Log entries made durable; one event is one fdatasync.",
	"replicate": "Log entries sent to a member and acknowledged, on the leader.",
	"commit":    "Log entries committed, from proposing one to knowing it is committed.",
	"apply":     "Commands applied; one event is one log entry.",
	"reply":     "Commands answered by a door.",
}

func newStepCollector(steps *meter.Steps) *stepCollector {
	c := &stepCollector{}
	steps.Each(func(name string, s *meter.Step) {
		c.steps = append(c.steps, exportedStep{s,
			prometheus.NewDesc("holdfast_"+name+"_total", stepHelp[name], nil, nil),
			prometheus.NewDesc("holdfast_"+name+"_seconds", "Duration of one event of the step "+name+".", nil, nil)})
	})
	return c
}

// Describe implements prometheus.Collector.
func (c *stepCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range c.steps {
		ch <- s.total
		ch <- s.seconds
	}
}

// Collect implements prometheus.Collector.
func (c *stepCollector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.steps {
		var r meter.Reading
		s.step.Seconds.Read(&r)
		ch <- prometheus.MustNewConstMetric(s.total, prometheus.CounterValue, float64(s.step.Total.Load()))
		ch <- prometheus.MustNewConstHistogram(s.seconds, r.Count, r.Sum.Seconds(), exportedBuckets(&r))
	}
}

// Exported buckets are powers of two of nanoseconds from 4 µs to 17 s. They fall on bounds of the meter's finer buckets,
// so nothing is interpolated; round decimal bounds would be.
const (
	firstExport = 4096 * time.Nanosecond
	lastExport  = firstExport << 22
)

// exportedBuckets sums fine buckets into cumulative coarse ones.
func exportedBuckets(r *meter.Reading) map[float64]uint64 {
	out := make(map[float64]uint64, 23)
	var seen uint64
	bound := firstExport
	for i, n := range r.Buckets {
		for bound <= lastExport && meter.Bound(i) > bound {
			out[bound.Seconds()] = seen
			bound *= 2
		}
		seen += n
	}
	return out
}

// memberCollector exports the state of the member, nothing before there is one.
type memberCollector struct{ admin *Admin }

var (
	descInfo      = NewDesc("build_info", "Always 1; the labels say which program this is.", "version", "go")
	descReady     = NewDesc("ready", "1 if /readyz answers 200.")
	descLeader    = NewDesc("is_leader", "1 if this member leads.")
	descHasLeader = NewDesc("has_leader", "1 if this member knows a leader.")
	descTerm      = NewDesc("term", "Raft term.")
	descCommit    = NewDesc("commit_index", "Log index known to be committed.")
	descApplied   = NewDesc("applied_index", "Log index applied to the state machines.")
	descMembers   = NewDesc("members", "Members in the log, by kind.", "kind")
	descLag       = NewDesc("follower_lag_entries", "Entries a member is behind the commit index, on the leader.", "member")
	descQueue     = NewDesc("queue_bytes", "Commands waiting for the log, by lane.", "lane")
	descRefused   = NewDesc("refused_total", "Commands refused because a queue was full.")
	descSuper     = NewDesc("superseded_total", "Commands that a later term made void.")
	descInstalled = NewDesc("snapshots_installed_total", "Snapshots received from a leader and installed.")
	descStore     = NewDesc("store_bytes", "Bytes of the store's files.")
	descMemtable  = NewDesc("store_memtable_bytes", "Bytes of the store that are in memory only; the log holds them.")
	descCache     = NewDesc("store_cache_bytes", "Bytes in the store's cache.")
	descFlushes   = NewDesc("store_flushes_total", "Flushes of the store.")
	descCompact   = NewDesc("store_compactions_total", "Compactions of the store.")
	descViews     = NewDesc("views", "Views of the store that are open.")
	descViewAge   = NewDesc("view_oldest_seconds", "How long ago the oldest of them was opened.")
	descPinned    = NewDesc("view_pinned_bytes", "About how many bytes the store keeps for the view that pins most.")
	descViewsOver = NewDesc("views_ended_total", "Views that ended before their readers were done, by what they had too much of.", "cause")
	descSegments  = NewDesc("wal_segments", "Segment files that hold the log.")
	descWAL       = NewDesc("wal_bytes_total", "Bytes appended to the log since the start.")
)

// Describe implements prometheus.Collector. The exported metrics depend on whether there is a member: unchecked.
func (c *memberCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *memberCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	gauge(descInfo, 1, c.admin.opts.Version, runtime.Version())
	gauge(descReady, truth(c.admin.notReady() == ""))
	n := c.admin.node.Load()
	if n == nil {
		return
	}
	s := n.Status()
	gauge(descLeader, truth(s.Leader == s.MemberID))
	gauge(descHasLeader, truth(s.Leader != 0))
	gauge(descTerm, float64(s.Term))
	gauge(descCommit, float64(s.Commit))
	gauge(descApplied, float64(s.Applied))
	var voters, learners int
	for _, m := range n.Members() {
		if m.Learner {
			learners++
		} else {
			voters++
		}
	}
	gauge(descMembers, float64(voters), "voter")
	gauge(descMembers, float64(learners), "learner")
	for _, f := range n.Followers() {
		gauge(descLag, float64(max(int64(s.Commit)-int64(f.Match), 0)), hex(f.ID))
	}
	collectContacts(n, ch)
	k := n.Counters()
	for _, l := range k.Queued {
		gauge(descQueue, float64(l.Bytes), l.Name)
	}
	count(descRefused, k.Refused)
	count(descSuper, k.Superseded)
	count(descInstalled, k.SnapshotsInstalled)
	gauge(descStore, float64(k.Store.DiskBytes))
	gauge(descMemtable, float64(k.Store.MemtableBytes))
	gauge(descCache, float64(k.Store.CacheBytes))
	count(descFlushes, k.Store.Flushes)
	count(descCompact, k.Store.Compactions)
	v := k.Views
	gauge(descViews, float64(v.Open))
	gauge(descViewAge, v.Oldest.Seconds())
	gauge(descPinned, float64(v.Pinned))
	ch <- prometheus.MustNewConstMetric(descViewsOver, prometheus.CounterValue, float64(v.TooOld), "age")
	ch <- prometheus.MustNewConstMetric(descViewsOver, prometheus.CounterValue, float64(v.TooLarge), "bytes")
	gauge(descSegments, float64(k.WAL.Segments))
	count(descWAL, int64(k.WAL.Bytes))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
