package main

import "github.com/holdfastdb/holdfast/conformance/sqlite/rig"

// telling returns the cells that tell most in little time: each word of each dimension, and each kind of loss that was seen.
func telling() []cell {
	var l []cell
	add := func(agent, ack, load, mode, path string, store rig.Kind, fresh bool) {
		l = append(l, cell{Agent: agent, Ack: ack, Load: load, Mode: mode, Path: path, Store: store, Fresh: fresh})
	}
	add("run", "archive", "extension", "WAL", "path", rig.BucketWell, false)
	add("run", "archive", "extension", "WAL", "link to the file", rig.FileWell, false)
	add("run", "archive", "extension", "DELETE", "linked directory", rig.FileWell, false)
	add("run", "archive", "extension", "TRUNCATE", "bind mount", rig.FileWell, false)
	add("run", "archive", "extension", "WAL", "path", rig.Denied, false)
	add("run", "archive", "extension", "WAL", "link to the file", rig.Emptied, false)
	add("run", "archive", "extension", "DELETE", "path", rig.Gone, false)
	add("run", "archive", "extension", "WAL", "path", rig.Bared, false)
	add("run", "archive", "none", "DELETE", "path", rig.FileWell, false)
	add("run", "archive", "none", "WAL", "path", rig.Frozen, false)
	add("run", "local", "extension", "DELETE", "path", rig.FileWell, true)
	add("run", "local", "none", "TRUNCATE", "linked directory", rig.Other, false)
	add("replicate", "archive", "extension", "WAL", "bind mount", rig.FileWell, false)
	add("replicate", "archive", "extension", "DELETE", "link to the file", rig.Frozen, false)
	add("replicate", "archive", "extension", "WAL", "path", rig.Other, false)
	add("replicate", "local", "none", "DELETE", "path", rig.FileWell, true)
	add("replicate", "local", "extension", "TRUNCATE", "path", rig.Unavailable, false)
	add("litestream -exec", "archive", "extension", "DELETE", "link to the file", rig.FileWell, false)
	add("litestream -exec", "local", "none", "DELETE", "path", rig.BucketWell, false)
	add("litestream -exec", "local", "none", "DELETE", "path", rig.FileWell, true)
	add("litestream -exec", "local", "none", "WAL", "bind mount", rig.Denied, false)
	add("litestream -once", "local", "none", "DELETE", "link to the file", rig.FileWell, false)
	add("litestream -once", "local", "none", "WAL", "path", rig.Denied, false)
	add("litestream -once", "local", "extension", "WAL", "linked directory", rig.Emptied, false)
	return l
}
