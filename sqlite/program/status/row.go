// Package status publishes the state of a running agent for SQLite databases: rows over a Unix socket for `holdfast sqlite status`, and
// metrics for Prometheus. It changes nothing, and is not the socket of the extension.
package status

import (
	"time"

	"github.com/holdfastdb/holdfast/sqlite/agent"
	"github.com/holdfastdb/holdfast/sqlite/gate"
)

// Row is one database as the JSON of the socket has it. Times are UTC; a duration is in seconds.
type Row struct {
	Database string `json:"database"`
	Replica  string `json:"replica"`
	State    string `json:"state"` // followed, waiting, not kept, opening, in doubt, refused, stopping
	Reason   string `json:"reason,omitempty"`
	Ack      string `json:"ack"`
	// StoredTXID is 16 hexadecimal digits; Stored is when that state was committed, absent where nothing is stored.
	StoredTXID   string     `json:"stored_txid"`
	Stored       *time.Time `json:"stored,omitempty"`
	CapturedTXID string     `json:"captured_txid"`
	OnTheWay     int        `json:"groups_on_the_way"`
	Behind       float64    `json:"behind_seconds"`
	Fencing      bool       `json:"fencing"`
	Connections  int        `json:"extension_connections"`
	Without      int64      `json:"commits_without_extension"`
	Alarms       []Alarm    `json:"alarms"`
	Trouble      string     `json:"last_trouble,omitempty"`
}

// Alarm is one that is on.
type Alarm struct {
	Kind  string    `json:"kind"`
	Text  string    `json:"text"`
	Since time.Time `json:"since"`
}

// Answer is what one agent tells.
type Answer struct {
	PID       int   `json:"pid"`
	Databases []Row `json:"databases"`
}

// Kept reports whether commits are captured and nothing is wrong; a database that is not there yet is none.
func (r *Row) Kept() bool {
	return (r.State == "followed" || r.State == "waiting") && len(r.Alarms) == 0
}

func state(v agent.View) string {
	switch {
	case v.Phase == gate.Fenced:
		return "refused"
	case v.Phase == gate.Stopping:
		return "stopping"
	case v.Phase == gate.Opening:
		return "opening"
	case v.Phase == gate.InDoubt:
		return "in doubt"
	case v.Followed:
		return "followed"
	case len(v.Alarms) > 0:
		return "not kept"
	}
	return "waiting"
}

func row(v agent.View) Row {
	r := Row{Database: v.Path, Replica: v.URL, State: state(v), Reason: v.Reason, Ack: v.Ack.String(), StoredTXID: v.Stored.String(), CapturedTXID: v.Captured.String(),
		OnTheWay: v.OnTheWay, Behind: v.Behind.Seconds(), Fencing: !v.Unfenced, Connections: v.Connections, Without: v.Without, Alarms: []Alarm{}, Trouble: v.Trouble}
	if v.Stored != 0 {
		at := v.StoredAt.UTC()
		r.Stored = &at
	}
	for _, a := range v.Alarms {
		r.Alarms = append(r.Alarms, Alarm{a.Kind, a.Text, a.Since.UTC()})
	}
	return r
}
