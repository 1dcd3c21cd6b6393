package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfastdb/holdfast/door/admin"
)

func statusCommand() *command {
	var flags *adminFlags
	var asJSON *bool
	return &command{
		name:    "status",
		summary: "show the members of a cluster and what one of them is doing",
		about: `Rates and times are of the last ten seconds; total counts from the start of the server. REPLICATED is the
last log entry the leader knows to be on that member's disk, LAG how many entries that is behind the committed ones.`,
		examples: []string{
			"holdfast status",
			"holdfast status --admin 127.0.0.1:8180",
			"holdfast status --json",
		},
		flags: func(l *flagList) {
			flags = addAdminFlags(l)
			asJSON = l.toggle("json", "print the server's answer as JSON")
		},
		run: func(c *call) error {
			if len(c.args) > 0 {
				return usagef("status: takes no arguments; name a server with --admin")
			}
			client, err := flags.client(c)
			if err != nil {
				return err
			}
			var s admin.Status
			if err := client.call("GET", "/v1/status", nil, &s); err != nil {
				return err
			}
			if *asJSON {
				return printJSON(c.stdout, s)
			}
			return printStatus(c.stdout, &s)
		},
	}
}

func printStatus(w io.Writer, s *admin.Status) error {
	var b strings.Builder
	state := "ready"
	if !s.Ready {
		state = "not ready: " + s.NotReady
	}
	fmt.Fprintf(&b, "%s (%s) of cluster %s, Holdfast %s, up %v, %s\n", s.Name, s.Member, s.Cluster, s.Version,
		time.Duration(s.UptimeSeconds*float64(time.Second)).Round(time.Second), state)
	fmt.Fprintf(&b, "log: term %d, committed %d, applied %d, %s waiting, %d segments\n", s.Term, s.Commit, s.Applied, sizeString(s.QueueBytes), s.WALSegments)
	if s.LevelNote != "" {
		fmt.Fprintf(&b, "level: %d of %d: %s\n", s.Level, s.KnownLevel, s.LevelNote)
	} else {
		fmt.Fprintf(&b, "level: %d\n", s.Level)
	}
	fmt.Fprintf(&b, "kv: revision %d, compacted %d, %s in use, %s with history; store %s on disk\n\n", s.KV.Revision, s.KV.Compacted,
		sizeString(s.KV.BytesInUse), sizeString(s.KV.Bytes), sizeString(s.StoreBytes))
	for _, name := range slices.Sorted(maps.Keys(s.HeldLogs)) {
		fmt.Fprintf(&b, "log %s takes no entries: %s\n\n", name, s.HeldLogs[name])
	}
	writeMembers(&b, s.Members)
	if s.MembersNote != "" {
		fmt.Fprintf(&b, "%s\n", s.MembersNote)
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "STEP\tPER SECOND\tP50\tP99\tTOTAL\t")
	for _, st := range s.Steps {
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\t%d\t\n", st.Step, st.PerSecond, seconds(st.P50Seconds), seconds(st.P99Seconds), st.Total)
	}
	t.Flush()
	_, err := io.WriteString(w, b.String())
	return err
}

// writeMembers prints the table that status and member list share.
func writeMembers(w io.Writer, members []admin.MemberStatus) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tID\tROLE\tREPLICATED\tLAG\tSTATE\tPEER\tCLIENT")
	for _, m := range members {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", dash(m.Name), m.ID, m.Role, known(m.Replicated), known(m.Lag), m.State,
			hosts(m.Peer), hosts(m.Client))
	}
	t.Flush()
}

func known(n int64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// hosts prints URLs without their scheme.
func hosts(urls []string) string {
	var out []string
	for _, u := range urls {
		_, host, _ := strings.Cut(u, "://")
		out = append(out, host)
	}
	return dash(strings.Join(out, ","))
}

// seconds prints a duration with three digits: 118µs, 4.31ms.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d == 0:
		return "-"
	case d < time.Microsecond:
		return "<1µs"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
