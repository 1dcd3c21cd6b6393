package ops

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/holdfastdb/holdfast/internal/meter"
)

// Calls counts gRPC calls by method, under the names and labels of the interceptor etcd uses.
//
// Every method has its counters from the start, and the method's handler holds them. A call costs six atomic additions and two looks at the
// clock, no look-up, lock or allocation. Add is for setting up; after it Calls is read only.
type Calls struct {
	methods []*Method
}

// The kinds of methods, as labels have them.
const (
	Unary        = "unary"
	ClientStream = "client_stream"
	ServerStream = "server_stream"
	BidiStream   = "bidi_stream"
)

// Method is the counters of one method. Its methods may be called by several goroutines at once.
type Method struct {
	service, name, kind string

	started        meter.Counter
	received, sent meter.Counter // messages of streams
	handled        [codes.Unauthenticated + 1]meter.Counter
	seconds        callTimes

	requestType string
	requests    *outcomes // nil: etcd times none of it
}

// Add makes the counters of a method.
func (c *Calls) Add(service, name, kind string) *Method {
	m := &Method{service: service, name: name, kind: kind}
	if t := requestType(service, name); t != "" && kind == Unary {
		m.requestType, m.requests = t, new(outcomes)
	}
	c.methods = append(c.methods, m)
	return m
}

// Begin counts a call that came and returns when that was.
func (m *Method) Begin() time.Time {
	m.started.Inc()
	return time.Now()
}

// End counts a call that ended with a code.
func (m *Method) End(began time.Time, code codes.Code) {
	took := time.Since(began)
	m.seconds.record(took)
	if m.requests != nil {
		m.requests.record(took, code == codes.OK)
	}
	if int(code) >= len(m.handled) {
		code = codes.Unknown
	}
	m.handled[code].Inc()
}

// Received and Sent count the messages of a stream. They are not for unary calls: Begin and End count the one request and
// answer of those.
func (m *Method) Received() { m.received.Inc() }

// Sent is described with Received.
func (m *Method) Sent() { m.sent.Inc() }

func (m *Method) messages() (received, sent uint64) {
	if m.kind == Unary {
		return m.started.Load(), m.handled[codes.OK].Load()
	}
	return m.received.Load(), m.sent.Load()
}

// callBounds are the bounds of etcd's buckets in seconds: the Prometheus client's defaults. The meter's buckets would have to
// be cut for them, and nearly every call ends at the first comparison anyway.
var callBounds = [...]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

type callTimes struct {
	sum     atomic.Int64 // nanoseconds
	buckets [len(callBounds) + 1]atomic.Uint64
}

func (t *callTimes) record(d time.Duration) {
	i, s := 0, d.Seconds()
	for i < len(callBounds) && s > callBounds[i] {
		i++
	}
	t.buckets[i].Add(1)
	t.sum.Add(int64(d))
}

// read returns what a Prometheus histogram consists of.
func (t *callTimes) read() (count uint64, sum float64, cumulative map[float64]uint64) {
	cumulative = make(map[float64]uint64, len(callBounds))
	for i := range t.buckets {
		count += t.buckets[i].Load()
		if i < len(callBounds) {
			cumulative[callBounds[i]] = count
		}
	}
	return count, time.Duration(t.sum.Load()).Seconds(), cumulative
}

var (
	callLabels = []string{"grpc_type", "grpc_service", "grpc_method"}

	descStarted  = prometheus.NewDesc("grpc_server_started_total", "Calls that came.", callLabels, nil)
	descHandled  = prometheus.NewDesc("grpc_server_handled_total", "Calls that ended, by code.", append(callLabels[:3:3], "grpc_code"), nil)
	descReceived = prometheus.NewDesc("grpc_server_msg_received_total", "Messages received in calls.", callLabels, nil)
	descSent     = prometheus.NewDesc("grpc_server_msg_sent_total", "Messages sent in calls.", callLabels, nil)
	descHandling = prometheus.NewDesc("grpc_server_handling_seconds", "Duration of calls, from the request's head to the end.", callLabels, nil)
)

// Describe implements prometheus.Collector: unchecked, the list is Collect.
func (*Calls) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. Methods without calls and unused codes are there with 0, as in etcd: a rate needs a value before
// the first event.
func (c *Calls) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.methods {
		count := func(d *prometheus.Desc, v uint64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
		}
		received, sent := m.messages()
		count(descStarted, m.started.Load(), m.kind, m.service, m.name)
		count(descReceived, received, m.kind, m.service, m.name)
		count(descSent, sent, m.kind, m.service, m.name)
		for code := range m.handled {
			count(descHandled, m.handled[code].Load(), m.kind, m.service, m.name, codes.Code(code).String())
		}
		n, sum, buckets := m.seconds.read()
		ch <- prometheus.MustNewConstHistogram(descHandling, n, sum, buckets, m.kind, m.service, m.name)
	}
}
