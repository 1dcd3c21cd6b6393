package serve

import (
	"strings"

	"github.com/holdfastdb/holdfast/serve/cli"
)

// Held names the things that a restore holds until `holdfast resume`: "a and b"; "": none.
func (l List) Held() string {
	var held []string
	for _, d := range l {
		if d.Resume != nil {
			held = append(held, d.Resume(cli.NewFlagList("resume")).Held) // for its words alone
		}
	}
	return strings.Join(held, " and ")
}

// resume is `holdfast resume`, of all doors that have something to resume; nil if none has.
func (l List) resume() *cli.Command {
	var about, examples []string
	for _, d := range l {
		if d.Resume != nil {
			r := d.Resume(cli.NewFlagList("resume")) // for its words alone
			about, examples = append(about, r.About), append(examples, r.Examples...)
		}
	}
	if len(about) == 0 {
		return nil
	}
	var flags *cli.AdminFlags
	var all []*Resume
	return &cli.Command{
		Name:     "resume",
		Summary:  "let what a restore has stopped go on",
		About:    strings.Join(about, "\n\n"),
		Examples: examples,
		Flags: func(list *cli.FlagList) {
			flags = cli.AddAdminFlags(list)
			for _, d := range l {
				if d.Resume != nil {
					all = append(all, d.Resume(list))
				}
			}
		},
		Run: func(c *cli.Call) error {
			var usage []string
			asked := false
			for _, r := range all {
				asked = asked || r.Asked()
				usage = append(usage, "`holdfast resume "+r.Usage+"`")
			}
			if len(c.Args) > 0 || !asked {
				return cli.Usagef("resume: write %s", strings.Join(usage, " or "))
			}
			client, err := flags.Client(c)
			if err != nil {
				return err
			}
			for _, r := range all {
				if !r.Asked() {
					continue
				}
				if err := r.Run(c, client); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
