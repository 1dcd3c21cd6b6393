package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/conformance/saga/coordinator"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// outcome is what came of one case of one program.
type outcome struct {
	program, name string
	passed        bool
	note          string // the services' calls, or the fault
}

// patience bounds one program. DTM itself needs twenty seconds for the longest.
const patience = 2 * time.Minute

// program is one whose cases come out as lines: ok or failed, the case, a note, with tabs between.
type program struct {
	name string
	args []string
	want int // cases
}

func programs(tools string, quick bool) []program {
	var all []program
	for _, p := range []program{{"http", nil, 25}, {"grpc", nil, 16}, {"workflow-http", nil, 7}, {"workflow-grpc", nil, 7}, {"week", nil, 11}} {
		p.args = []string{filepath.Join(tools, "clients"), p.name, "-http", coordinator.HTTP, "-grpc", coordinator.GRPC}
		p.name = "Go, " + p.name
		all = append(all, p)
	}
	if quick {
		return all
	}
	return append(all,
		program{"Python", []string{"build/suites/dtm-python/bin/python", "conformance/saga/client.py", coordinator.HTTP}, 9},
		program{"Java", []string{"java", "-cp", "build/suites/dtm-java/*", "conformance/saga/Client.java", coordinator.HTTP}, 8})
}

// run runs the program and reads its lines. An error says that it ended before it had run all its cases.
func (p *program) run() ([]outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.args[0], p.args[1:]...)
	var said, grumbled bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &grumbled
	began := time.Now()
	runErr := cmd.Run()
	var all []outcome
	passed := 0
	for line := range strings.Lines(said.String()) {
		cells := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 3)
		if len(cells) != 3 || cells[0] != "ok" && cells[0] != "failed" {
			continue
		}
		o := outcome{p.name, cells[1], cells[0] == "ok", cells[2]}
		if all = append(all, o); o.passed {
			passed++
		}
	}
	if len(all) != p.want {
		return nil, errors.Join(fmt.Errorf("%d cases came out, want %d; it wrote %s", len(all), p.want, strings.TrimSpace(grumbled.String())), runErr)
	}
	fmt.Printf("%-20s %d of %d passed in %.1f s\n", p.name, passed, len(all), time.Since(began).Seconds())
	return all, nil
}

// quickStart runs DTM's own sample, which submits one saga and then stays. Its services print that they are called.
func quickStart(dir, tools string) outcome {
	o := outcome{program: "qs", name: "DTM's quick start"}
	p := proctest.NewProcess(filepath.Join(dir, "qs.log"), filepath.Join(tools, "qs"))
	note, err := watchQuickStart(p)
	if err != nil {
		note = fmt.Sprintf("%v; it wrote %s", err, p.LogTail(5))
	}
	o.passed, o.note = err == nil, note
	fmt.Printf("%-20s passed: %t\n", o.program, o.passed)
	return o
}

func watchQuickStart(p *proctest.Process) (note string, err error) {
	if err := p.Start(); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, p.Kill()) }()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		var answer struct {
			Transactions []struct{ Status string }
		}
		res, err := http.Get("http://" + coordinator.HTTP + "/api/dtmsvr/all?transType=saga")
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil {
			err = json.Unmarshal(b, &answer)
		}
		if err != nil {
			return "", err
		}
		if len(answer.Transactions) == 1 && answer.Transactions[0].Status == "succeed" {
			break
		}
		if time.Since(began) > 20*time.Second || !p.Running() {
			return "", fmt.Errorf("after %s there is %s", time.Since(began).Round(time.Second), b)
		}
	}
	var calls []string
	for line := range strings.Lines(p.LogTail(20)) {
		// Its lines are those of package log: date, time, text.
		if words := strings.Fields(line); len(words) == 3 && strings.HasPrefix(words[2], "Trans") {
			calls = append(calls, words[2])
		}
	}
	if got := strings.Join(calls, ", "); got != "TransOut, TransIn" {
		return "", fmt.Errorf("its services were called %s", got)
	}
	return "TransOut, TransIn", nil
}
