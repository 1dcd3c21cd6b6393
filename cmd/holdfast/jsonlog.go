package main

import (
	"io"
	"log/slog"
	"strings"
)

// newJSONLog writes one JSON object a line with the keys of etcd's log: level, ts, msg. Programs that read etcd's log look
// for those.
func newJSONLog(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) > 0 {
			return a
		}
		switch a.Key {
		case slog.TimeKey:
			return slog.String("ts", a.Value.Time().UTC().Format("2006-01-02T15:04:05.000000Z"))
		case slog.LevelKey:
			return slog.String("level", strings.ToLower(a.Value.String()))
		case "err":
			return slog.Any("error", a.Value)
		}
		return a
	}}))
}
