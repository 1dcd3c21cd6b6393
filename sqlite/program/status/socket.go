package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/sqlite/agent"
)

const (
	// askWait bounds what one agent is waited for.
	askWait = 5 * time.Second
	// mostAnswer bounds an answer, in bytes: some hundred for each database.
	mostAnswer = 64 << 20
)

// Views is a running agent's answer; *agent.Agent.
type Views interface{ Views() []agent.View }

// The sockets lie in the directory for temporary files, one for each process, with the user's id in the name.
const prefix, suffix = "holdfast-sqlite-", ".status"

func ownPath() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("%s%d-%d%s", prefix, os.Getuid(), os.Getpid(), suffix))
}

// serveRows serves an agent's rows at a Unix socket, for its user alone. An earlier process of this number may have left a socket there; anything
// else stays, and is an error.
func serveRows(path string, a Views, log *slog.Logger) (*server, error) {
	l, err := cli.ListenUnix(path, 0o600)
	if err != nil {
		return nil, fmt.Errorf("status socket %s: %w", path, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		answer := Answer{PID: os.Getpid(), Databases: []Row{}}
		for _, v := range a.Views() {
			answer.Databases = append(answer.Databases, row(v))
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the client is gone if this fails
	})
	return serve(l, mux, path, log), nil
}

// ask asks the agent at a socket.
func ask(ctx context.Context, path string) (*Answer, error) {
	client := &http.Client{Timeout: askWait, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/status", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the agent at %s: %w", path, err)
	}
	defer resp.Body.Close() // it was read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask the agent at %s: %s", path, resp.Status)
	}
	a := &Answer{}
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostAnswer)).Decode(a); err != nil {
		return nil, fmt.Errorf("ask the agent at %s: %w", path, err)
	}
	return a, nil
}

// AskAll asks every agent of this user, and root those of all users, in the order of their processes. Agents are looked for in the
// directory for temporary files. A socket without a listener was left by an agent that was killed; it is removed.
func AskAll(ctx context.Context) ([]*Answer, error) {
	dir := os.TempDir()
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var answers []*Answer
	for _, e := range names {
		if !mayAsk(e) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		a, err := ask(ctx, path)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			_ = cli.RemoveStale(path) // the next one to ask may
			continue
		case errors.Is(err, fs.ErrNotExist):
			continue // it has just ended
		case err != nil:
			return nil, err
		}
		answers = append(answers, a)
	}
	slices.SortFunc(answers, func(x, y *Answer) int { return x.PID - y.PID })
	return answers, nil
}

// mayAsk reports whether a directory entry is the socket of an agent that this user may ask. Its owner must be the user in its name: the directory
// is everybody's, and another user could answer in an agent's place.
func mayAsk(e os.DirEntry) bool {
	name, ok := strings.CutPrefix(e.Name(), prefix)
	if name, ok2 := strings.CutSuffix(name, suffix); !ok || !ok2 || e.Type()&os.ModeSocket == 0 {
		return false
	} else if uid, _, _ := strings.Cut(name, "-"); uid != strconv.Itoa(os.Getuid()) && os.Getuid() != 0 {
		return false
	} else if info, err := e.Info(); err != nil {
		return false
	} else if s, ok := info.Sys().(*syscall.Stat_t); !ok || strconv.FormatUint(uint64(s.Uid), 10) != uid {
		return false
	}
	return true
}
