// Package program is the kv door as the program sees it: etcd's v3 and v2 clients, the workers behind them and their machines.
package program

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/doors/kv/etcddata"
	"github.com/holdfastdb/holdfast/doors/kv/etcdfile"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/admin"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// Door is the kv door.
var Door = serve.Door{
	Name:     "kv",
	Settings: func() serve.Settings { return new(settings) },
	Machines: func(share budget.Shares) []machine.Machine {
		return []machine.Machine{kvmachine.Within(share), v2machine.Within(share)}
	},
	Specs:   []*machine.Spec{&kvmachine.Spec, &v2machine.Spec},
	Lanes:   func(budget.Shares) []node.LaneSpec { return []node.LaneSpec{{Number: doorkv.Lane, Name: "kv"}} },
	Claims:  claims,
	Scratch: []string{etcddata.Scratch},
	Try: func(at cli.Address, _ string) []string {
		return []string{"etcdctl --endpoints " + at.String() + " put greeting hello"}
	},
	Rows: "kc is the current version of every key, kk its history, kr the changes by revision, kl leases, ka the keys they hold, " +
		"en nodes of the v2 tree",
	StatusLines: func(fields map[string]json.RawMessage) (state string, notes []string) {
		var s status
		if json.Unmarshal(fields["kv"], &s) != nil {
			return "", nil // a build without it
		}
		var alarms []alarm
		if fields["alarms"] == nil || json.Unmarshal(fields["alarms"], &alarms) != nil {
			alarms = nil // an older build
		}
		for _, a := range alarms {
			notes = append(notes, fmt.Sprintf("alarm %s of member %s; `etcdctl alarm disarm` ends it once its cause is gone", a.Alarm, a.Member))
		}
		return fmt.Sprintf("revision %d, compacted %d, %s in use, %s with history", s.Revision, s.Compacted, cli.SizeString(s.BytesInUse),
			cli.SizeString(s.Bytes)), notes
	},
	Saved: saved,
	Original: func(head []byte, path string) string {
		if !etcdfile.IsEtcd(head) {
			return ""
		}
		return fmt.Sprintf("it is an etcd's; write `holdfast import --from %s --data DIR`, or use etcdutl", path)
	},
}

// status is the state of the key space on one member, "kv" in the answer of GET /v1/status.
type status struct {
	Revision   int64 `json:"revision"`
	Compacted  int64 `json:"compacted"`
	Bytes      int64 `json:"bytes"` // keys and values with history
	BytesInUse int64 `json:"bytes_in_use"`
}

var (
	descRevision  = admin.NewDesc("kv_revision", "Current revision of the key space.")
	descCompacted = admin.NewDesc("kv_compacted_revision", "Revision up to which history is gone.")
	descBytes     = admin.NewDesc("kv_bytes", "Keys and values with history.")
	descInUse     = admin.NewDesc("kv_in_use_bytes", "Keys and values without history.")
)

// keyspace is what operators are shown of the kv machine.
type keyspace interface {
	Revision() (current, compacted int64)
	Size() (withHistory, inUse int64)
	Alarms() []kvpart.AlarmState
}

// alarm is a raised alarm, in "alarms" of the same answer.
type alarm struct {
	Alarm  string `json:"alarm"`  // NOSPACE or CORRUPT, as etcd's tools print it
	Member string `json:"member"` // hexadecimal
}

func alarmsOf(m keyspace) []alarm {
	all := []alarm{}
	for _, a := range m.Alarms() {
		name := "CORRUPT"
		if a.Type == kvpart.AlarmNoSpace {
			name = "NOSPACE"
		}
		all = append(all, alarm{name, fmt.Sprintf("%x", a.Member)})
	}
	return all
}

func statusOf(m keyspace) (s status) {
	s.Revision, s.Compacted = m.Revision()
	s.Bytes, s.BytesInUse = m.Size()
	return s
}

// section is the door's part of the operator's port. keys returns the machine.
func section(keys func() keyspace) admin.Section {
	return admin.Section{
		Status: func(context.Context) []admin.Field {
			return []admin.Field{{Name: "kv", Value: statusOf(keys())}, {Name: "alarms", Value: alarmsOf(keys())}}
		},
		Collect: func(m *admin.Metrics) {
			s := statusOf(keys())
			m.Gauge(descRevision, float64(s.Revision))
			m.Gauge(descCompacted, float64(s.Compacted))
			m.Gauge(descBytes, float64(s.Bytes))
			m.Gauge(descInUse, float64(s.BytesInUse))
		},
	}
}

// saved reads a snapshot's totals.
func saved() *serve.Saved {
	var totals kvmachine.Totals
	return &serve.Saved{
		Row: func(key, value []byte) error {
			t, ok, err := kvmachine.ReadTotals(key, value)
			if ok {
				totals = t
			}
			return err
		},
		Facts: func() []serve.Fact {
			revision, compacted := max(totals.Revision, 1), max(totals.Compacted, 0)
			return []serve.Fact{{Name: "revision", Value: revision, Text: fmt.Sprint(revision), Brief: true},
				{Name: "compacted", Value: compacted, Text: fmt.Sprint(compacted)}, {Name: "keys", Value: totals.Keys}}
		},
	}
}
