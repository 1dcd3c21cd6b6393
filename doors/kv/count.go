package kv

import (
	"context"

	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
	"github.com/holdfastdb/holdfast/doors/kv/ops"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
)

// countedMember counts what the door sends through the log.
type countedMember struct {
	member
	counts *ops.Counts
}

// Propose implements member.
func (m *countedMember) Propose(ctx context.Context, lane node.Lane, parts ...entry.Part) (*entry.Result, error) {
	m.counts.Pending.Add(1)
	res, err := m.member.Propose(ctx, lane, parts...)
	m.counts.Pending.Add(-1)
	if err != nil {
		m.counts.Failed.Inc()
	}
	return res, err
}

// Linearize implements member.
func (m *countedMember) Linearize(ctx context.Context) error {
	err := m.member.Linearize(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		m.counts.SlowReads.Inc()
	default:
		m.counts.FailedReads.Inc()
	}
	return err
}

// newOps tells the operators' paths where their answers are.
func (d *Door) newOps() *ops.Ops {
	return ops.New(ops.Options{
		APIVersion: apiVersion, ClusterVersion: storageVersion, StorageVersion: storageVersion,
		Status:     func() node.Status { return d.node.Status() },
		Leaderless: d.missesLeader,
		Alarms:     d.kv.Alarms,
		Read:       d.probe,
		Gauges: func() ops.Gauges {
			g := ops.Gauges{Quota: max(d.opts.QuotaBytes, 0)}
			g.Size = d.size()
			g.Revision, g.Compacted = d.kv.Revision()
			h := &d.hub.Counts
			g.Watchers, g.WatchStreams, g.SlowWatchers = h.Watchers.Load(), h.Streams.Load(), d.hub.Slow()
			g.PendingEvents, g.Events = h.Pending.Load(), h.Events.Load()
			_, g.AuthRevision = d.users.Catalogue()
			n := d.node.Counters()
			g.LogBytes, g.OpenViews, g.Installing = n.WAL.Bytes, n.Store.Views, n.Installing
			for _, m := range d.node.Members() {
				g.Members = append(g.Members, m.ID)
			}
			return g
		},
		Peers: func() []node.Peer { return d.node.Peers() },
		Steps: d.opts.Steps, Counts: &d.counts, Calls: &d.calls, Keys: d.kv.Stats(), Leases: d.opts.Leases,
		V2: func() *v2machine.Stats { return d.v2 }, V2Watchers: d.opts.V2Watchers,
	})
}

// probe reads the first key, as etcd's health checks do. Its error has etcd's text without the code.
func (d *Door) probe(ctx context.Context, serializable bool) error {
	select {
	case <-d.node.StoppedC():
		return node.ErrStopped
	default:
	}
	if !serializable {
		if err := d.node.Linearize(ctx); err != nil {
			return textOnly{etcderr.Of(err)}
		}
	}
	if _, _, err := d.kv.Range(&kvpart.Range{Key: []byte{0}, End: []byte{0}, Limit: 1, KeysOnly: true}, d.opts.MaxAnswerBytes); err != nil {
		return textOnly{etcderr.Of(err)}
	}
	return nil
}

// textOnly is a gRPC error that prints as its message alone.
type textOnly struct{ err error }

func (e textOnly) Error() string { return status.Convert(e.err).Message() }
