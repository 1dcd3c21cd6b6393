package server

import (
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// checkData refuses a data directory in which this server cannot begin or go on, before a door or the node writes there. It changes
// nothing. The error is for Setup.Advise, which names the flag and the directory.
func (su *Setup) checkData() error {
	if err := cli.WritableDir(su.Node.Dir); err != nil {
		return err
	}
	var also []string
	if su.Adopt != nil {
		also = []string{"member"}
	}
	return node.CheckDir(su.Doors.Equip(su.Node), also...)
}
