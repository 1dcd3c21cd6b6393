// Package ops serves operators, probes and dashboards of an etcd member over HTTP. The pages are /health, /livez, /readyz, /version,
// /metrics and /debug/vars, with etcd's paths, parameters and bodies.
//
// It only reports. The door passes it the numbers through Options. A metric that is always zero is there only if zero is true of this
// server.
package ops

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/kv/lease"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	"github.com/holdfastdb/holdfast/internal/meter"
)

// Options are where the answers come from. All functions may be called from several goroutines at once.
type Options struct {
	// APIVersion is the etcd version this server behaves as, ClusterVersion and StorageVersion what it says with it.
	APIVersion, ClusterVersion, StorageVersion string

	Status func() node.Status
	// Leaderless reports whether the member misses a leader: not in the moment between two of them.
	Leaderless func() bool
	Alarms     func() []kvpart.AlarmState
	// Read reads a key, at once or with the cluster's consent; its error is in etcd's words.
	Read func(ctx context.Context, serializable bool) error
	// Gauges are the levels of this moment.
	Gauges func() Gauges
	// Peers are the other members.
	Peers func() []node.Peer

	Steps  *meter.Steps
	Counts *Counts
	Calls  *Calls
	Keys   *kvmachine.Stats
	Leases *lease.Worker // nil: renewals are not shown
	// V2 returns what is counted of the v2 API, nil if that is not offered; V2Watchers how many watch there, nil likewise.
	V2         func() *v2machine.Stats
	V2Watchers func() int
}

// Gauges are levels that are kept elsewhere.
type Gauges struct {
	Size, Quota            int64 // bytes of keys and values; Quota 0 = none
	Revision, Compacted    int64
	Watchers, WatchStreams int64
	SlowWatchers           int64
	PendingEvents          int64
	Events                 uint64
	AuthRevision           uint64
	LogBytes               uint64 // written since the start
	OpenViews              int64  // of the store
	Installing             bool   // a snapshot of the leader's
	Members                []uint64
}

// Ops answers; Register puts it on a mux.
type Ops struct {
	opts    Options
	process *prometheus.Registry // the process collector's metrics, apart
}

// New makes an Ops.
func New(opts Options) *Ops {
	o := &Ops{opts: opts, process: prometheus.NewRegistry()}
	o.process.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return o
}

// Register adds the paths to mux.
func (o *Ops) Register(mux *http.ServeMux) {
	mux.HandleFunc("/health", get(o.health))
	o.registerChecks(mux, "livez", []check{o.serializableRead()})
	o.registerChecks(mux, "readyz", []check{o.corruption(), o.serializableRead(), o.linearizableRead(), o.nonLearner()})
	mux.HandleFunc("/version", get(o.version))
	mux.HandleFunc("/debug/vars", get(vars))
	registry := o.registry()
	mux.Handle("/metrics", promhttp.InstrumentMetricHandler(registry, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
}

// get refuses every method but GET, as etcd does.
func get(fn http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
			return
		}
		fn(w, r)
	}
}

func (o *Ops) version(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	b, _ := json.Marshal(struct { // strings always marshal
		Server  string `json:"etcdserver"`
		Cluster string `json:"etcdcluster"`
		Storage string `json:"storage"`
	}{o.opts.APIVersion, o.opts.ClusterVersion, o.opts.StorageVersion})
	_, _ = w.Write(b) // the client went away
}

// vars answers the process's published variables, as the expvar package does but without its handler's path, which would
// register on net/http's own mux.
func vars(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	separator := "{\n"
	expvar.Do(func(kv expvar.KeyValue) {
		if kv.Key == "cmdline" {
			return // not shown, although etcd does: flags may hold secrets
		}
		fmt.Fprintf(w, "%s%q: %s", separator, kv.Key, kv.Value)
		separator = ",\n"
	})
	fmt.Fprintf(w, "%s%q: %d\n}\n", separator, "goroutines", runtime.NumGoroutine())
}
