package etcd

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
)

// newJSONLog writes one JSON object a line with the keys of etcd's log: level, ts, caller, msg. Programs that read etcd's log
// look for those.
func newJSONLog(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, AddSource: true, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) > 0 {
			return a
		}
		switch a.Key {
		case slog.TimeKey:
			return slog.String("ts", a.Value.Time().UTC().Format("2006-01-02T15:04:05.000000Z"))
		case slog.LevelKey:
			return slog.String("level", strings.ToLower(a.Value.String()))
		case slog.SourceKey:
			return slog.String("caller", caller(a.Value))
		case "err":
			return slog.Any("error", a.Value)
		}
		return a
	}}))
}

// caller is where a record was written: the file, the directory it is in, and the line.
func caller(v slog.Value) string {
	src, ok := v.Any().(*slog.Source)
	if !ok || src.File == "" {
		return "unknown:0"
	}
	return fmt.Sprintf("%s/%s:%d", filepath.Base(filepath.Dir(src.File)), filepath.Base(src.File), src.Line)
}
