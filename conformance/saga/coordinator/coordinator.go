// Package coordinator starts the two coordinators that the conformance runs of the saga door set beside each other: Holdfast and DTM. It
// judges neither.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// The default addresses of DTM's coordinator, where its own samples and tests look for it.
const (
	HTTP = "127.0.0.1:36789"
	GRPC = "127.0.0.1:36790"
)

// patience is how long a coordinator may take to take its first command.
const patience = 60 * time.Second

// Ours starts a Holdfast at DTM's ports, with more flags and its data below dir, and waits until it takes transactions. The caller closes the cluster.
func Ours(dir, bin string, flags ...string) (*proctest.Cluster, error) {
	c, err := proctest.New(dir, proctest.Holdfast(bin, append([]string{"--saga", HTTP, "--saga-grpc", GRPC}, flags...)...), 1)
	if err != nil {
		return nil, err
	}
	if err := c.Run(); err != nil {
		return nil, err
	}
	if err := Ready(HTTP); err != nil {
		c.Close()
		return nil, errors.Join(err, errors.New(c.Nodes[0].LogTail(10)))
	}
	return c, nil
}

// Original starts DTM at its ports, with its default store below dir, and waits until it takes transactions. The caller kills it.
// A workflow's steps are recorded, which its default leaves out.
func Original(dir, bin string) (*proctest.Process, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	for name, v := range map[string]string{"LOG_LEVEL": "error", "UPDATE_BRANCH_SYNC": "1"} { // any order: each is set once
		if err := os.Setenv(name, v); err != nil {
			return nil, err
		}
	}
	p := proctest.NewProcess(filepath.Join(dir, "dtm.log"), "/bin/sh", "-c", `cd "$0" && exec "$1"`, dir, bin)
	if err := p.Start(); err != nil {
		return nil, err
	}
	if err := Ready(HTTP); err != nil {
		return nil, errors.Join(err, errors.New(p.LogTail(10)), p.Kill())
	}
	return p, nil
}

// Ready waits until the coordinator at an address takes commands. A coordinator that takes commands refuses its request.
func Ready(at string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := ready(ctx, at)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the coordinator at %s takes no command: %w", at, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func ready(ctx context.Context, at string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/api/dtmsvr/unsubscribe?topic=none&url=none", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	if err == nil && res.StatusCode != http.StatusInternalServerError {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	return err
}
