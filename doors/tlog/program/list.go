package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"text/tabwriter"

	"github.com/holdfastdb/holdfast/serve/cli"
)

func tlogList() *cli.Command {
	var flags *cli.AdminFlags
	var asJSON *bool
	return &cli.Command{
		Name:     "tlog list",
		Summary:  "list the transparency logs of a running server",
		About:    "SIGNED is how many entries the newest checkpoint covers. A log that takes no entries says why below the list.",
		Examples: []string{"holdfast tlog list", "holdfast tlog list --json"},
		Flags: func(l *cli.FlagList) {
			flags = cli.AddAdminFlags(l)
			asJSON = l.Toggle("json", "print the server's answer as JSON")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) > 0 {
				return cli.Usagef("tlog list: takes no arguments; name a server with --admin")
			}
			client, err := flags.Client(c)
			if err != nil {
				return err
			}
			var logs []LogStatus
			if err := client.Call("GET", "/v1/tlog/logs", nil, &logs); err != nil {
				return fmt.Errorf("tlog list: %w", err)
			}
			if *asJSON {
				return cli.PrintJSON(c.Stdout, logs)
			}
			t := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "NAME\tPATH\tENTRIES\tSIGNED\tSTATE\tVKEY")
			for _, l := range logs {
				fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\n", l.Name, l.Path, l.Size, l.Checkpoint, l.State, l.Vkey)
			}
			if err := t.Flush(); err != nil {
				return err
			}
			for _, l := range logs {
				if l.Why != "" {
					fmt.Fprintf(c.Stdout, "%s: %s\n", l.Name, l.Why)
				}
			}
			return nil
		},
	}
}

func tlogRepublish() *cli.Command {
	var flags *cli.AdminFlags
	var check *bool
	return &cli.Command{
		Name:    "tlog republish",
		Args:    "NAME",
		Summary: "compare what is published of a transparency log with the log, and put again what is missing or altered",
		About: `Reads every tile and bundle at each --tlog-publish place of the log and compares it with the server's own. What differs is
written again, a checkpoint that cannot be read any more as well. A place that holds another log is left alone. Members
look after what they publish once a day, and say in their log what they find. The exit status is 1 if something stays wrong.`,
		Examples: []string{"holdfast tlog republish default", "holdfast tlog republish releases --check"},
		Flags: func(l *cli.FlagList) {
			flags = cli.AddAdminFlags(l)
			check = l.Toggle("check", "only compare; write nothing")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 {
				return cli.Usagef("tlog republish: wants the name of a log; write `holdfast tlog republish NAME`")
			}
			client, err := flags.Client(c)
			if err != nil {
				return err
			}
			path := "/v1/tlog/logs/" + url.PathEscape(c.Args[0]) + "/republish"
			if *check {
				path += "?check=1"
			}
			res, err := client.Send(context.Background(), "POST", path, nil) // without a limit, because it takes long for a large log
			if err != nil {
				return fmt.Errorf("tlog republish %s: %w", c.Args[0], err)
			}
			defer res.Body.Close()
			var places []Republished
			if err := json.NewDecoder(res.Body).Decode(&places); err != nil {
				return fmt.Errorf("tlog republish %s: %w; is that the --admin address of a Holdfast server?", c.Args[0], err)
			}
			var failed []error
			for _, p := range places {
				fmt.Fprintf(c.Stdout, "%s: %d objects, %d missing or altered, %d put again\n", p.To, p.Looked, p.Bad, p.Mended)
				switch {
				case p.Error != "":
					failed = append(failed, fmt.Errorf("tlog republish %s: %s: %s; see to the place and try again", c.Args[0], p.To, p.Error))
				case p.Bad > p.Mended:
					failed = append(failed, fmt.Errorf("tlog republish %s: %s: %s; run it without --check", c.Args[0], p.To, p.First))
				}
			}
			return errors.Join(failed...)
		},
	}
}
