package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
)

// Status is the answer of GET /v1/status: this member's state and, with the leader's help, the others'. Ids are hexadecimal, as etcd's
// tools print them.
type Status struct {
	Version       string  `json:"version"`
	UptimeSeconds float64 `json:"uptime_seconds"`
	Cluster       string  `json:"cluster"`
	Member        string  `json:"member"`
	Name          string  `json:"name"`
	Leader        string  `json:"leader"` // "" = none known
	Term          uint64  `json:"term"`
	Commit        uint64  `json:"commit"`
	Applied       uint64  `json:"applied"`
	// Level is the cluster's, KnownLevel the highest that this member's build could follow.
	Level      uint16 `json:"level"`
	KnownLevel uint16 `json:"known_level"`
	// LevelNote says why the level is below that, "" if it is not.
	LevelNote string `json:"level_note,omitempty"`
	Ready     bool   `json:"ready"`
	// NotReady is the reason, "" if ready.
	NotReady    string         `json:"not_ready,omitempty"`
	StoreBytes  int64          `json:"store_bytes"`
	WALSegments int            `json:"wal_segments"`
	QueueBytes  int64          `json:"queue_bytes"`
	Members     []MemberStatus `json:"members"`
	// MembersNote says why what is known of the others is missing, "" if nothing is.
	MembersNote string       `json:"members_note,omitempty"`
	Steps       []StepStatus `json:"steps"`
	// Fields are those of the doors (Section.Status), behind the others in the same object.
	Fields []Field `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (s Status) MarshalJSON() ([]byte, error) {
	type own Status
	b, err := json.Marshal(own(s))
	for _, f := range s.Fields {
		name, err1 := json.Marshal(f.Name)
		v, err2 := json.Marshal(f.Value)
		err = errors.Join(err, err1, err2)
		b = slices.Concat(bytes.TrimSuffix(b, []byte("}")), []byte(","), name, []byte(":"), v, []byte("}"))
	}
	return b, err
}

// MemberStatus is one member. Replicated is the last log index the leader knows to be durable on the member. Lag is the number of entries
// that this is behind the leader's commit index. Both are -1 if the leader was not reached.
type MemberStatus struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Role       string   `json:"role"` // leader, follower, learner, not started
	Peer       []string `json:"peer_urls"`
	Client     []string `json:"client_urls"`
	Replicated int64    `json:"replicated"`
	Lag        int64    `json:"lag"`
	// State is ok, unreachable, snapshot (it is being sent one) or unknown, as the leader sees it. This member's own view counts if there
	// is no leader or this member does not reach it.
	State string `json:"state"`
	// Since is when the member became unreachable, Why the fault on the way to it. From is the name of the observing member if that is not
	// the leader: this member.
	Since *time.Time `json:"unreachable_since,omitempty"`
	Why   string     `json:"why,omitempty"`
	From  string     `json:"from,omitempty"`
	// Heard is how long ago the member that was asked heard this one; nil: it is that member, or it was never heard.
	Heard *float64 `json:"heard_seconds,omitempty"`
}

// StepStatus is one step of a write. PerSecond counts items over the last ten seconds. The quantiles are of the events in them, or of all
// since the start if there was none.
type StepStatus struct {
	Step       string  `json:"step"`
	Total      uint64  `json:"total"`
	PerSecond  float64 `json:"per_second"`
	P50Seconds float64 `json:"p50_seconds"`
	P99Seconds float64 `json:"p99_seconds"`
}

// progressService is answered by the leader with a progress.
const progressService = "admin.progress"

// progress is what only the leader knows.
type progress struct {
	Commit    uint64
	Followers []node.Follower
}

func progressOf(m *attached) progress {
	s := m.Status()
	// The list is refreshed now and then; the leader replaces its own row by its current state.
	p := progress{Commit: s.Commit, Followers: []node.Follower{{ID: s.MemberID, Match: s.Commit, Active: true}}}
	for _, f := range m.Followers() {
		if f.ID != s.MemberID {
			p.Followers = append(p.Followers, f)
		}
	}
	return p
}

func (a *Admin) getStatus(n *attached, w http.ResponseWriter, r *http.Request) {
	Answer(w, a.status(r.Context(), n))
}

func (a *Admin) status(ctx context.Context, n *attached) Status {
	s, c, now := n.Status(), n.Counters(), a.opts.Now()
	st := Status{Version: a.opts.Version, UptimeSeconds: now.Sub(a.started).Seconds(), Cluster: hex(s.ClusterID), Member: hex(s.MemberID),
		Name: s.Name, Leader: hex(s.Leader), Term: s.Term, Commit: s.Commit, Applied: s.Applied, NotReady: a.notReady(),
		StoreBytes: c.Store.DiskBytes, WALSegments: c.WAL.Segments}
	st.Ready = st.NotReady == ""
	st.Level, st.KnownLevel, st.LevelNote = s.Level, s.KnownLevel, levelNote(ctx, n, &s)
	for _, l := range c.Queued {
		st.QueueBytes += int64(l.Bytes)
	}
	for _, section := range a.opts.Sections {
		if section.Status != nil {
			st.Fields = append(st.Fields, section.Status(ctx)...)
		}
	}
	st.Members, st.MembersNote = members(ctx, n, &s, now)
	for _, r := range a.recent {
		rate, d := r.window.Recent(now)
		if d.Count == 0 {
			r.step.Seconds.Read(&d)
		}
		st.Steps = append(st.Steps, StepStatus{Step: r.name, Total: r.step.Total.Load(), PerSecond: rate,
			P50Seconds: d.Quantile(0.5).Seconds(), P99Seconds: d.Quantile(0.99).Seconds()})
	}
	return st
}

// members joins the member list with the leader's knowledge. Without a leader it still lists every member.
func members(ctx context.Context, n *attached, s *node.Status, now time.Time) (out []MemberStatus, note string) {
	var p progress
	leader := s.Leader
	err := errors.New("no leader is known")
	seen := map[uint64]node.Contact{}
	for _, c := range n.Contacts() {
		seen[c.ID] = c
	}
	if c := seen[leader]; leader != 0 && c.Lost > 0 {
		err = fmt.Errorf("it is unreachable: %s", c.Why())
	} else if leader != 0 {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // a person waits for the answer
		defer cancel()
		var b []byte
		if b, err = n.Call(ctx, progressService, nil); err == nil {
			err = json.Unmarshal(b, &p)
		}
	}
	if err != nil {
		note = "the leader did not say how far the others are: " + err.Error()
	}
	for _, m := range n.Members() {
		ms := MemberStatus{ID: hex(m.ID), Name: m.Name, Role: "follower", Peer: m.PeerURLs, Client: m.ClientURLs, Replicated: -1, Lag: -1, State: "unknown"}
		switch {
		case m.ID == leader:
			ms.Role = "leader"
		case m.Name == "":
			ms.Role = "not started"
		case m.Learner:
			ms.Role = "learner"
		}
		for _, f := range p.Followers {
			if f.ID != m.ID {
				continue
			}
			ms.Replicated, ms.Lag, ms.State = int64(f.Match), max(int64(p.Commit)-int64(f.Match), 0), "ok"
			switch {
			case f.Snapshotting:
				ms.State = "snapshot"
			case !f.Active:
				ms.lost(now, f.Lost, f.Why, "")
			}
		}
		if c, ok := seen[m.ID]; ok {
			if c.Ever {
				heard := c.Heard.Seconds()
				ms.Heard = &heard
			}
			switch {
			case ms.State == "unreachable": // the leader says so
			case c.Lost > 0:
				ms.lost(now, c.Lost, c.Why(), s.Name)
			case ms.State == "unknown" && c.Ever:
				ms.State = "ok"
			}
		} else if m.ID == s.MemberID && ms.State == "unknown" {
			ms.State = "ok"
		}
		out = append(out, ms)
	}
	return out, note
}

// lost says that a member is unreachable from the member from, "": from the leader. Zero: it is not known for how long.
func (ms *MemberStatus) lost(now time.Time, lost time.Duration, why, from string) {
	ms.State, ms.Why, ms.From = "unreachable", why, from
	if lost > 0 {
		since := now.Add(-lost).UTC().Truncate(time.Millisecond)
		ms.Since = &since
	}
}

// hex prints an id as etcd's tools do, "" for none.
func hex(id uint64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("%x", id)
}
