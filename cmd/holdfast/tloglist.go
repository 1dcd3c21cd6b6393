package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"text/tabwriter"

	"github.com/holdfastdb/holdfast/door/admin"
)

func tlogList() *command {
	var flags *adminFlags
	var asJSON *bool
	return &command{
		name:     "tlog list",
		summary:  "list the transparency logs of a running server",
		about:    "SIGNED is how many entries the newest checkpoint covers. A log that takes no entries says why below the list.",
		examples: []string{"holdfast tlog list", "holdfast tlog list --json"},
		flags: func(l *flagList) {
			flags = addAdminFlags(l)
			asJSON = l.toggle("json", "print the server's answer as JSON")
		},
		run: func(c *call) error {
			if len(c.args) > 0 {
				return usagef("tlog list: takes no arguments; name a server with --admin")
			}
			client, err := flags.client(c)
			if err != nil {
				return err
			}
			var logs []admin.LogStatus
			if err := client.call("GET", "/v1/tlog/logs", nil, &logs); err != nil {
				return fmt.Errorf("tlog list: %w", err)
			}
			if *asJSON {
				return printJSON(c.stdout, logs)
			}
			t := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "NAME\tPATH\tENTRIES\tSIGNED\tSTATE\tVKEY")
			for _, l := range logs {
				state := "ok"
				if l.Held || l.Why != "" {
					state = "held"
				}
				fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\n", l.Name, l.Path, l.Size, l.Checkpoint, state, l.Vkey)
			}
			if err := t.Flush(); err != nil {
				return err
			}
			for _, l := range logs {
				switch {
				case l.Why != "":
					fmt.Fprintf(c.stdout, "%s: %s\n", l.Name, l.Why)
				case l.Held:
					fmt.Fprintf(c.stdout, "%s: it was restored; `holdfast resume --tlog %s --checkpoint FILE` lets it go on\n", l.Name, l.Name)
				}
			}
			return nil
		},
	}
}

func tlogRepublish() *command {
	var flags *adminFlags
	var check *bool
	return &command{
		name:    "tlog republish",
		args:    "NAME",
		summary: "compare what is published of a transparency log with the log, and put again what is missing or altered",
		about: `Reads every tile and bundle at each --tlog-publish place of the log and compares it with the server's own. What differs is
written again, a checkpoint that cannot be read any more as well. A place that holds another log is left alone. Members
look after what they publish once a day, and say in their log what they find. The exit status is 1 if something stays wrong.`,
		examples: []string{"holdfast tlog republish default", "holdfast tlog republish releases --check"},
		flags: func(l *flagList) {
			flags = addAdminFlags(l)
			check = l.toggle("check", "only compare; write nothing")
		},
		run: func(c *call) error {
			if len(c.args) != 1 {
				return usagef("tlog republish: wants the name of a log; write `holdfast tlog republish NAME`")
			}
			client, err := flags.client(c)
			if err != nil {
				return err
			}
			path := "/v1/tlog/logs/" + url.PathEscape(c.args[0]) + "/republish"
			if *check {
				path += "?check=1"
			}
			res, err := client.send(context.Background(), "POST", path, nil) // without a limit, because it takes long for a large log
			if err != nil {
				return fmt.Errorf("tlog republish %s: %w", c.args[0], err)
			}
			defer res.Body.Close()
			var places []admin.Republished
			if err := json.NewDecoder(res.Body).Decode(&places); err != nil {
				return fmt.Errorf("tlog republish %s: %w; is that the --admin address of a Holdfast server?", c.args[0], err)
			}
			var failed []error
			for _, p := range places {
				fmt.Fprintf(c.stdout, "%s: %d objects, %d missing or altered, %d put again\n", p.To, p.Looked, p.Bad, p.Mended)
				switch {
				case p.Error != "":
					failed = append(failed, fmt.Errorf("tlog republish %s: %s: %s; see to the place and try again", c.args[0], p.To, p.Error))
				case p.Bad > p.Mended:
					failed = append(failed, fmt.Errorf("tlog republish %s: %s: %s; run it without --check", c.args[0], p.To, p.First))
				}
			}
			return errors.Join(failed...)
		},
	}
}
