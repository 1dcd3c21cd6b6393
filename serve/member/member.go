// Package member has the commands about a cluster as a whole: its status, and who belongs to it.
package member

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/admin"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// Commands are those that show and change who belongs to a cluster.
func Commands(all serve.List) []*cli.Command {
	return []*cli.Command{memberList(), memberAdd(all.Names()), memberChange("remove"), memberChange("promote"), memberRaiseLevel()}
}

func memberList() *cli.Command {
	var flags *cli.AdminFlags
	var asJSON *bool
	return &cli.Command{
		Name:     "member list",
		Summary:  "list the members of a cluster",
		Examples: []string{"holdfast member list", "holdfast member list --json"},
		Flags: func(l *cli.FlagList) {
			flags = cli.AddAdminFlags(l)
			asJSON = l.Toggle("json", "print the server's answer as JSON")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) > 0 {
				return cli.Usagef("member list: takes no arguments; name a server with --admin")
			}
			client, err := flags.Client(c)
			if err != nil {
				return err
			}
			list, err := members(client)
			if err != nil {
				return err
			}
			if *asJSON {
				return cli.PrintJSON(c.Stdout, list)
			}
			writeMembers(c.Stdout, list)
			return nil
		},
	}
}

func memberRaiseLevel() *cli.Command {
	var flags *cli.AdminFlags
	return &cli.Command{
		Name:    "member raise-level",
		Summary: "raise the cluster's level although --hold-level keeps it down",
		About: `The level says what may be in the log. It goes up by itself once every member runs a build that knows the next one, unless a
member was started with --hold-level. From then on no member can go back to the build before. OPERATIONS.md has the order
of an upgrade.`,
		Examples: []string{"holdfast member raise-level"},
		Flags:    func(l *cli.FlagList) { flags = cli.AddAdminFlags(l) },
		Run: func(c *cli.Call) error {
			if len(c.Args) > 0 {
				return cli.Usagef("member raise-level: takes no arguments; name a server with --admin")
			}
			client, err := flags.Client(c)
			if err != nil {
				return err
			}
			var now struct {
				Level uint16 `json:"level"`
			}
			if err := client.Call("POST", "/v1/level", nil, &now); err != nil {
				return fmt.Errorf("member raise-level: %w", err)
			}
			fmt.Fprintf(c.Stdout, "the cluster is at level %d\n", now.Level)
			return nil
		},
	}
}

func memberAdd(doors []string) *cli.Command {
	var flags *cli.AdminFlags
	var learner *bool
	return &cli.Command{
		Name:    "member add",
		Args:    "HOST:PORT",
		Summary: "tell a cluster of a member to come, by its --peer address",
		About: `The new member claims its place by starting with --join and that --peer address. Without this command, --join
alone adds the member as a learner and promotes it once it has caught up.`,
		Examples: []string{
			"holdfast member add 127.0.0.1:2680",
			"holdfast member add --learner 127.0.0.1:2680",
		},
		Flags: func(l *cli.FlagList) {
			flags = cli.AddAdminFlags(l)
			learner = l.Toggle("learner", "it holds the log but does not vote until `member promote`")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 {
				return cli.Usagef("member add: wants one address; write `holdfast member add HOST:PORT`")
			}
			if _, err := cli.Dialable(c.Args[0]); err != nil {
				return cli.Usagef("member add %s: %s", c.Args[0], err)
			}
			client, err := flags.Client(c)
			if err != nil {
				return err
			}
			if all, err := members(client); err == nil { // else the addition itself reports the fault
				if err := refuseClientAddress(c.Args[0], client.Address(), all); err != nil {
					return fmt.Errorf("member add %s: %w", c.Args[0], err)
				}
			}
			var m admin.MemberStatus
			if err := client.Call("POST", "/v1/members", admin.NewMember{Peer: c.Args[0], Learner: *learner}, &m); err != nil {
				return fmt.Errorf("member add %s: %w", c.Args[0], err)
			}
			all, _ := members(client) // without the list the address to join is left to the reader
			_, err = io.WriteString(c.Stdout, howToStart(&m, c.Args[0], all, doors))
			return err
		},
	}
}

// memberChange is remove or promote: both name a member, and succeed without a result.
func memberChange(verb string) *cli.Command {
	var flags *cli.AdminFlags
	cmd := &cli.Command{
		Name:    "member " + verb,
		Args:    "NAME|ID",
		Summary: map[string]string{"remove": "remove a member from a cluster", "promote": "make a learner a voting member"}[verb],
		Examples: []string{
			"holdfast member " + verb + " n3",
			"holdfast member " + verb + " --admin 127.0.0.1:8180 1f3c9a5e22d07b64",
		},
		Flags: func(l *cli.FlagList) { flags = cli.AddAdminFlags(l) },
	}
	if verb == "remove" {
		cmd.About = `A removed member may not come back under its id: to use its machine again, empty its data directory and start
it with --join.`
	}
	cmd.Run = func(c *cli.Call) error {
		if len(c.Args) != 1 {
			return cli.Usagef("member %s: wants one member; write `holdfast member %s NAME`", verb, verb)
		}
		client, err := flags.Client(c)
		if err != nil {
			return err
		}
		id, err := memberID(client, c.Args[0])
		if err != nil {
			return fmt.Errorf("member %s %s: %w", verb, c.Args[0], err)
		}
		if verb == "promote" {
			err = client.Call("POST", "/v1/members/"+url.PathEscape(id)+"/promote", nil, nil)
		} else {
			err = client.Call("DELETE", "/v1/members/"+url.PathEscape(id), nil, nil)
		}
		if err != nil {
			return fmt.Errorf("member %s %s: %w", verb, c.Args[0], err)
		}
		fmt.Fprintf(c.Stdout, "member %s %sd\n", id, verb)
		return nil
	}
	return cmd
}

func members(a *cli.AdminClient) ([]admin.MemberStatus, error) {
	var out []admin.MemberStatus
	return out, a.Call("GET", "/v1/members", nil, &out)
}

// memberID finds a member by id or, if no other has it, by name.
func memberID(a *cli.AdminClient, nameOrID string) (string, error) {
	all, err := members(a)
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
	return "", fmt.Errorf("%d members have that name; give the id: %s", len(found), cli.Alternatives(found))
}
