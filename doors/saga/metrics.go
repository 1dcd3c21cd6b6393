package saga

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfastdb/holdfast/internal/meter"
)

// call is counted for one endpoint or method.
type call struct {
	ok, fail meter.Counter
	seconds  meter.Histogram
}

func (c *call) done(began time.Time, ok bool) {
	if ok {
		c.ok.Inc()
	} else {
		c.fail.Inc()
	}
	c.seconds.Since(began)
}

// meters are all of them, by name. The maps do not change once they are made: no request makes a label.
type meters struct{ http, grpc map[string]*call }

func newMeters() meters {
	m := meters{http: map[string]*call{"watch": {}, topicEndpoint.name: {}}, grpc: map[string]*call{}}
	for _, e := range endpoints { // any order: each is counted by itself
		m.http[e.name] = &call{}
	}
	for _, method := range descriptor().Service[0].Method {
		m.grpc[strings.ToLower(method.GetName())] = &call{}
	}
	return m
}

// metrics is the answer of GET /api/metrics, under DTM's names.
func (d *Door) metrics() *Metrics {
	m := &Metrics{}
	m.Gauge("dtm_server_info", "The information of this dtm server.", 1, "gin_version", "", "grpc_version", grpc.Version)
	type kind struct {
		name  string
		calls map[string]*call
	}
	kinds := []kind{{"grpc", d.meters.grpc}, {"http", d.meters.http}}
	each := func(fn func(kind, api string, c *call)) {
		for _, k := range kinds {
			for _, api := range slices.Sorted(maps.Keys(k.calls)) {
				fn(k.name, api, k.calls[api])
			}
		}
	}
	each(func(kind, api string, c *call) {
		const name, help = "dtm_server_process_total", "All request received by dtm"
		m.Count(name, help, c.fail.Load(), "type", kind, "api", api, "status", "fail")
		m.Count(name, help, c.ok.Load(), "type", kind, "api", api, "status", "ok")
	})
	each(func(kind, api string, c *call) {
		m.Seconds("dtm_server_response_duration", "The request durations of a dtm server api", &c.seconds, "type", kind, "api", api)
	})
	if d.opts.Collect != nil {
		d.opts.Collect(m)
	}
	return m
}

// Metrics is an answer in the text form of Prometheus. Numbers of one name come one after another. It belongs to one goroutine.
type Metrics struct {
	b    []byte
	last string // the name that was described last
}

// Count adds a number that only goes up. labels are names and values in turn.
func (m *Metrics) Count(name, help string, n uint64, labels ...string) {
	m.describe(name, help, "counter")
	m.sample(name, float64(n), labels)
}

// Gauge adds a level that goes up and down.
func (m *Metrics) Gauge(name, help string, v float64, labels ...string) {
	m.describe(name, help, "gauge")
	m.sample(name, v, labels)
}

// Buckets of durations, in powers of two of nanoseconds from 0.5 ms to 17 s, which are bounds of the meter's own buckets.
const (
	firstBucket = 1 << 19
	lastBucket  = 1 << 34
)

// Seconds adds durations.
func (m *Metrics) Seconds(name, help string, h *meter.Histogram, labels ...string) {
	m.describe(name, help, "histogram")
	var r meter.Reading
	h.Read(&r)
	var seen uint64
	bound := time.Duration(firstBucket)
	le := append(slices.Clone(labels), "le", "")
	for i, n := range r.Buckets {
		for bound <= lastBucket && meter.Bound(i) > bound {
			le[len(le)-1] = strconv.FormatFloat(bound.Seconds(), 'g', -1, 64)
			m.sample(name+"_bucket", float64(seen), le)
			bound *= 2
		}
		seen += n
	}
	le[len(le)-1] = "+Inf"
	m.sample(name+"_bucket", float64(r.Count), le)
	m.sample(name+"_sum", r.Sum.Seconds(), labels)
	m.sample(name+"_count", float64(r.Count), labels)
}

func (m *Metrics) describe(name, help, kind string) {
	if m.last == name {
		return
	}
	m.last = name
	m.b = append(m.b, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

func (m *Metrics) sample(name string, v float64, labels []string) {
	m.b = append(m.b, name...)
	for i := 0; i < len(labels); i += 2 {
		before := byte(',')
		if i == 0 {
			before = '{'
		}
		m.b = append(append(m.b, before), labels[i]...)
		m.b = strconv.AppendQuote(append(m.b, '='), labels[i+1])
	}
	if len(labels) > 0 {
		m.b = append(m.b, '}')
	}
	m.b = strconv.AppendFloat(append(m.b, ' '), v, 'g', -1, 64)
	m.b = append(m.b, '\n')
}
