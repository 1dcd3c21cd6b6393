package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/internal/certtest"
)

// runbookPage has the lines an operator types for a public log, in the first block after runbookTitle.
const (
	runbookPage  = "docs/operations/tlog.md"
	runbookTitle = "**A public log.**"
)

// runbook is the block of lines.
func runbook() (string, error) {
	page, err := os.ReadFile(runbookPage)
	if err != nil {
		return "", err
	}
	_, rest, ok1 := strings.Cut(string(page), runbookTitle)
	_, rest, ok2 := strings.Cut(rest, "```sh\n")
	lines, _, ok3 := strings.Cut(rest, "```\n")
	if !ok1 || !ok2 || !ok3 {
		return "", fmt.Errorf("%s has no block of sh after %q", runbookPage, runbookTitle)
	}
	return lines, nil
}

// public types the runbook's lines and checks the result. It is an address for reading alone, a token to add, over TLS, and a quota that
// fills and leaves the kv door its room.
func (s *suite) public() (note string, err error) {
	lines, err := runbook()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(s.dir, "public")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	ca := certtest.NewAuthority("conformance")
	if _, err := ca.WriteFile(dir); err != nil {
		return "", err
	}
	if _, _, err := certtest.WriteFiles(dir, "log", ca.Issue("log")); err != nil {
		return "", err
	}
	bin, err := filepath.Abs(s.bin)
	if err != nil {
		return "", err
	}
	if err := os.Symlink(bin, filepath.Join(dir, "holdfast")); err != nil { // for a binary of any name
		return "", err
	}
	at := map[string]string{}
	env := append(os.Environ(), "DIR="+dir, "PATH="+dir+":"+os.Getenv("PATH"))
	for _, name := range []string{"WRITE", "READ", "ADMIN", "KV"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		at[name] = l.Addr().String()
		_ = l.Close() // its port is what was wanted
		env = append(env, name+"="+at[name])
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", lines+"\necho \"$SERVER\" > $DIR/pid; echo \"$TOKEN\" > $DIR/token")
	cmd.Env, cmd.WaitDelay = env, time.Second
	out, err := cmd.CombinedOutput()
	defer func() {
		if err2 := end(filepath.Join(dir, "pid")); err == nil {
			err = err2
		}
	}()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return "", fmt.Errorf("the runbook's lines: %w: %s", err, out)
	}
	if !strings.Contains(string(out), "verified in") {
		return "", fmt.Errorf("the runbook's lines verify nothing: %s", out)
	}
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		return "", err
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: ca.Config()}}
	defer client.CloseIdleConnections()
	write, read := "https://"+at["WRITE"], "https://"+at["READ"]
	ask := func(method, url, token, body string) (int, error) {
		req, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return res.StatusCode, err
	}
	good := strings.TrimSpace(string(token))
	for _, c := range []struct {
		method, url, token string
		want               int
	}{{"POST", write + "/add", "", 401}, {"POST", write + "/add", "guess", 401}, {"POST", read + "/add", good, 405}, {"GET", read + "/checkpoint", "", 200},
		{"DELETE", read + "/checkpoint", "", 405}} {
		if code, err := ask(c.method, c.url, c.token, "x"); err != nil || code != c.want {
			return "", fmt.Errorf("%s %s with the token %q: %d, want %d, %v", c.method, c.url, c.token, code, c.want, err)
		}
	}
	added, full := 0, false
	for began := time.Now(); !full; added++ {
		code, err := ask("POST", write+"/add", good, strings.Repeat("x", 60000)+strconv.Itoa(added))
		switch {
		case err != nil:
			return "", err
		case code == 507:
			full = true
		case code == 429:
			time.Sleep(100 * time.Millisecond)
		case code != 200:
			return "", fmt.Errorf("add: %d", code)
		}
		if time.Since(began) > time.Minute {
			return "", errors.New("the quota does not fill")
		}
	}
	put := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: ca.Config()}}
	defer put.CloseIdleConnections()
	res, err := put.Post("https://"+at["KV"]+"/v3/kv/put", "application/json", strings.NewReader(`{"key":"YQ==","value":"MQ=="}`))
	if err != nil {
		return "", fmt.Errorf("kv beside a full log: %w", err)
	}
	res.Body.Close()
	if res.StatusCode != 200 {
		return "", fmt.Errorf("kv beside a full log: %s", res.Status)
	}
	verify := exec.Command(bin, "tlog", "verify", read, "--tls-ca", filepath.Join(dir, "ca.pem"), "--vkey", filepath.Join(dir, "keys", "default.vkey"))
	if out, err := verify.CombinedOutput(); err != nil {
		return "", fmt.Errorf("verify: %w: %s", err, out)
	}
	return fmt.Sprintf("%d lines typed, %d adds until the quota was full, verified over TLS", strings.Count(lines, "\n"), added-1), nil
}

// end ends the server whose number is in a file.
func end(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 1 {
		return fmt.Errorf("%s: no process %q", file, b)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return err
	}
	for range 100 {
		if syscall.Kill(pid, 0) != nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}
