package main

import (
	"strings"

	"github.com/holdfastdb/holdfast/conformance/sqlite/rig"
)

// The words of a cell, in the order in which they are tried.
var (
	modes  = []string{"WAL", "DELETE", "TRUNCATE"}
	loads  = []string{"extension", "none"}
	acks   = []string{"archive", "local"}
	paths  = []string{"path", "link to the file", "linked directory", "bind mount"}
	agents = []string{"run", "replicate", "litestream -exec", "litestream -once"}
)

// cell is one combination.
type cell struct {
	Mode  string // the journal mode as the application has it: of its file, or, with TRUNCATE, what its connection asks for
	Load  string // what the application has loaded
	Ack   string // what a commit waits for in programs with the extension
	Path  string // how application and agent reach the file
	Agent string // how the agent is started
	Store rig.Kind
	// Fresh: there is no file when the agent begins; the application makes it.
	Fresh bool
}

// String is the cell's name. It has no slash, so that it is one level of a test's name.
func (c cell) String() string {
	s := strings.Join([]string{c.Agent, "ack " + c.Ack, c.Load, c.Mode, c.Path, string(c.Store)}, "; ")
	if c.Fresh {
		s += "; no file yet"
	}
	return s
}

// absent says why there is no such combination; "": there is.
func (c cell) absent() string {
	switch {
	case c.Agent == "litestream -once" && c.Ack == "archive":
		return "while the application runs there is no agent that a commit could wait for"
	case c.Agent == "litestream -exec" && c.Ack == "archive" && c.Load == "none":
		return "Litestream's command line has no level for all programs; the application asks for archive by a PRAGMA of the extension"
	case c.Fresh && c.Agent == "litestream -once":
		return "the application has ended before the agent begins, so there is a file"
	}
	return ""
}

// waits reports whether a commit of this cell returns only when it is stored.
func (c cell) waits() bool { return c.Load == "extension" && c.Ack == "archive" }

// refusable reports whether the application may be refused its first write for good, with an error. Its own new file has a journal that the
// extension does not take under archive.
func (c cell) refusable() bool { return c.Fresh && c.waits() && c.Mode != "WAL" }

// leavesWAL reports whether the application's connection may take the database out of WAL mode while the agent follows it. Without the
// extension at archive nothing keeps it from that.
func (c cell) leavesWAL() bool { return c.Mode == "TRUNCATE" && !c.waits() }

// all is every combination: those that are, and those that are not.
func all() (there, absent []cell) {
	for _, agent := range agents {
		for _, ack := range acks {
			for _, load := range loads {
				for _, mode := range modes {
					for _, path := range paths {
						for _, kind := range rig.Kinds {
							for _, fresh := range []bool{false, true} {
								if fresh && path != "path" && !kind.Well() {
									continue // a new file differs at its beginning, not in the store's later behaviour
								}
								c := cell{Mode: mode, Load: load, Ack: ack, Path: path, Agent: agent, Store: kind, Fresh: fresh}
								if c.absent() == "" {
									there = append(there, c)
								} else {
									absent = append(absent, c)
								}
							}
						}
					}
				}
			}
		}
	}
	return there, absent
}
