package rig

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// App is how an application writes (testdata/app.py). Its methods belong to one goroutine.
type App struct {
	DB        string `json:"db"`   // as the application has it
	Says      string `json:"says"` // the file of its answers
	Extension string `json:"extension,omitempty"`
	Journal   string `json:"journal,omitempty"` // what its connection asks for; "": nothing
	Ack       string `json:"ack,omitempty"`     // the level it asks for; "": the agent's
	Create    bool   `json:"create,omitempty"`  // it makes its table
	From      int    `json:"from,omitempty"`    // the number before its first
	First     int    `json:"first"`
	Gate      string `json:"gate,omitempty"` // a file: it goes on when that is there
	Then      int    `json:"then"`
	Hold      string `json:"hold,omitempty"` // a file: it ends when that is there
}

// Command is the command line of the application.
func (a *App) Command(t *Tools) []string {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings and numbers
	}
	return []string{python, filepath.Join(t.Root, "conformance/sqlite/rig/testdata/app.py"), string(b)}
}

// Said is what an application has said so far.
type Said struct {
	PID         int
	Ack         string
	OK          []int // the rows whose insert returned
	No          []string
	First, Done bool
}

// Said reads what the application has said. Nothing yet is no error.
func (a *App) Said() (s Said) {
	b, err := os.ReadFile(a.Says)
	if err != nil {
		return s
	}
	for line := range strings.Lines(string(b)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "pid":
			fmt.Sscan(rest, &s.PID)
		case "ack":
			s.Ack = rest
		case "ok":
			var n int
			fmt.Sscan(rest, &n)
			s.OK = append(s.OK, n)
		case "no", "create":
			s.No = append(s.No, rest)
		case "first":
			s.First = true
		case "done":
			s.Done = true
		}
	}
	return s
}

// Wait waits until ok holds of the application's output, and reports the last state if that takes longer than most.
func (a *App) Wait(what string, most time.Duration, ok func(s Said) bool) error {
	return Poll(most, func() error {
		if s := a.Said(); !ok(s) {
			return fmt.Errorf("the application has not got to: %s; it said %+v", what, s)
		}
		return nil
	})
}

// Poll calls ok until it has no error, and returns the last one after most.
func Poll(most time.Duration, ok func() error) error {
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err := ok()
		if err == nil || time.Since(began) > most {
			return err
		}
	}
}

// Open opens a gate.
func Open(gate string) error { return os.WriteFile(gate, nil, 0o600) }
