package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// A member's process is stopped, as by a debugger, a hypervisor or a disk that hangs. Its kernel goes on accepting connections, and there
// are no writes. Within three seconds the status of each other member says since when it is unreachable, and their metrics and logs say so
// too. When it is back it says itself that it did nothing for a while.
func TestAFrozenMemberIsNoticed(t *testing.T) {
	t.Parallel()
	c := proctest.Start(t, 3)
	leader, err := c.Leader(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	var frozen *proctest.Node
	var others []*proctest.Node
	for _, n := range c.Nodes {
		if frozen == nil && n != leader {
			frozen = n
			continue
		}
		others = append(others, n)
	}
	log := func(n *proctest.Node) string {
		b, err := os.ReadFile(n.LogFile())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	metric := func(n *proctest.Node, name string) string {
		text := page(t, &running{adminAddr: n.Admin}, "/metrics")
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, name) {
				return strings.TrimSpace(line)
			}
		}
		return ""
	}
	st, err := frozen.Status(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprintf("%x", st.Header.MemberId)
	began := time.Now()
	if err := frozen.Pause(); err != nil {
		t.Fatal(err)
	}
	defer frozen.Resume()
	row := regexp.MustCompile(frozen.Name + ` .* unreachable since 20`)
	for _, n := range others {
		wait.Until(t, n.Name+" says in its status that the member is unreachable", func() bool {
			return row.MatchString(says(t, "status", "--admin", n.Admin))
		})
		t.Logf("%s said so %v after the process was stopped", n.Name, time.Since(began).Round(100*time.Millisecond))
		wait.Until(t, n.Name+" has a line", func() bool {
			return regexp.MustCompile(`warn  member unreachable member="` + frozen.Name + ` .*its process is stopped`).MatchString(log(n))
		})
		if got := metric(n, `holdfast_member_unreachable{member="`+id+`"}`); !strings.HasSuffix(got, " 1") {
			t.Errorf("%s: %q", n.Name, got)
		}
		if got := metric(n, `holdfast_member_heard_seconds{member="`+id+`"}`); got == "" {
			t.Errorf("%s has no metric", n.Name)
		}
	}
	time.Sleep(2 * time.Second) // it was frozen for longer than it takes a member to notice of itself
	if err := frozen.Resume(); err != nil {
		t.Fatal(err)
	}
	for _, n := range others {
		wait.Until(t, n.Name+" says that it is back", func() bool { return strings.Contains(log(n), `member reachable again member="`+frozen.Name) })
		wait.Until(t, "its status too", func() bool { return !row.MatchString(says(t, "status", "--admin", n.Admin)) })
	}
	wait.Until(t, "it says that it did nothing", func() bool { return strings.Contains(log(frozen), "this member did nothing for a while") })
	if text := log(frozen); strings.Contains(text, "member unreachable") {
		t.Errorf("it blames the others:\n%s", text)
	}
}
