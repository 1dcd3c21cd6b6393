package etcdfile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// V2Write reports whether an entry's request writes a v2 key, and which. Version 3.4 and older log such requests
// (etcdserverpb.Request: 2 method, 3 path) by themselves, or as field 2 of every other.
func V2Write(data []byte) (path string, ok bool) {
	for _, b := range [][]byte{data, bytesField(data, 2)} {
		switch string(bytesField(b, 2)) {
		case "PUT", "POST", "DELETE":
			if path, ok := strings.CutPrefix(string(bytesField(b, 3)), "/1"); ok {
				return path, true
			}
		}
	}
	return "", false
}

// IsV2 reports whether an entry's request is one of version 2 at all: members' names, and the clock of keys with a time to live.
func IsV2(data []byte) bool {
	for _, b := range [][]byte{data, bytesField(data, 2)} {
		switch string(bytesField(b, 2)) {
		case "PUT", "POST", "DELETE", "GET", "QGET", "SYNC":
			return true
		}
	}
	return false
}

// V2Nodes counts the v2 nodes below the root of keys in the newest snapshot beside the database: raft's snapshots hold the v2 tree, as JSON.
// 0 without a snapshot.
func V2Nodes(snapDir string) (int, error) {
	names, err := filepath.Glob(filepath.Join(snapDir, "*.snap"))
	if err != nil || len(names) == 0 {
		return 0, err
	}
	name := names[len(names)-1] // by term and index, in as many digits
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	var tree struct {
		Root struct {
			Children map[string]struct{ Children map[string]json.RawMessage }
		}
	}
	// snappb.Snapshot: 2 data, of raftpb.Snapshot: 1 data.
	if text := bytesField(bytesField(b, 2), 1); len(text) > 0 {
		if err := json.Unmarshal(text, &tree); err != nil {
			return 0, fmt.Errorf("%w: %s: %v", ErrDamaged, filepath.Base(name), err)
		}
	}
	return len(tree.Root.Children["1"].Children), nil
}
