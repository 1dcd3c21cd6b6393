package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/holdfastdb/holdfast/door/admin"
)

func memberCommands() []*command {
	return []*command{memberList(), memberAdd(), memberChange("remove"), memberChange("promote"), memberRaiseLevel()}
}

func memberList() *command {
	var flags *adminFlags
	var asJSON *bool
	return &command{
		name:     "member list",
		summary:  "list the members of a cluster",
		examples: []string{"holdfast member list", "holdfast member list --json"},
		flags: func(l *flagList) {
			flags = addAdminFlags(l)
			asJSON = l.toggle("json", "print the server's answer as JSON")
		},
		run: func(c *call) error {
			if len(c.args) > 0 {
				return usagef("member list: takes no arguments; name a server with --admin")
			}
			client, err := flags.client(c)
			if err != nil {
				return err
			}
			members, err := client.members()
			if err != nil {
				return err
			}
			if *asJSON {
				return printJSON(c.stdout, members)
			}
			writeMembers(c.stdout, members)
			return nil
		},
	}
}

func memberRaiseLevel() *command {
	var flags *adminFlags
	return &command{
		name:    "member raise-level",
		summary: "raise the cluster's level although --hold-level keeps it down",
		about: `The level says what may be in the log. It goes up by itself once every member runs a build that knows the next one, unless a
member was started with --hold-level. From then on no member can go back to the build before. OPERATIONS.md has the order
of an upgrade.`,
		examples: []string{"holdfast member raise-level"},
		flags:    func(l *flagList) { flags = addAdminFlags(l) },
		run: func(c *call) error {
			if len(c.args) > 0 {
				return usagef("member raise-level: takes no arguments; name a server with --admin")
			}
			client, err := flags.client(c)
			if err != nil {
				return err
			}
			var now struct {
				Level uint16 `json:"level"`
			}
			if err := client.call("POST", "/v1/level", nil, &now); err != nil {
				return fmt.Errorf("member raise-level: %w", err)
			}
			fmt.Fprintf(c.stdout, "the cluster is at level %d\n", now.Level)
			return nil
		},
	}
}

func memberAdd() *command {
	var flags *adminFlags
	var learner *bool
	return &command{
		name:    "member add",
		args:    "HOST:PORT",
		summary: "tell a cluster of a member to come, by its --peer address",
		about: `The new member claims its place by starting with --join and that --peer address. Without this command, --join
alone adds the member as a learner and promotes it once it has caught up.`,
		examples: []string{
			"holdfast member add 127.0.0.1:2680",
			"holdfast member add --learner 127.0.0.1:2680",
		},
		flags: func(l *flagList) {
			flags = addAdminFlags(l)
			learner = l.toggle("learner", "it holds the log but does not vote until `member promote`")
		},
		run: func(c *call) error {
			if len(c.args) != 1 {
				return usagef("member add: wants one address; write `holdfast member add HOST:PORT`")
			}
			if _, err := dialable(c.args[0]); err != nil {
				return usagef("member add %s: %s", c.args[0], err)
			}
			client, err := flags.client(c)
			if err != nil {
				return err
			}
			var m admin.MemberStatus
			if err := client.call("POST", "/v1/members", admin.NewMember{Peer: c.args[0], Learner: *learner}, &m); err != nil {
				return fmt.Errorf("member add %s: %w", c.args[0], err)
			}
			join := "HOST:PORT" // of a member that runs
			if all, err := client.members(); err == nil {
				for _, o := range all {
					if o.ID != m.ID && o.Role != "not started" && len(o.Peer) > 0 {
						join = hosts(o.Peer[:1])
						break
					}
				}
			}
			fmt.Fprintf(c.stdout, "member %s added; start it:\n  holdfast serve --data DIR --name NAME --peer %s --join %s\n", m.ID, c.args[0], join)
			return nil
		},
	}
}

// memberChange is remove or promote: both name a member, and succeed without a result.
func memberChange(verb string) *command {
	var flags *adminFlags
	cmd := &command{
		name:    "member " + verb,
		args:    "NAME|ID",
		summary: map[string]string{"remove": "remove a member from a cluster", "promote": "make a learner a voting member"}[verb],
		examples: []string{
			"holdfast member " + verb + " n3",
			"holdfast member " + verb + " --admin 127.0.0.1:8180 1f3c9a5e22d07b64",
		},
		flags: func(l *flagList) { flags = addAdminFlags(l) },
	}
	if verb == "remove" {
		cmd.about = `A removed member may not come back under its id: to use its machine again, empty its data directory and start
it with --join.`
	}
	cmd.run = func(c *call) error {
		if len(c.args) != 1 {
			return usagef("member %s: wants one member; write `holdfast member %s NAME`", verb, verb)
		}
		client, err := flags.client(c)
		if err != nil {
			return err
		}
		id, err := client.memberID(c.args[0])
		if err != nil {
			return fmt.Errorf("member %s %s: %w", verb, c.args[0], err)
		}
		if verb == "promote" {
			err = client.call("POST", "/v1/members/"+url.PathEscape(id)+"/promote", nil, nil)
		} else {
			err = client.call("DELETE", "/v1/members/"+url.PathEscape(id), nil, nil)
		}
		if err != nil {
			return fmt.Errorf("member %s %s: %w", verb, c.args[0], err)
		}
		fmt.Fprintf(c.stdout, "member %s %sd\n", id, verb)
		return nil
	}
	return cmd
}

func (a *adminClient) members() ([]admin.MemberStatus, error) {
	var out []admin.MemberStatus
	return out, a.call("GET", "/v1/members", nil, &out)
}

// memberID finds a member by id or, if no other has it, by name.
func (a *adminClient) memberID(nameOrID string) (string, error) {
	all, err := a.members()
	if err != nil {
		return "", err
	}
	var found []string
	for _, m := range all {
		if strings.EqualFold(m.ID, strings.TrimPrefix(nameOrID, "0x")) {
			return m.ID, nil
		}
		if m.Name == nameOrID {
			found = append(found, m.ID)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no such member; `holdfast member list` shows them")
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%d members have that name; give the id: %s", len(found), alternatives(found))
}
