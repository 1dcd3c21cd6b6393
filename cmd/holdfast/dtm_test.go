package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/doors/saga/dtm"
	"github.com/holdfastdb/holdfast/doors/saga/dtm/conf"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/server"
)

// dtmStart brings up a server in this process from DTM's configuration file; the test's end stops it.
func dtmStart(t *testing.T, out io.Writer, env map[string]string, file string, args ...string) (*running, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "conf.yml")
	writeFile(t, path, file)
	var environ []string
	for name, v := range env { // any order: each is looked up by name
		environ = append(environ, name+"="+v)
	}
	s, err := conf.Parse(append([]string{"-c", path}, args...), environ, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	return dtmBegin(t, out, env, s)
}

func dtmBegin(t *testing.T, out io.Writer, env map[string]string, s *conf.Settings) (*running, error) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(out, nil))
	su, err := dtm.Setup(all, s, server.Memory{Bytes: 128 << 20}, func(name string) string { return env[name] }, log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	r := &running{data: env["HOLDFAST_DATA"]}
	if r.Server, err = server.Start(ctx, su, log); err != nil {
		return nil, err
	}
	t.Cleanup(r.stop)
	return r, nil
}

// portOf is a port without a listener.
func portOf(t *testing.T) string {
	_, port, err := net.SplitHostPort(freeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestTheCommandLineUnderTheNameDTM(t *testing.T) {
	run := func(environ []string, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		status := dtm.Door.Alias.Run(all, args, environ, &out, &errs)
		return status, out.String(), errs.String()
	}
	if status, out, _ := run(nil, "-v"); status != 0 || !strings.HasPrefix(out, "dtm version: 1.19.0\n") {
		t.Errorf("-v: %d %q", status, out)
	}
	if status, out, _ := run(nil, "-h"); status != 0 || !strings.Contains(out, "RetryInterval (10)") || !strings.Contains(out, "Store.Driver: not used") {
		t.Errorf("-h: %d %q", status, out)
	}
	used := t.TempDir()
	writeFile(t, filepath.Join(used, "identity.json"), "{}")
	for _, c := range []struct {
		environ []string
		args    string
		status  int
		text    string
	}{
		{nil, "serve", 2, `"serve" is no flag; see`},
		{nil, "-x", 2, "-x"},
		{nil, "-c /nowhere/conf.yml", 1, "no such file"},
		{[]string{"RETRY_INTERVAL=1"}, "", 1, "RetryInterval should not be less than 10"},
		{[]string{"MICRO_SERVICE_DRIVER=dtm-driver-gozero"}, "", 1, "not offered"},
		{[]string{"HOLDFAST_MEMORY=1MiB"}, "", 1, "give at least"},
		{[]string{"HOLDFAST_DATA=" + used}, "-r", 1, "remove it to begin anew"},
		{[]string{"HOLDFAST_SAGA_CLIENTS=friends", "HOLDFAST_DATA=" + used}, "", 1, "HOLDFAST_SAGA_CLIENTS friends: no list of addresses"},
		{[]string{"LOG_OUTPUTS=" + used}, "", 1, "Log.Outputs: open"},
	} {
		status, out, errs := run(c.environ, strings.Fields(c.args)...)
		last := errs[strings.LastIndex(strings.TrimSuffix(errs, "\n"), "\n")+1:]
		if status != c.status || out != "" || !strings.HasPrefix(last, "dtm: ") || !strings.Contains(last, c.text) {
			t.Errorf("%v dtm %s: %d %q", c.environ, c.args, status, errs)
		}
	}
	if status, out, _ := execute(nil, "dtm", "-v"); status != 0 || !strings.HasPrefix(out, "dtm version: 1.19.0\n") {
		t.Errorf("holdfast dtm -v: %d %q", status, out)
	}
	for argv0, want := range map[string]bool{"dtm": true, "/usr/bin/dtm": true, "holdfast": false, "./dtm-holdfast": false, "": false} {
		if got := dtm.Door.Alias.Named([]string{argv0}); got != want {
			t.Errorf("%q: %t", argv0, got)
		}
	}
}

// TestUnderTheNameDTM: the file's ports and times are those of the server, over HTTP and gRPC, at every address of the machine. It keeps
// its transactions over a restart, and says once that it needs no database.
func TestUnderTheNameDTM(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	alerts := make(chan string, 10)
	steps := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hook":
			b, _ := io.ReadAll(r.Body) // what is missing is missed below
			alerts <- string(b)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		case "/hang":
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		case "/later":
			w.WriteHeader(http.StatusTooEarly)
		}
	}))
	t.Cleanup(steps.Close)
	t.Cleanup(func() { close(hang) })
	httpPort, grpcPort := portOf(t), portOf(t)
	file := fmt.Sprintf("HttpPort: %s\nGrpcPort: %s\nRetryInterval: 17\nTimeoutToFail: 77\nRequestTimeout: 1\n"+
		"AlertRetryLimit: 1\nAlertWebHook: %s/hook\nStore:\n  Driver: mysql\n  Host: db.example\n", httpPort, grpcPort, steps.URL)
	env := map[string]string{"HOLDFAST_DATA": filepath.Join(t.TempDir(), "d"), "RETRY_INTERVAL": "50"}
	var said said
	r, err := dtmStart(t, &said, env, file)
	if err != nil {
		t.Fatal(err)
	}
	if at := r.Addresses(); !strings.Contains(at, "saga=[::]:"+httpPort) || !strings.Contains(at, "saga-grpc=[::]:"+grpcPort) || strings.Contains(at, "kv=") {
		t.Errorf("it listens at %s", at)
	}
	said.times(t, 1, "anyone who reaches these ports")
	s := &sagaRig{running: r, t: t, at: "127.0.0.1:" + httpPort}
	if code, body := s.submit("good", steps.URL+"/do", ""); code != 200 || body != `{"dtm_result":"SUCCESS"}` {
		t.Errorf("submit: %d %s", code, body)
	}
	s.submit("slow", steps.URL+"/later", "")
	if out := says(t, "saga", "show", "slow", "--saga", s.at); !strings.Contains(out, `"next_cron_interval": 17`) {
		t.Errorf("RetryInterval does not count:\n%s", out)
	}
	began := time.Now()
	s.submit("hangs", steps.URL+"/hang", "")
	if took := time.Since(began); took < 900*time.Millisecond || took >= 3*time.Second { // 3 s is the default
		t.Errorf("RequestTimeout does not count: a call that hangs took %v", took)
	}
	s.submit("broken", steps.URL+"/broken", "")
	for hooked := false; !hooked; {
		select {
		case body := <-alerts: // of the one that hangs too
			hooked = strings.Contains(body, `"gid":"broken","status":"submitted"`)
		case <-time.After(wait.Limit(t)):
			t.Fatal("AlertWebHook and AlertRetryLimit do not count: nobody was told")
		}
	}
	if code, body := s.post("prepare", "", `{"gid":"m","trans_type":"msg","query_prepared":"http://127.0.0.1:1/","steps":[],"payloads":[]}`); code != 200 {
		t.Errorf("prepare: %d %s", code, body)
	}
	if due := s.due("m"); due < 70*time.Second || due > 80*time.Second {
		t.Errorf("TimeoutToFail does not count: asked about after %v", due)
	}
	if gid, err := grpcAsk(t, "127.0.0.1:"+grpcPort, nil, "", "NewGid", nil); err != nil || len(gid) < 10 {
		t.Errorf("over gRPC: %q, %v", gid, err)
	}
	r.stop()
	_, err = dtmStart(t, io.Discard, env, file)
	if err != nil {
		t.Fatal(err)
	}
	out := strings.Join(strings.Fields(says(t, "saga", "list", "--saga", s.at)), " ")
	if !strings.Contains(out, " good saga succeed ") || !strings.Contains(out, " slow saga submitted ") {
		t.Errorf("after a restart:\n%s", out)
	}
}

// TestWhoMayUseADTM: the variables of `holdfast serve` say who, since DTM has no word for it.
func TestWhoMayUseADTM(t *testing.T) {
	t.Parallel()
	httpPort, grpcPort := portOf(t), portOf(t)
	var said said
	env := map[string]string{"HOLDFAST_DATA": t.TempDir(), "HOLDFAST_SAGA_CLIENTS": "10.0.0.0/8", "HTTP_PORT": httpPort, "GRPC_PORT": grpcPort}
	r, err := dtmStart(t, &said, env, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &sagaRig{running: r, t: t, at: "127.0.0.1:" + httpPort}
	if code, _ := s.submit("c1", "http://127.0.0.1:1/", ""); code != 403 {
		t.Errorf("from loopback: %d", code)
	}
	said.times(t, 0, "anyone who reaches")
}

// TestATCCIsCancelledByTheTimeOfTheFile: the worker goes by the same times as the door, which only says when it looks first.
func TestATCCIsCancelledByTheTimeOfTheFile(t *testing.T) {
	t.Parallel()
	at := freeAddr(t)
	_, port, _ := net.SplitHostPort(at)
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	// Shorter than a file may say.
	r, err := dtmBegin(t, io.Discard, map[string]string{"HOLDFAST_DATA": t.TempDir()}, &conf.Settings{HTTPPort: n,
		TimeoutToFail: 300 * time.Millisecond, RetryInterval: 100 * time.Millisecond, RequestTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s := &sagaRig{running: r, t: t, at: at}
	if code, body := s.post("prepare", "", `{"gid":"late","trans_type":"tcc"}`); code != 200 {
		t.Fatalf("prepare: %d %s", code, body)
	}
	for end := time.Now().Add(wait.Limit(t)); !strings.Contains(says(t, "saga", "show", "late", "--saga", at), `"status": "failed"`); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not cancelled")
		}
	}
}
