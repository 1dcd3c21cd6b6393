package server

import (
	"fmt"
	"io"
	"os"
)

// OpenLogOutputs returns the writer for log lines that a setting names: stderr, stdout and files. Close it at the end.
func OpenLogOutputs(setting string, names []string, stdout, stderr io.Writer) (io.Writer, func(), error) {
	var out []io.Writer
	var files []*os.File
	closeAll := func() {
		for _, f := range files {
			f.Close()
		}
	}
	for _, name := range names {
		switch name {
		case "default", "stderr":
			out = append(out, stderr)
		case "stdout":
			out = append(out, stdout)
		case "systemd/journal":
			out = append(out, stderr) // the journal takes it from there
		default:
			f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
			if err != nil {
				closeAll()
				return nil, nil, fmt.Errorf("%s: %w", setting, err)
			}
			files, out = append(files, f), append(out, f)
		}
	}
	if len(out) == 0 {
		out = append(out, stderr)
	}
	return io.MultiWriter(out...), closeAll, nil
}
