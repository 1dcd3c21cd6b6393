package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	archiveship "github.com/holdfastdb/holdfast/archive/ship"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/admin"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// StatusCommand is `holdfast status`, with the lines of those doors.
func StatusCommand(all serve.List) *cli.Command {
	var flags *cli.AdminFlags
	var asJSON *bool
	return &cli.Command{
		Name:    "status",
		Summary: "show the members of a cluster and what one of them is doing",
		About: `Rates and times are of the last ten seconds; total counts from the start of the server. REPLICATED is the
last log entry the leader knows to be on that member's disk, LAG how many entries that is behind the committed ones. CLAIM is
a holder of a part of --memory: caches, locks and running transactions lend what they have above their least to what is kept, which
is in the log and cannot be dropped, and to what clients keep open.`,
		Examples: []string{
			"holdfast status",
			"holdfast status --admin 127.0.0.1:8180",
			"holdfast status --json",
		},
		Flags: func(l *cli.FlagList) {
			flags = cli.AddAdminFlags(l)
			asJSON = l.Toggle("json", "print the server's answer as JSON")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) > 0 {
				return cli.Usagef("status: takes no arguments; name a server with --admin")
			}
			client, err := flags.Client(c)
			if err != nil {
				return err
			}
			var answer json.RawMessage
			if err := client.Call("GET", "/v1/status", nil, &answer); err != nil {
				return err
			}
			if *asJSON {
				return cli.PrintJSON(c.Stdout, answer)
			}
			var s admin.Status
			var fields map[string]json.RawMessage
			if err := errors.Join(json.Unmarshal(answer, &s), json.Unmarshal(answer, &fields)); err != nil {
				return fmt.Errorf("status: %w; is that the --admin address of a Holdfast server?", err)
			}
			return printStatus(c.Stdout, all, &s, fields)
		},
	}
}

func printStatus(w io.Writer, all serve.List, s *admin.Status, fields map[string]json.RawMessage) error {
	var b strings.Builder
	state := "ready"
	if !s.Ready {
		state = "not ready: " + s.NotReady
	}
	fmt.Fprintf(&b, "%s (%s) of cluster %s, Holdfast %s, up %v, %s\n", s.Name, s.Member, s.Cluster, s.Version,
		time.Duration(s.UptimeSeconds*float64(time.Second)).Round(time.Second), state)
	fmt.Fprintf(&b, "log: term %d, committed %d, applied %d, %s waiting, %d segments\n", s.Term, s.Commit, s.Applied, cli.SizeString(s.QueueBytes), s.WALSegments)
	if s.LevelNote != "" {
		fmt.Fprintf(&b, "level: %d of %d: %s\n", s.Level, s.KnownLevel, s.LevelNote)
	} else {
		fmt.Fprintf(&b, "level: %d\n", s.Level)
	}
	var told []string
	if line, note := archiveLine(fields["archive"]); line != "" {
		fmt.Fprintf(&b, "archive: %s\n", line)
		if note != "" {
			told = append(told, note)
		}
	}
	for _, d := range all {
		if d.StatusLines == nil {
			continue
		}
		state, notes := d.StatusLines(fields)
		told = append(told, notes...)
		if state != "" {
			fmt.Fprintf(&b, "%s: %s\n", d.Name, state)
		}
	}
	b.WriteString(memoryLines(fields["memory"]))
	told = append(told, certificateNotes(fields)...)
	lines, alarms := diskLines(fields)
	told = append(append(told, alarms...), crowdNotes(fields)...)
	fmt.Fprintf(&b, "store: %s on disk\n%s\n", cli.SizeString(s.StoreBytes), lines)
	for _, note := range told {
		fmt.Fprintf(&b, "%s\n\n", note)
	}
	writeMembers(&b, s.Members)
	b.WriteString(memberNotes(s.Members))
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

// memoryLines prints the process's memory bound and use, and the share of each claim, a line each.
func memoryLines(field json.RawMessage) string {
	var m struct {
		Total    int64  `json:"total_bytes"`
		Why      string `json:"why"`
		Resident int64  `json:"resident_bytes"`
		GoLimit  int64  `json:"go_limit_bytes"`
		Lent     int64  `json:"lent_bytes"`
		Claims   []struct {
			Claim string `json:"claim"`
			Kind  string `json:"kind"`
			Share int64  `json:"share_bytes"`
			May   int64  `json:"may_bytes"`
			Held  *int64 `json:"held_bytes"`
		} `json:"claims"`
	}
	if field == nil || json.Unmarshal(field, &m) != nil {
		return "" // a build before it
	}
	var b strings.Builder
	fmt.Fprintf(&b, "memory: %s resident of %s (%s), the Go runtime's limit is %s, %s is lent\n", cli.SizeString(m.Resident), cli.SizeString(m.Total), m.Why,
		cli.SizeString(m.GoLimit), cli.SizeString(m.Lent))
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CLAIM\tKIND\tHAS\tMAY HAVE\tSHARE")
	for _, c := range m.Claims {
		has := "-"
		if c.Held != nil {
			has = cli.SizeString(*c.Held)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", c.Claim, c.Kind, has, cli.SizeString(c.May), cli.SizeString(c.Share))
	}
	t.Flush()
	return b.String() + "\n"
}

// diskLines prints the free space on the file systems of the data directory and of the log, a line each. alarms names those that are nearly
// full.
func diskLines(fields map[string]json.RawMessage) (lines string, alarms []string) {
	for _, name := range []string{"disk", "log_disk"} {
		var d struct {
			Dir       string `json:"dir"`
			Bytes     int64  `json:"bytes"`
			FreeBytes int64  `json:"free_bytes"`
			Alarm     string `json:"alarm"`
		}
		if fields[name] == nil || json.Unmarshal(fields[name], &d) != nil {
			continue
		}
		lines += fmt.Sprintf("disk: %s of %s free at %s\n", cli.SizeString(d.FreeBytes), cli.SizeString(d.Bytes), d.Dir)
		if d.Alarm != "" {
			alarms = append(alarms, "THE DISK IS NEARLY FULL: "+d.Alarm)
		}
	}
	return lines, alarms
}

// certificateNotes says which certificates of the server have ended, or will soon.
func certificateNotes(fields map[string]json.RawMessage) (notes []string) {
	var all []struct {
		Note string `json:"note"`
	}
	if fields["certificates"] == nil || json.Unmarshal(fields["certificates"], &all) != nil {
		return nil
	}
	for _, c := range all {
		if c.Note != "" {
			notes = append(notes, "A CERTIFICATE: "+c.Note)
		}
	}
	return notes
}

// crowdNotes says which limit of connections or open calls is near.
func crowdNotes(fields map[string]json.RawMessage) (notes []string) {
	var c struct {
		Alarms []string `json:"alarms"`
	}
	if fields["clients"] == nil || json.Unmarshal(fields["clients"], &c) != nil {
		return nil
	}
	for _, alarm := range c.Alarms {
		notes = append(notes, "A LIMIT IS NEAR: "+alarm)
	}
	return notes
}

// archiveLine says how far the archive is; note is for the operator.
func archiveLine(field json.RawMessage) (line, note string) {
	var a struct {
		archiveship.Status
		To   string `json:"to"`
		Note string `json:"note"`
	}
	if field == nil || json.Unmarshal(field, &a) != nil {
		return "", ""
	}
	line = fmt.Sprintf("%s has the log up to %d, %d entries behind", a.To, a.Archived, a.Entries)
	if a.Entries > 0 {
		line += fmt.Sprintf(" (%s, %s)", cli.SizeString(a.Bytes), time.Duration(a.Seconds*float64(time.Second)).Round(time.Millisecond))
	}
	line += fmt.Sprintf(", %d of %d requests this month", a.Requests, a.Budget)
	if a.Snapshot.Index > 0 {
		line += fmt.Sprintf(", snapshot at %d of %s", a.Snapshot.Index, a.Snapshot.Time.Format(time.RFC3339))
	}
	switch {
	case a.Alarm != "":
		note = "ARCHIVING HAS STOPPED: " + a.Alarm
	case a.Away != "":
		note = "THE ARCHIVE IS AWAY, and nothing is acknowledged as archived until it is back: " + a.Away
	case a.Missing != nil:
		note = fmt.Sprintf("entries %d to %d were acknowledged as archived and are not in the archive: they are shipped again", a.Missing.First, a.Missing.Last)
	case a.Failing != "":
		note = "the archive's store fails and is tried again: " + a.Failing
	default:
		note = a.Note
	}
	return line, note
}

// writeMembers prints the table that status and member list share.
func writeMembers(w io.Writer, members []admin.MemberStatus) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tID\tROLE\tREPLICATED\tLAG\tSTATE\tPEER\tCLIENT")
	for _, m := range members {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", dash(m.Name), m.ID, m.Role, known(m.Replicated), known(m.Lag), stateOf(&m),
			hosts(m.Peer), hosts(m.Client))
	}
	t.Flush()
}

// stateOf is a member's state with the known facts of its loss.
func stateOf(m *admin.MemberStatus) string {
	text := m.State
	if m.State != "unreachable" {
		return text
	}
	if m.From != "" {
		text += " from " + m.From
	}
	if m.Since != nil {
		text += " since " + m.Since.Format(time.RFC3339)
	}
	return text
}

// memberNotes names the fault on the way to each unreachable member, a line each.
func memberNotes(all []admin.MemberStatus) string {
	var b strings.Builder
	for i := range all {
		if m := &all[i]; m.State == "unreachable" && m.Why != "" {
			fmt.Fprintf(&b, "%s (%s) is %s: %s\n", dash(m.Name), m.ID, stateOf(m), m.Why)
		}
	}
	return b.String()
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
