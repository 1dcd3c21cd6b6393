package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/serve/admin"
	"github.com/holdfastdb/holdfast/serve/port"
)

// crowd watches how many connections and open calls clients have. It raises an alarm before any is refused for want of room: a status
// field, a metric, and log lines that name the helpful flag. Its methods may be called from any goroutine.
type crowd struct {
	log   *slog.Logger
	now   func() time.Time
	conns *port.ConnLimit
	raise string // the setting that an operator raises for more connections

	mu   sync.Mutex
	told map[string]time.Time // of the last log line of each alarm that stands; guarded by mu
}

// crowdEvery separates two looks, crowdAgain two log lines of one alarm.
const (
	crowdEvery = 5 * time.Second
	crowdAgain = time.Hour
)

// run looks until ctx ends.
func (c *crowd) run(ctx context.Context) {
	every := time.NewTicker(crowdEvery)
	defer every.Stop()
	for {
		c.look()
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// crowdStatus is "clients" in the answer of GET /v1/status.
type crowdStatus struct {
	Connections     int64 `json:"connections"`
	MostConnections int64 `json:"most_connections"`
	// From is the address with the most connections, of IPv6 the first 64 bits, and FromConnections how many it has.
	From            string       `json:"from,omitempty"`
	FromConnections int64        `json:"from_connections,omitempty"`
	OpenCalls       []callStatus `json:"open_calls"`
	// Alarms say which limit is near and what to do.
	Alarms []string `json:"alarms,omitempty"`
}

// callStatus is the memory of one door's open calls, in bytes.
type callStatus struct {
	Door  string `json:"door"`
	Bytes int64  `json:"bytes"`
	Most  int64  `json:"most_bytes"`
}

// look counts, and logs what has changed.
func (c *crowd) look() crowdStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.conns.Use()
	st := crowdStatus{Connections: u.Open, MostConnections: u.Most, FromConnections: u.Here, OpenCalls: []callStatus{}}
	if u.From.IsValid() {
		st.From = u.From.String()
	}
	st.alarm(c, "connections", u.Near(), fmt.Sprintf("%s; from three quarters on an address with many gets no more. Raise %s, or let clients share connections", u, c.raise))
	for _, calls := range c.conns.Calls() {
		st.OpenCalls = append(st.OpenCalls, callStatus{calls.Port, calls.Taken, calls.Most})
		st.alarm(c, calls.Port, calls.Near(), fmt.Sprintf("open calls and watches of the %s door hold %d of %d bytes; from three quarters on an address with many may open "+
			"no more streams. Raise --memory, or let clients put several watches on one stream", calls.Port, calls.Taken, calls.Most))
	}
	return st
}

// alarm notes whether the limit of a name is near, and logs that from time to time. c.mu is held.
func (st *crowdStatus) alarm(c *crowd, name string, is bool, text string) {
	last, was := c.told[name]
	switch now := c.now(); {
	case !is:
		delete(c.told, name)
		return
	case !was || now.Sub(last) >= crowdAgain:
		c.told[name] = now
		c.log.Warn(text)
	}
	st.Alarms = append(st.Alarms, text)
}

var (
	descConns      = admin.NewDesc("client_connections", "Connections of clients of all doors together.")
	descConnsMost  = admin.NewDesc("client_connections_most", "How many there may be.")
	descConnsFrom  = admin.NewDesc("client_connections_largest", "Those of the address with the most of them.")
	descCalls      = admin.NewDesc("open_calls_bytes", "What open gRPC calls, streams and watches hold.", "door")
	descCallsMost  = admin.NewDesc("open_calls_most_bytes", "What they may hold.", "door")
	descCrowdAlarm = admin.NewDesc("clients_near_limit", "1 while clients will soon be refused for their number.")
)

// section is the crowd's part of the operator's port.
func (c *crowd) section() admin.Section {
	return admin.Section{
		Status: func(context.Context) []admin.Field { return []admin.Field{{Name: "clients", Value: c.look()}} },
		Collect: func(m *admin.Metrics) {
			st := c.look()
			m.Gauge(descConns, float64(st.Connections))
			m.Gauge(descConnsMost, float64(st.MostConnections))
			m.Gauge(descConnsFrom, float64(st.FromConnections))
			for _, calls := range st.OpenCalls {
				m.Gauge(descCalls, float64(calls.Bytes), calls.Door)
				m.Gauge(descCallsMost, float64(calls.Most), calls.Door)
			}
			m.Flag(descCrowdAlarm, len(st.Alarms) > 0)
		},
		Notes: func(context.Context) []string { return c.look().Alarms },
	}
}
