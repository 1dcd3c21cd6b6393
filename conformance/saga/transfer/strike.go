package main

import (
	"context"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// strike kills members or services without warning and starts them again after a moment in which others may or may not have taken over. Now
// and then it does so once more while they recover.
func (c *campaign) strike() error {
	members, services, err := c.victims()
	if err != nil {
		return err
	}
	again := c.r.IntN(4) == 0
	if err := c.kill(members, services); err != nil {
		return err
	}
	c.sleep(200 * time.Millisecond)
	if err := start(members, services); err != nil || !again {
		return err
	}
	c.sleep(150 * time.Millisecond)
	if err := c.kill(members, services); err != nil {
		return err
	}
	return start(members, services)
}

// victims draws who dies: mostly the leader or a service, now and then all members, or members and a service.
func (c *campaign) victims() (members []*proctest.Node, services []*proctest.Process, err error) {
	leader, err := c.cluster.WaitLeader(patience)
	if err != nil {
		return nil, nil, err
	}
	nodes := c.cluster.Nodes
	bank := c.banks[c.r.IntN(len(c.banks))]
	switch n := c.r.IntN(10); {
	case n < 4:
		members = []*proctest.Node{leader}
	case n == 4:
		members = []*proctest.Node{nodes[c.r.IntN(len(nodes))]}
	case n == 5:
		members = nodes
	case n == 6:
		members, services = []*proctest.Node{leader}, []*proctest.Process{bank}
	case n == 7:
		services = c.banks[:]
	default:
		services = []*proctest.Process{bank}
	}
	return members, services, nil
}

func (c *campaign) kill(members []*proctest.Node, services []*proctest.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	leader, err := c.cluster.Leader(ctx)
	if err != nil {
		leader = nil // while members recover there may be none
	}
	for _, n := range members {
		if n == leader {
			c.leaders++
		} else {
			c.others++
		}
		if err := n.Kill(); err != nil {
			return err
		}
	}
	for _, s := range services {
		c.services++
		if err := s.Kill(); err != nil {
			return err
		}
	}
	return nil
}

func start(members []*proctest.Node, services []*proctest.Process) error {
	for _, n := range members {
		if err := n.Start(); err != nil {
			return err
		}
	}
	for _, s := range services {
		if err := s.Start(); err != nil {
			return err
		}
	}
	return nil
}
