package litestream

import (
	"io"
	"log/slog"

	"github.com/holdfastdb/holdfast/serve/server"
	"github.com/holdfastdb/holdfast/sqlite/litestream/conf"
)

// newLog writes the log as Litestream does, in slog's own forms: programs that watch it look for level=ERROR.
func (p *program) newLog(l conf.Log) *slog.Logger {
	var out io.Writer = p.stdout
	if l.Stderr {
		out = p.stderr
	}
	o := &slog.HandlerOptions{Level: l.Level, AddSource: l.Source, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if level, ok := a.Value.Any().(slog.Level); ok && a.Key == slog.LevelKey && len(groups) == 0 && level < slog.LevelDebug {
			return slog.String(slog.LevelKey, "TRACE")
		}
		return a
	}}
	switch l.Form {
	case "json":
		return slog.New(slog.NewJSONHandler(out, o))
	case "pretty":
		return server.NewLog(out, l.Level)
	}
	return slog.New(slog.NewTextHandler(out, o))
}
