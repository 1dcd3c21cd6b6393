package serve

import (
	"slices"

	"github.com/holdfastdb/holdfast/core/machine"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	mmember "github.com/holdfastdb/holdfast/core/machine/member"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// List is the doors of a build. Its order is that of their flags in the help and that of their machines in a node. The latter is part of
// the log's meaning, so a new door goes to the end, and none changes its place.
type List []Door

// Specs returns the Specs of every machine, for programs that read a stopped server's files.
func (l List) Specs() machine.Specs {
	all := machine.Specs{&mident.Spec, &mmember.Spec}
	for _, d := range l {
		all = append(all, d.Specs...)
	}
	return all
}

// Equip completes a configuration for one new node of this build: machines, lanes, scratch directories and the doors' own directories. If
// the configuration does not divide the memory, it is divided as for a server with all doors.
func (l List) Equip(cfg node.Config) node.Config {
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = budget.Small
	}
	if cfg.Shares == nil {
		share := budget.Of(cfg.MemoryBytes, l.Claims(func(string) bool { return true })...)
		cfg.Shares = &share
	}
	share := *cfg.Shares
	cfg.Machines, cfg.Lanes, cfg.Scratch = nil, nil, nil
	cfg.Beside = slices.Clip(cfg.Beside)
	for _, d := range l {
		if d.Machines != nil {
			cfg.Machines = append(cfg.Machines, d.Machines(share)...)
		}
		if d.Lanes != nil {
			cfg.Lanes = append(cfg.Lanes, d.Lanes(share)...)
		}
		cfg.Scratch = append(cfg.Scratch, d.Scratch...)
		cfg.Beside = append(cfg.Beside, d.Beside...)
	}
	return cfg
}

// Claims are those of a server where these doors are on, to share --memory by.
func (l List) Claims(on func(door string) bool) (all []budget.Claim) {
	for _, d := range l {
		if d.Claims != nil {
			all = append(all, d.Claims(on(d.Name))...)
		}
	}
	return all
}

// Commands are the doors' own subcommands.
func (l List) Commands() (all []*cli.Command) {
	for _, d := range l {
		if d.Commands != nil {
			all = append(all, d.Commands()...)
		}
	}
	if r := l.resume(); r != nil {
		all = append(all, r)
	}
	return all
}

// Imports declares the flags of every door's share of `holdfast import`.
func (l List) Imports(flags *cli.FlagList) (all []*Import) {
	for _, d := range l {
		if d.Import != nil {
			all = append(all, d.Import(flags))
		}
	}
	return all
}

// Names are the names of the doors.
func (l List) Names() (all []string) {
	for _, d := range l {
		all = append(all, d.Name)
	}
	return all
}

// Aliases are the doors' programs under other names.
func (l List) Aliases() (all []*Alias) {
	for _, d := range l {
		if d.Alias != nil {
			all = append(all, d.Alias)
		}
	}
	return all
}

// Original is the doors' word on the first bytes of a file (Door.Original); "": none.
func (l List) Original(head []byte, path string) string {
	for _, d := range l {
		if d.Original != nil {
			if text := d.Original(head, path); text != "" {
				return text
			}
		}
	}
	return ""
}

// Saved begins to read a snapshot for every door.
func (l List) Saved() (all []*Saved) {
	for _, d := range l {
		if d.Saved != nil {
			all = append(all, d.Saved())
		}
	}
	return all
}
