package program

import (
	"context"
	"strconv"

	"github.com/holdfastdb/holdfast/serve/admin"
)

var (
	descStatements = admin.NewDesc("sql_statements_total", "Statements, by what they do with the session's transaction.", "kind")
	descErrors     = admin.NewDesc("sql_errors_total", "Answers that were errors, by MySQL's number.", "code")
	descRetries    = admin.NewDesc("sql_retries_total", "Statements that ran again, unseen by their clients, because they were known to have had no effect.", "cause")
	descCommits    = admin.NewDesc("sql_commit_seconds", "Commits of transactions that have written, until they are applied; one of eight is timed.")
	descCommitted  = admin.NewDesc("sql_commits_total", "Commits of transactions that have written.")
	descPrepared   = admin.NewDesc("sql_prepared_statements", "Statements that clients have prepared, and how many texts they are.", "of")
	descSessions   = admin.NewDesc("sql_sessions", "Clients that are logged in.")
	descPlans      = admin.NewDesc("sql_plans", "Plans that are kept for the next execution.")
	descStaged     = admin.NewDesc("sql_staged_transactions", "Large transactions of which the log has rows that are not at their places.", "state")
)

// Status is what the door says of itself.
type Status struct {
	Sessions int64 `json:"sessions"`
	Tables   int   `json:"tables"`
}

// section is what the door adds to the operator's port.
func (r *running) section() admin.Section {
	return admin.Section{
		Status: func(context.Context) []admin.Field {
			if r.door == nil || r.off.Load() {
				return nil
			}
			s := Status{Sessions: r.door.Sessions()}
			for _, d := range r.tables.Catalogue().Databases() {
				s.Tables += len(d.Tables())
			}
			return []admin.Field{{Name: "sql", Value: s}}
		},
		Collect: func(m *admin.Metrics) {
			if r.door == nil || r.off.Load() {
				return
			}
			c := r.door.Counts()
			for kind, n := range c.Kinds { // any order: the collector sorts
				m.Count(descStatements, n, kind)
			}
			for code, n := range c.Errors { // any order: the collector sorts
				m.Count(descErrors, n, strconv.Itoa(int(code)))
			}
			for cause, n := range c.Retries { // any order: the collector sorts
				m.Count(descRetries, n, cause)
			}
			commits := r.door.Commits()
			m.Count(descCommitted, commits.Total.Load())
			m.Seconds(descCommits, &commits.Seconds)
			handles, texts := r.door.Prepared()
			m.Gauge(descPrepared, float64(handles), "clients")
			m.Gauge(descPrepared, float64(texts), "texts")
			m.Gauge(descSessions, float64(r.door.Sessions()))
			m.Gauge(descPlans, float64(r.door.Plans().Kept))
			open, committed := 0, 0
			for _, s := range r.tables.Staged().All {
				if s.Committed {
					committed++
				} else {
					open++
				}
			}
			m.Gauge(descStaged, float64(open), "open")
			m.Gauge(descStaged, float64(committed), "committed")
		},
	}
}
