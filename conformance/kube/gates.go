package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// gates are watches through the JSON gateway as lua-resty-etcd has them, and APISIX by it. Each is a POST over HTTP/1.1 on a connection of
// its own, whose answer comes in chunks, one for each message. All watch one prefix.
type gates struct {
	at string

	mu    sync.Mutex
	heard []int // of each, how many events; guarded by mu
	ended int   // guarded by mu
	wrong error // the first; guarded by mu
}

// gateAddress is where they come from, gatePrefix what they watch, gateKey what is put below it.
const (
	gateAddress = "127.0.0.3"
	gatePrefix  = "/apisix/"
	gateKey     = gatePrefix + "routes/1"
)

// open begins the watches at a revision, and returns when the gateway has said of each that it was created.
func (g *gates) open(n int, revision int64) error {
	g.heard = make([]int, n)
	body := fmt.Sprintf(`{"create_request":{"key":%q,"range_end":%q,"start_revision":"%d"}}`, base64.StdEncoding.EncodeToString([]byte(gatePrefix)),
		base64.StdEncoding.EncodeToString([]byte("/apisix0")), revision)
	request := fmt.Sprintf("POST /v3/watch HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", g.at, len(body), body)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(gateAddress)}, Timeout: 10 * time.Second}
	for i := range n {
		c, err := dialer.Dial("tcp", g.at)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		if _, err := c.Write([]byte(request)); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		in := bufio.NewReaderSize(c, 1<<10)
		c.SetReadDeadline(time.Now().Add(30 * time.Second))
		if err := readHead(in); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		var m gateMessage
		if err := readChunk(in, &m); err != nil || !m.Result.Created {
			return fmt.Errorf("connection %d: created %t, %w", i, m.Result.Created, err)
		}
		c.SetReadDeadline(time.Time{})
		go func() {
			defer c.Close()
			g.follow(i, in)
		}()
	}
	return nil
}

// gateMessage is one message of a watch.
type gateMessage struct {
	Result struct {
		Created  bool `json:"created"`
		Canceled bool `json:"canceled"`
		Events   []struct {
			KV struct {
				Value []byte `json:"value"`
			} `json:"kv"`
		} `json:"events"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
}

// readHead reads the head of an answer, which must be a good one in chunks.
func readHead(in *bufio.Reader) error {
	status, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	chunked := false
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if line = strings.ToLower(strings.TrimSpace(line)); line == "" {
			break
		}
		chunked = chunked || line == "transfer-encoding: chunked"
	}
	if !strings.HasPrefix(status, "HTTP/1.1 200 ") || !chunked {
		return fmt.Errorf("%s, in chunks: %t", strings.TrimSpace(status), chunked)
	}
	return nil
}

// readChunk reads one chunk, a message.
func readChunk(in *bufio.Reader, m *gateMessage) error {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(strings.TrimSpace(line), 16, 20)
		if err != nil {
			return fmt.Errorf("a chunk's size is %q", line)
		}
		if n == 0 {
			return fmt.Errorf("the answer has ended")
		}
		b := make([]byte, n+2)
		for at := 0; at < len(b); {
			k, err := in.Read(b[at:])
			if err != nil {
				return err
			}
			at += k
		}
		if b = bytes.TrimSpace(b); len(b) == 0 { // the line feed behind a message may be a chunk of its own
			continue
		}
		return json.Unmarshal(b, m)
	}
}

// follow reads the events of one watch. Each is the next number.
func (g *gates) follow(i int, in *bufio.Reader) {
	for {
		var m gateMessage
		err := readChunk(in, &m)
		g.mu.Lock()
		switch {
		case err != nil:
			g.ended++
			err = fmt.Errorf("watch %d has ended: %w", i, err)
		case m.Result.Canceled || len(m.Error) > 0:
			g.ended++
			err = fmt.Errorf("watch %d was cancelled: %s", i, m.Error)
		}
		for _, e := range m.Result.Events {
			if n := string(e.KV.Value); err == nil && n != strconv.Itoa(g.heard[i]) {
				err = fmt.Errorf("watch %d: put %s after %d puts", i, n, g.heard[i])
			}
			g.heard[i]++
		}
		if err != nil && g.wrong == nil {
			g.wrong = err
		}
		g.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// finish waits until every watch has told of every put.
func (g *gates) finish(put int) (string, error) {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		g.mu.Lock()
		wrong, ended, behind, least := g.wrong, g.ended, 0, put
		for _, n := range g.heard {
			if least = min(least, n); n != put {
				behind++
			}
		}
		g.mu.Unlock()
		switch {
		case wrong != nil:
			return "", fmt.Errorf("%d have ended, %d have not told of everything: %w", ended, behind, wrong)
		case behind == 0:
			return fmt.Sprintf("each of %d has told of each of %d puts once, in order, and none has ended", len(g.heard), put), nil
		case time.Since(began) > 30*time.Second:
			return "", fmt.Errorf("%d have not told of all %d puts half a minute after the last, one of %d only", behind, put, least)
		}
	}
}
