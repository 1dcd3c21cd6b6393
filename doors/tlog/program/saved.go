package program

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// savedLog is a transparency log in a snapshot.
type savedLog struct {
	Name   string `json:"name"`
	Origin string `json:"origin"`
	Vkey   string `json:"vkey"`
}

// saved reads which logs a snapshot has, and names the conditions for their release.
func saved() *serve.Saved {
	var logs []savedLog
	keys := new(string)
	return &serve.Saved{
		Row: func(key, value []byte) error {
			spec, ok, err := tlogmachine.ReadLog(key, value)
			if ok {
				logs = append(logs, savedLog{spec.Name, spec.Key.Name, spec.Key.String()})
			}
			return err
		},
		Facts: func() []serve.Fact {
			if len(logs) == 0 {
				return nil
			}
			return []serve.Fact{{Name: "logs", Value: logs}}
		},
		Flags: func(l *cli.FlagList) {
			keys = l.Text("tlog-keys", "DIR", "", "where the server will look for the keys of its transparency logs (default: tlog-keys in the data directory)")
		},
		Restored: func(w io.Writer, data string) { restored(w, logs, keyDir(data, *keys)) },
	}
}

// restored names the conditions for the release of a restored directory's transparency logs.
func restored(w io.Writer, logs []savedLog, dir string) {
	for _, l := range logs {
		file := filepath.Join(dir, l.Name+".key")
		state := "its key is " + file
		switch key, err := readKey(file); {
		case errors.Is(err, fs.ErrNotExist):
			state = "read-only: no key: put the original's at " + file + ", no snapshot holds it"
		case err != nil:
			state = err.Error()
		case key.Verifier().String() != l.Vkey:
			state = "read-only: no key: " + file + " is another key, put the original's there"
		}
		fmt.Fprintf(w, "transparency log %s (%s): %s; it is held until you show the last checkpoint that was published:\n"+
			"  holdfast resume --tlog %s --checkpoint FILE\n", l.Name, l.Origin, state, l.Name)
	}
}
