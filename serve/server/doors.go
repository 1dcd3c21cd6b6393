package server

import (
	"fmt"

	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// DoorsCommand is `holdfast doors`: commands to try, for people and for make run.
func DoorsCommand(all serve.List) *cli.Command {
	var data *string
	flags := map[string]*string{}
	return &cli.Command{
		Name:    "doors",
		Summary: "list the doors of this program, each with its address and a command to try it",
		About: `One command a line: the door, its address, the command. The flags are those of serve; nothing is asked and nothing is
changed.`,
		Examples: []string{"holdfast doors", "holdfast doors --data /var/lib/holdfast"},
		Flags: func(l *cli.FlagList) {
			for _, d := range all {
				for _, o := range d.Settings().Options() {
					if o.Door {
						flags[d.Name] = l.Text(o.Name, o.Arg, o.Default, "address of the door "+d.Name+", or off")
					}
				}
			}
			data = l.Text("data", "DIR", "data", "data directory of the server")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) > 0 {
				return cli.Usagef("doors: takes no arguments; see `holdfast doors --help`")
			}
			for _, d := range all {
				var at cli.Address
				if err := cli.SetAddress(&at, *flags[d.Name]); err != nil {
					return cli.Usagef("--%s %s: %s", d.Name, *flags[d.Name], err)
				}
				if at.Off() || d.Try == nil {
					continue
				}
				for _, command := range d.Try(at, *data) {
					fmt.Fprintf(c.Stdout, "%s %s %s\n", d.Name, at, command)
				}
			}
			return nil
		},
	}
}
