package status

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"
)

// Servers are the status socket and the metrics of one agent. One goroutine has them.
type Servers struct {
	of  Views
	log *slog.Logger
	all []*server
}

// Serve serves an agent's rows at a socket of this process. Databases are kept without it, so that it is a warning if there can be none.
func Serve(a Views, log *slog.Logger) *Servers {
	s := &Servers{of: a, log: log}
	if l, err := serveRows(ownPath(), a, log); err != nil {
		log.Warn("`holdfast sqlite status` cannot ask this agent", "err", err)
	} else {
		s.all = append(s.all, l)
	}
	return s
}

// Metrics serves the agent's metrics as well, at a TCP address: host:port or :port.
func (s *Servers) Metrics(addr string) error {
	l, err := serveMetrics(addr, s.of, s.log)
	if err == nil {
		s.all = append(s.all, l)
	}
	return err
}

// Close ends the servers, and their connections where they are.
func (s *Servers) Close() {
	for _, one := range s.all {
		one.close()
	}
}

// server is one HTTP server.
type server struct {
	http *http.Server
	path string // of a socket; "": none
	done chan struct{}
}

func serve(l net.Listener, h http.Handler, path string, log *slog.Logger) *server {
	s := &server{path: path, done: make(chan struct{}), http: &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the server of status or metrics has ended", "err", err)
		}
	}()
	return s
}

func (s *server) close() {
	_ = s.http.Close() // it has nothing to lose
	<-s.done
	if s.path != "" {
		_ = os.Remove(s.path) // one that stays is removed by the next to ask
	}
}
