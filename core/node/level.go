package node

import (
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	mmember "github.com/holdfastdb/holdfast/core/machine/member"
)

// Level is the highest level of a cluster that this build knows without its machines: at 1 the level itself is in the log. A new level is
// due when members of the previous build could not apply a new part, row or lane (DECISIONS A20).
const Level = ValuesLevel

// ValuesLevel is the level from which on members keep large values apart in their stores. Nothing in the log depends on
// it. It is a level so that no directory becomes unreadable to the previous build while that build may still have to come
// back.
const ValuesLevel = 4

// ErrLevel: the command needs a higher level than the cluster's: some member may run a build that could not apply it. Nothing
// was proposed.
var ErrLevel = errors.New("the cluster is not at that level yet")

// ClusterLevel is the level of the cluster as applied here. Safe for concurrent use.
func (n *Node) ClusterLevel() uint16 { return n.members.Level() }

// KnownLevel is the highest level that this member supports: that of its build, machines and lanes.
func (n *Node) KnownLevel() uint16 { return n.known }

func (cfg *Config) knownLevel() uint16 {
	known := max(Level, cfg.specs().Level())
	for i := range cfg.Lanes {
		known = max(known, cfg.Lanes[i].Level)
	}
	return known
}

// specs lists the Specs of the machines of a node with this configuration.
func (cfg *Config) specs() machine.Specs {
	return append(machine.Specs{&mident.Spec, &mmember.Spec}, machine.SpecsOf(cfg.Machines)...)
}

// followable returns why this build cannot run on a state with this row of the cluster's level, nil if it can.
func (cfg *Config) followable(levelRow []byte) error {
	level, err := mmember.DecodeLevel(levelRow)
	if err == nil {
		err = cfg.follows(level)
	}
	return err
}

func (cfg *Config) follows(level uint16) error {
	if known := cfg.knownLevel(); level > known {
		return fmt.Errorf("the cluster is at level %d and this build knows levels up to %d: use the build that ran before, or a later one", level, known)
	}
	return nil
}

// levelRaised follows a raise of the cluster's level. Loop only.
func (n *Node) levelRaised(level uint16) error {
	if err := n.cfg.follows(level); err != nil {
		return err // nothing of that level was applied yet: the next entries may have it
	}
	// A build of a lower level finds the row at its start and stops there, before it can meet a part it does not know.
	if err := n.store.Flush(); err != nil {
		return fmt.Errorf("flush the raise of the level: %w", err)
	}
	n.level = level
	n.log.Info("level raised", "level", level)
	return n.separateValues()
}

// separateValues lets the store do what the cluster's level allows.
func (n *Node) separateValues() error {
	if n.level < ValuesLevel {
		return nil
	}
	return n.store.SeparateValues()
}

// proposable returns the reason why a command must not be logged, nil if it may be. Some member could not apply it, or
// not take it from this one. Any goroutine.
func (n *Node) proposable(number Lane, parts []entry.Part) error {
	lane := n.lanes.spec(number)
	if lane == nil {
		return fmt.Errorf("%w: lane %d, which this build does not have", ErrInapplicable, number)
	}
	if err := n.applier.Applicable(parts); err != nil {
		return fmt.Errorf("%w: %w", ErrInapplicable, err)
	}
	at := n.members.Level()
	if lane.Level > at {
		return fmt.Errorf("%w: lane %s needs level %d, it is at %d", ErrLevel, lane.Name, lane.Level, at)
	}
	for i := range parts {
		if need := n.applier.PartLevel(&parts[i]); need > at {
			return fmt.Errorf("%w: machine %c needs level %d, it is at %d", ErrLevel, parts[i].Machine, need, at)
		}
	}
	return nil
}
