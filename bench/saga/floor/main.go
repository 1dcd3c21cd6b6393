// Command floor is the least that a durable coordinator of sagas can do. It decodes a submit, puts it in a group, and writes the group to
// one file with one fdatasync. It calls both actions in turn, writes a second record in the same way, and answers. It speaks as much of
// DTM's HTTP API as a load tool that waits for results needs. It shows the rate that services, tool and HTTP allow on a machine. It is no
// coordinator: it recovers nothing, retries nothing, compensates nothing, and must never be compared as if it did.
//
//	floor -listen 127.0.0.1:36789 -dir DIR
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:36789", "address to serve HTTP on")
	dir := flag.String("dir", "", "directory for the one file (required)")
	flag.Parse()
	if err := run(*listen, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(listen, dir string) error {
	if dir == "" {
		return errors.New("-dir is required")
	}
	l, err := openLog(filepath.Join(dir, "floor.log"))
	if err != nil {
		return err
	}
	c := &coordinator{log: l, branches: fasthttp.Client{MaxConnsPerHost: maxCalls, NoDefaultUserAgentHeader: true}}
	s := &fasthttp.Server{Handler: c.serve, NoDefaultServerHeader: true, NoDefaultDate: true}
	return s.ListenAndServe(listen)
}

const (
	maxCalls    = 4096
	callTimeout = 3 * time.Second
)

// coordinator has no state but its log: there are no queries of a saga's outcome.
type coordinator struct {
	log      *log
	branches fasthttp.Client
}

// saga is what is read of a submit.
type saga struct {
	Gid      string
	Steps    []struct{ Action string }
	Payloads []string
}

const (
	success = `{"dtm_result":"SUCCESS"}`
	submit  = "/api/dtmsvr/submit"
	newGid  = "/api/dtmsvr/newGid"
)

func (c *coordinator) serve(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType("application/json")
	switch string(ctx.Path()) {
	case newGid:
		ctx.SetBodyString(success)
	case submit:
		if err := c.submit(ctx.PostBody()); err != nil {
			ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
			return
		}
		ctx.SetBodyString(success)
	default:
		ctx.SetStatusCode(fasthttp.StatusNotFound)
	}
}

// submit carries one saga to its end.
func (c *coordinator) submit(body []byte) error {
	var s saga
	if err := json.Unmarshal(body, &s); err != nil {
		return err
	}
	if len(s.Payloads) != len(s.Steps) {
		return fmt.Errorf("saga %s: %d payloads for %d steps", s.Gid, len(s.Payloads), len(s.Steps))
	}
	c.log.append(body)
	for i, step := range s.Steps {
		if err := c.call(step.Action, s.Gid, i+1, s.Payloads[i]); err != nil {
			return err
		}
	}
	c.log.append([]byte(s.Gid))
	return nil
}

// call runs one action as a coordinator has to: the branch is told by query arguments which one it is. Without a URL there is nothing
// to call.
func (c *coordinator) call(url, gid string, branch int, payload string) error {
	if url == "" {
		return nil
	}
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)
	first := "?"
	if strings.Contains(url, "?") {
		first = "&"
	}
	req.SetRequestURI(fmt.Sprintf("%s%sgid=%s&trans_type=saga&branch_id=%02d&op=action", url, first, gid, branch))
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.SetContentType("application/json")
	req.SetBodyString(payload)
	if err := c.branches.DoTimeout(req, res, callTimeout); err != nil {
		return fmt.Errorf("call %s: %w", url, err)
	}
	if res.StatusCode() != fasthttp.StatusOK {
		return fmt.Errorf("call %s: status %d", url, res.StatusCode())
	}
	return nil
}
