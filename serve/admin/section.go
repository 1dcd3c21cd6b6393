package admin

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfastdb/holdfast/internal/meter"
)

// Section is what one door adds to the operator's port, under words that are its own. Its functions may be called from any goroutine,
// and none is called before Attach. Those that are nil add nothing.
type Section struct {
	// Status returns fields for the answer of GET /v1/status.
	Status func(ctx context.Context) []Field
	// Collect adds to GET /metrics.
	Collect func(m *Metrics)
	// Notes returns lines for a /readyz that says ok: faults although the server is ready.
	Notes func(ctx context.Context) []string
	// Routes are more paths, which answer 503 until Attach.
	Routes []Route
}

// Field is one name and value of a JSON object.
type Field struct {
	Name  string
	Value any
}

// Route is a pattern as http.ServeMux takes it, with its method: "GET /v1/tlog/logs". Answer and Fail write what the handler has to say.
type Route struct {
	Pattern string
	Handle  http.HandlerFunc
}

// Metrics collects the numbers of a Section during one GET /metrics.
type Metrics struct {
	ch chan<- prometheus.Metric
}

// NewMetrics hands what is collected to ch.
func NewMetrics(ch chan<- prometheus.Metric) *Metrics { return &Metrics{ch} }

// Desc names one metric. Make each once, with NewDesc.
type Desc = prometheus.Desc

// NewDesc names a metric, without the "holdfast_" that all of them begin with. Labels are named in the order in which their values are
// given later. Each label must have few values, or readers of metrics run out of memory.
func NewDesc(name, help string, labels ...string) *Desc {
	return prometheus.NewDesc("holdfast_"+name, help, labels, nil)
}

// Gauge adds a level that goes up and down.
func (m *Metrics) Gauge(d *Desc, v float64, labels ...string) {
	m.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// Flag adds a gauge that is 1 or 0.
func (m *Metrics) Flag(d *Desc, v bool, labels ...string) { m.Gauge(d, truth(v), labels...) }

// Count adds a number that only goes up.
func (m *Metrics) Count(d *Desc, v uint64, labels ...string) {
	m.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

// Seconds adds durations.
func (m *Metrics) Seconds(d *Desc, h *meter.Histogram, labels ...string) {
	var r meter.Reading
	h.Read(&r)
	m.ch <- prometheus.MustNewConstHistogram(d, r.Count, r.Sum.Seconds(), exportedBuckets(&r), labels...)
}

// Sizes adds sizes of groups.
func (m *Metrics) Sizes(d *Desc, s *meter.Sizes, labels ...string) {
	groups, sum, atMost := s.Read()
	m.ch <- prometheus.MustNewConstHistogram(d, groups, float64(sum), atMost, labels...)
}

// sectionCollector exports what the sections add, nothing before there is a member.
type sectionCollector struct{ admin *Admin }

// Describe implements prometheus.Collector. The exported metrics depend on the sections' state: unchecked.
func (c *sectionCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *sectionCollector) Collect(ch chan<- prometheus.Metric) {
	if c.admin.node.Load() == nil {
		return
	}
	m := NewMetrics(ch)
	for i := range c.admin.opts.Sections {
		if fn := c.admin.opts.Sections[i].Collect; fn != nil {
			fn(m)
		}
	}
}
