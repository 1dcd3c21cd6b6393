package litestream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/litestream/conf"
)

const syncAbout = `Asks a running program, by its control socket, to store what was committed to a database. The socket has to be enabled in that
program's configuration file (socket: {enabled: true}).
`

// syncRequest and syncAnswer are the messages on the socket. A time is in seconds.
type syncRequest struct {
	Path    string `json:"path"`
	Wait    bool   `json:"wait,omitempty"`
	Timeout int    `json:"timeout,omitempty"`
}

type syncAnswer struct {
	Status         string `json:"status"`
	Path           string `json:"path"`
	TXID           uint64 `json:"txid"`
	ReplicatedTXID uint64 `json:"replicated_txid"`
}

// errorAnswer comes with any status but 200.
type errorAnswer struct {
	Error   string `json:"error"`
	Details any    `json:"details,omitempty"`
}

// syncRow is what `sync -json` prints.
type syncRow struct {
	DBPath      string  `json:"db_path"`
	TXID        uint64  `json:"txid"`
	ReplicaTXID *uint64 `json:"replica_txid,omitempty"`
	DurationMS  int64   `json:"duration_ms"`
}

const (
	// mostAnswer is the most that is read of an answer, mostRequest of a request.
	mostAnswer  = 1 << 20
	mostRequest = 64 << 10
	// mostWait bounds what a request may take.
	mostWait = 24 * 60 * 60
)

func (p *program) sync(args []string) error {
	set := p.flags("sync")
	wait := set.Bool("wait", false, "come back when it is stored in the replica")
	timeout := set.Int("timeout", 30, "`SECONDS` to wait at most")
	socket := set.String("socket", conf.DefaultSocket, "`PATH` of the control socket")
	asJSON := set.Bool("json", false, "print JSON")
	if err := p.parse(set, args, 1, 1, "database path required"); err != nil {
		return err
	}
	if *timeout <= 0 || *timeout > mostWait {
		return fmt.Errorf("-timeout %d: give seconds from 1 to %d", *timeout, mostWait)
	}
	at, err := p.sur.Path(*socket)
	if err != nil {
		return err
	}
	path, err := p.sur.Path(set.Arg(0)) // the running program may be in another directory
	if err != nil {
		return err
	}
	body, err := json.Marshal(syncRequest{Path: path, Wait: *wait, Timeout: *timeout})
	if err != nil {
		return err
	}
	began := time.Now()
	answer, err := post(at, "sync", body, time.Duration(*timeout)*time.Second)
	if err != nil {
		return err
	}
	var got syncAnswer
	if err := json.Unmarshal(answer, &got); err != nil {
		return fmt.Errorf("the answer cannot be read: %w; is %s the control socket of a program of this name?", err, at)
	}
	row := syncRow{DBPath: got.Path, TXID: got.TXID, DurationMS: time.Since(began).Milliseconds()}
	if *wait {
		row.ReplicaTXID = &got.ReplicatedTXID
	}
	if *asJSON {
		return printJSON(p.stdout, row)
	}
	fmt.Fprintf(p.stdout, "db_path: %s\ntxid: %d\n", row.DBPath, row.TXID)
	if row.ReplicaTXID != nil {
		fmt.Fprintf(p.stdout, "replica_txid: %d\n", *row.ReplicaTXID)
	}
	fmt.Fprintf(p.stdout, "duration_ms: %d\n", row.DurationMS)
	return nil
}

// post sends one request to a running program and returns its answer.
func post(socket, what string, body []byte, limit time.Duration) ([]byte, error) {
	client := &http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	resp, err := client.Post("http://localhost/"+what, "application/json", bytes.NewReader(body))
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			return nil, fmt.Errorf("failed to connect to control socket: %w; is the program running, with socket: {enabled: true}?", op)
		}
		return nil, fmt.Errorf("%s failed: %w", what, err)
	}
	defer resp.Body.Close() // it was read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s failed: %w", what, err)
	}
	if resp.StatusCode == http.StatusOK {
		return answer, nil
	}
	var told errorAnswer
	if json.Unmarshal(answer, &told) == nil && told.Error != "" {
		return nil, fmt.Errorf("%s failed: %s", what, told.Error)
	}
	return nil, fmt.Errorf("%s failed: %s", what, resp.Status)
}
