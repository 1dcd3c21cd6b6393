package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
)

// lineHandler writes log records for readers of a terminal or a journal: time, level, sentence, key=value. slog's
// own text form repeats the words time=, level= and msg= on every line and quotes every sentence.
type lineHandler struct {
	mu    *sync.Mutex // guards w, shared by all derived handlers
	w     io.Writer
	level slog.Level
	attrs string // already printed, of WithAttrs
	group string // prefix of keys, of WithGroup
}

// newJSONLog writes one JSON object a line: time, level, msg and what belongs to it.
func newJSONLog(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.LevelKey {
			return slog.String(slog.LevelKey, strings.ToLower(a.Value.String()))
		}
		return a
	}}))
}

// NewLog writes records of at least that level to w, a line each.
func NewLog(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(&lineHandler{mu: new(sync.Mutex), w: w, level: level})
}

// named puts a member's name before its id, where a record has one under the key "member".
type named struct {
	slog.Handler
	name func(id string) string // "" = not known
}

// Handle implements slog.Handler.
func (h named) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "member" {
			if name := h.name(a.Value.String()); name != "" {
				a = slog.String("member", name+" ("+a.Value.String()+")")
			}
		}
		out.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, out)
}

// WithAttrs implements slog.Handler.
func (h named) WithAttrs(attrs []slog.Attr) slog.Handler {
	return named{h.Handler.WithAttrs(attrs), h.name}
}

// WithGroup implements slog.Handler.
func (h named) WithGroup(name string) slog.Handler { return named{h.Handler.WithGroup(name), h.name} }

// seldom lets one line a second through, with how many it has kept back. Its method may be called from any goroutine.
type seldom struct {
	log  *slog.Logger
	mu   sync.Mutex
	last time.Time // guarded by mu
	kept int       // guarded by mu
}

func (s *seldom) warn(text string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.last) < time.Second {
		s.kept++
		return
	}
	if s.kept > 0 {
		args = append(args, "suppressed", s.kept)
	}
	s.last, s.kept = now, 0
	s.log.Warn(text, args...)
}

// Enabled implements slog.Handler.
func (h *lineHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// Handle implements slog.Handler.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-5s %s%s", r.Time.Format("2006-01-02T15:04:05.000Z07:00"), strings.ToLower(r.Level.String()), r.Message, h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		appendAttr(&b, h.group, a)
		return true
	})
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.w, b.String())
	return err
}

// WithAttrs implements slog.Handler.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		appendAttr(&b, h.group, a)
	}
	n := *h
	n.attrs += b.String()
	return &n
}

// WithGroup implements slog.Handler.
func (h *lineHandler) WithGroup(name string) slog.Handler {
	n := *h
	n.group += name + "."
	return &n
}

func appendAttr(b *strings.Builder, prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, g := range v.Group() {
			appendAttr(b, prefix, g)
		}
		return
	}
	if a.Key == "" {
		return
	}
	text := v.String()
	if text == "" || strings.ContainsAny(text, " \t\n\"=") {
		text = strconv.Quote(text)
	}
	b.WriteString(" " + prefix + a.Key + "=" + text)
}
