package litestream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/sqlite/litestream/conf"
)

// errUnknown: the program does not have such a database.
var errUnknown = errors.New("database not found")

// syncer captures what was committed to a database and, where wait is set, returns when it is stored. TXIDs are those captured and stored.
// It may be called from several goroutines; a database that is not known is errUnknown.
type syncer func(ctx context.Context, path string, wait bool) (syncAnswer, error)

// control is a program's control socket. Close ends it.
type control struct {
	path string
	srv  *http.Server
	done chan struct{}
}

// endWait is how long requests that are on their way may take when the program ends.
const endWait = 5 * time.Second

// listen opens the control socket. An existing socket without a listener is replaced.
func listen(s conf.Socket, sur *conf.Surroundings, sync syncer, log *slog.Logger) (*control, error) {
	l, err := cli.ListenUnix(s.Path, s.Permissions)
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w; set socket.path, if another one is meant", s.Path, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /sync", func(w http.ResponseWriter, r *http.Request) { serveSync(w, r, sur, sync) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answerError(w, http.StatusNotFound, r.Method+" "+r.URL.Path+" is not offered here; there is POST /sync")
	})
	c := &control{path: s.Path, done: make(chan struct{}),
		srv: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: time.Minute,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}}
	go func() {
		defer close(c.done)
		if err := c.srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the control socket has ended", "error", err)
		}
	}()
	log.Info("control socket listening", "path", s.Path)
	return c, nil
}

// close ends the socket when the requests on their way are answered, or after a while.
func (c *control) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	err := c.srv.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, c.srv.Close())
	}
	<-c.done
	if e := os.Remove(c.path); e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}

// serveSync answers one request.
func serveSync(w http.ResponseWriter, r *http.Request, sur *conf.Surroundings, sync syncer) {
	var req syncRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostRequest)).Decode(&req); err != nil {
		answerError(w, http.StatusBadRequest, "invalid request body")
		return
	}
	switch {
	case req.Path == "":
		answerError(w, http.StatusBadRequest, "path required")
		return
	case req.Timeout < 0 || req.Timeout > mostWait:
		answerError(w, http.StatusBadRequest, fmt.Sprintf("timeout %d: give seconds from 1 to %d", req.Timeout, mostWait))
		return
	case req.Timeout == 0:
		req.Timeout = 30
	}
	path, err := sur.Path(req.Path)
	if err != nil {
		answerError(w, http.StatusBadRequest, fmt.Sprintf("invalid path: %v", err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(req.Timeout)*time.Second)
	defer cancel()
	a, err := sync(ctx, path, req.Wait)
	switch {
	case errors.Is(err, errUnknown):
		answerError(w, http.StatusNotFound, err.Error())
		return
	case err != nil:
		answerError(w, http.StatusInternalServerError, err.Error())
		return
	}
	a.Path = path
	answer(w, http.StatusOK, a)
}

func answerError(w http.ResponseWriter, status int, text string) {
	answer(w, status, errorAnswer{Error: text})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone if this fails
}
