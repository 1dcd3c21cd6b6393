package raft

import (
	"fmt"
	"log/slog"
)

// logger gives raft's own messages to slog. Raft's information is logged as debug; the node logs events for operators (leader changes) in
// one line of its own.
type logger struct{ l *slog.Logger }

func newLogger(l *slog.Logger) *logger {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return &logger{l}
}

func (g *logger) Debug(v ...any)              {}
func (g *logger) Debugf(f string, v ...any)   {}
func (g *logger) Info(v ...any)               { g.l.Debug(fmt.Sprint(v...)) }
func (g *logger) Infof(f string, v ...any)    { g.l.Debug(fmt.Sprintf(f, v...)) }
func (g *logger) Warning(v ...any)            { g.l.Debug(fmt.Sprint(v...)) }
func (g *logger) Warningf(f string, v ...any) { g.l.Debug(fmt.Sprintf(f, v...)) }
func (g *logger) Error(v ...any)              { g.l.Warn(fmt.Sprint(v...)) }
func (g *logger) Errorf(f string, v ...any)   { g.l.Warn(fmt.Sprintf(f, v...)) }

// Fatal and Panic mean a broken invariant: the driver's recover turns the panic into a stop of the node.
func (g *logger) Fatal(v ...any)            { panic(fmt.Sprint(v...)) }
func (g *logger) Fatalf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
func (g *logger) Panic(v ...any)            { panic(fmt.Sprint(v...)) }
func (g *logger) Panicf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
