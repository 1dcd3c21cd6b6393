package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gateway sends JSON to the gateway and compares what comes back as JSON: protojson varies its white space on purpose.
// Fields that belong to a run are masked, revisions are relative.
func gateway(e *env) {
	k := func(name string) string { return base64.StdEncoding.EncodeToString([]byte(e.k(name))) }
	end := base64.StdEncoding.EncodeToString([]byte(e.prefix[:len(e.prefix)-1] + "0")) // '0' follows '/'
	v := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

	// Keys.
	e.post("/v3/kv/put", `{"key":"`+k("a")+`","value":"`+v("1")+`"}`)
	e.post("/v3/kv/put", `{"key":"`+k("a")+`","value":"`+v("2")+`","prev_kv":true}`)
	e.post("/v3/kv/put", `{"key":"`+k("b")+`","value":"","nosuchfield":[1,{"x":2}]}`)
	e.post("/v3/kv/put", `{"key":"`+k("c")+`","value":"`+v("\x00\xff")+`","lease":0,"ignore_value":false}`)
	e.post("/v3/kv/put", `{"key":"`+k("c")+`","ignore_value":true,"prevKv":true}`)
	e.post("/v3/kv/put", `{"key":"`+k("new")+`","ignore_value":true}`)
	e.post("/v3/kv/put", `{"key":"`+k("new")+`","value":"`+v("x")+`","lease":"77"}`)
	e.post("/v3/kv/range", `{"key":"`+k("a")+`"}`)
	e.post("/v3beta/kv/range", `{"key":"`+k("a")+`"}`)
	e.post("/v3/kv/range", `{"key":"`+k("")+`","range_end":"`+end+`"}`)
	e.post("/v3/kv/range", `{"key":"`+k("")+`","range_end":"`+end+`","limit":"2","sort_order":"DESCEND","sort_target":"KEY"}`)
	e.post("/v3/kv/range", `{"key":"`+k("")+`","range_end":"`+end+`","limit":2,"sort_order":2,"sort_target":4,"keys_only":true}`)
	e.post("/v3/kv/range", `{"key":"`+k("")+`","range_end":"`+end+`","count_only":true,"serializable":true}`)
	e.post("/v3/kv/range", `{"key":"`+k("a")+`","revision":"`+e.rev(1)+`"}`)
	e.post("/v3/kv/range", `{"key":"`+k("a")+`","revision":"`+e.rev(100000)+`"}`)
	e.post("/v3/kv/range", `{"key":"`+k("missing")+`"}`)
	e.post("/v3/kv/txn", `{"compare":[{"key":"`+k("a")+`","target":"VALUE","result":"EQUAL","value":"`+v("2")+`"}],
		"success":[{"requestPut":{"key":"`+k("t")+`","value":"`+v("s")+`"}},{"request_range":{"key":"`+k("a")+`"}}],
		"failure":[{"requestDeleteRange":{"key":"`+k("t")+`"}}]}`)
	e.post("/v3/kv/txn", `{"compare":[{"key":"`+k("a")+`","target":"VERSION","result":"GREATER","version":"5"}],
		"failure":[{"request_delete_range":{"key":"`+k("t")+`","prev_kv":true}}]}`)
	e.post("/v3/kv/txn", `{"success":[{"requestPut":{"key":"`+k("d")+`"}},{"requestPut":{"key":"`+k("d")+`"}}]}`)
	e.post("/v3/kv/txn", `{}`)
	e.post("/v3/kv/deleterange", `{"key":"`+k("b")+`","prev_kv":true}`)
	e.post("/v3/kv/deleterange", `{"key":"`+k("b")+`"}`)
	e.post("/v3/kv/compaction", `{"revision":"`+e.rev(1)+`"}`)
	e.post("/v3/kv/compaction", `{"revision":"`+e.rev(1)+`"}`)
	e.post("/v3/kv/compaction", `{"revision":"`+e.rev(100000)+`"}`)

	// Leases, under their new and old paths.
	e.post("/v3/lease/grant", `{"TTL":"600","ID":"4711"}`)
	e.post("/v3/lease/grant", `{"TTL":"600","ID":"4711"}`)
	e.post("/v3/lease/grant", `{"TTL":"99999999999"}`)
	e.post("/v3/kv/put", `{"key":"`+k("l")+`","value":"`+v("x")+`","lease":"4711"}`)
	e.post("/v3/kv/range", `{"key":"`+k("l")+`"}`)
	e.post("/v3/lease/timetolive", `{"ID":"4711","keys":true}`)
	e.post("/v3/kv/lease/timetolive", `{"ID":"4711"}`)
	e.post("/v3/lease/timetolive", `{"ID":"4712"}`)
	e.post("/v3/lease/keepalive", `{"ID":"4711"}`)
	e.post("/v3/lease/keepalive", `{"ID":"4711"} {"ID":"4712"}`)
	e.post("/v3/lease/leases", `{}`)
	e.post("/v3/kv/lease/leases", `{}`)
	e.post("/v3/kv/lease/revoke", `{"ID":"4711"}`)
	e.post("/v3/lease/revoke", `{"ID":"4711"}`)

	// Streams.
	e.lines("/v3/watch", `{"create_request":{"key":"`+k("a")+`","start_revision":"`+e.rev(2)+`","prev_kv":true}}`, 2)
	e.lines("/v3/watch", `{"create_request":{"key":"`+k("")+`","range_end":"`+end+`","start_revision":"`+e.rev(3)+`","filters":["NODELETE"]}}`, 2)
	e.lines("/v3/watch", `{"create_request":{"key":"`+k("a")+`","start_revision":"1"}}`, 2)
	e.lines("/v3/watch", `{"create_request":{"key":"`+k("a")+`","watch_id":"5"}} {"cancel_request":{"watch_id":"5"}}`, 2)

	// Locks and elections.
	e.post("/v3/lease/grant", `{"TTL":"600","ID":"4713"}`)
	e.post("/v3/lock/lock", `{"name":"`+k("lock")+`","lease":"4713"}`)
	e.post("/v3/lock/unlock", `{"key":"`+base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s/%x", e.k("lock"), 4713))+`"}`)
	e.post("/v3/election/leader", `{"name":"`+k("vote")+`"}`)
	e.post("/v3/election/campaign", `{"name":"`+k("vote")+`","lease":"4713","value":"`+v("me")+`"}`)
	e.post("/v3/election/leader", `{"name":"`+k("vote")+`"}`)
	e.lines("/v3/election/observe", `{"name":"`+k("vote")+`"}`, 1)
	e.post("/v3/election/proclaim", `{"leader":{"name":"`+k("vote")+`","key":"eA==","rev":"1","lease":"1"},"value":"`+v("x")+`"}`)
	e.post("/v3/lease/revoke", `{"ID":"4713"}`)
	e.post("/v3/election/leader", `{"name":"`+k("vote")+`"}`)

	// The rest of the services, as far as answers do not depend on the machine.
	e.post("/v3/cluster/member/remove", `{"ID":"1"}`)
	e.post("/v3/cluster/member/promote", `{"ID":"1"}`)
	e.post("/v3/cluster/member/update", `{"ID":"1","peerURLs":["http://127.0.0.1:1"]}`)
	e.post("/v3/cluster/member/add", `{"peerURLs":["::"]}`)
	e.post("/v3/maintenance/alarm", `{"action":"GET","memberID":"0","alarm":"NONE"}`)
	e.post("/v3/maintenance/alarm", `{"action":"nonsense"}`)
	e.post("/v3/maintenance/defragment", `{}`)
	if !strings.Contains(e.endpoint, ",") { // of several members the one asked may lead or not, and says so
		e.post("/v3/maintenance/transfer-leadership", `{"targetID":"1"}`)
	}
	e.post("/v3/auth/status", `{}`)

	// Bodies that are no request.
	for _, body := range []string{``, `{`, `[]`, `"x"`, `null`, `{"key":1}`, `{"key":"!"}`, `{"limit":"x"}`, `{"limit":1.5}`,
		`{"limit":"9223372036854775808"}`, `{"key":"YQ","key":"Yg"}`, "{\"key\":\"YQ\"}\x00", `{"key":"YQ"} trailing`, `{"sort_order":"SIDEWAYS"}`} {
		e.post("/v3/kv/range", body)
	}
	e.post("/v3/kv/nosuch", `{}`)
	e.post("/v3/", `{}`)
	e.ask(http.MethodGet, "/v3/kv/range", "")
	e.ask(http.MethodPut, "/v3/kv/range", `{"key":"YQ=="}`)
}

// operators asks what probes ask.
func operators(e *env) {
	for _, path := range []string{"/health", "/health?serializable=true", "/health?exclude=NOSPACE", "/health?exclude=",
		"/livez", "/livez?verbose", "/livez/serializable_read", "/livez/serializable_read?verbose", "/livez?exclude=serializable_read&verbose",
		"/readyz", "/readyz/linearizable_read?verbose", "/readyz/data_corruption", "/readyz/non_learner?verbose", "/readyz/nosuch",
		"/readyz?exclude=linearizable_read&exclude=serializable_read&exclude=non_learner&verbose", "/version", "/", "/nosuch", "/v3"} {
		e.ask(http.MethodGet, path, "")
	}
	for _, path := range []string{"/health", "/livez", "/readyz", "/version", "/debug/vars"} {
		e.ask(http.MethodPost, path, "x")
		e.ask(http.MethodHead, path, "")
	}
	e.ask(http.MethodOptions, "/v3/kv/range", "")
}

func (e *env) post(path, body string) { e.ask(http.MethodPost, path, body) }

// ask records status, content type and body of one request. It waits for the end of the answer.
func (e *env) ask(method, path, body string) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	res := e.send(ctx, method, path, body)
	if res == nil {
		return
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		e.failf("%s %s: %w", method, path, err)
	}
	e.recordAnswer(method, path, body, res, b)
}

// lines records the first n lines of a stream and leaves.
func (e *env) lines(path, body string, n int) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	res := e.send(ctx, http.MethodPost, path, body)
	if res == nil {
		return
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	var b []byte
	for range n {
		line, err := in.ReadBytes('\n')
		if b = append(b, line...); err != nil {
			e.failf("POST %s %s: %w after %q", path, body, err, b)
			return
		}
	}
	e.recordAnswer(http.MethodPost, path, body, res, b)
}

func (e *env) send(ctx context.Context, method, path, body string) *http.Response {
	if e.err != nil {
		return nil
	}
	server, _, _ := strings.Cut(e.endpoint, ",")
	r, err := http.NewRequestWithContext(ctx, method, "http://"+strings.TrimPrefix(server, "http://")+path, strings.NewReader(body))
	if err != nil {
		e.failf("%s %s: %w", method, path, err)
		return nil
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		e.failf("%s %s: %w", method, path, err)
		return nil
	}
	return res
}

func (e *env) recordAnswer(method, path, body string, res *http.Response, answer []byte) {
	fmt.Fprintf(&e.text, "$ %s %s %s\n%d %s %s\n", method, path, e.maskJSON(body), res.StatusCode, res.Header.Get("Content-Type"), res.Header.Get("Allow"))
	for line := range bytes.Lines(answer) {
		e.text.WriteString(e.maskJSON(string(line)) + "\n")
	}
}

// maskJSON parses JSON and prints it with sorted keys, masked; what is no JSON is returned as it is.
func (e *env) maskJSON(s string) string {
	s = strings.ReplaceAll(s, e.prefix, "<prefix>")
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var out []string
	for d.More() {
		var v any
		if err := d.Decode(&v); err != nil {
			// The library varies a space in its own error texts, too.
			return strings.TrimRight(strings.ReplaceAll(s, "\u00a0", " "), "\n")
		}
		b, err := json.Marshal(e.maskValue("", v))
		if err != nil {
			e.failf("print %q: %w", s, err)
		}
		out = append(out, string(b))
	}
	return strings.ReplaceAll(strings.Join(out, " "), "\u00a0", " ")
}

// maskValue masks what differs between two runs of the same server: ids, terms, the remains of a lease.
func (e *env) maskValue(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, member := range v { // any order: each is masked alone
			v[k] = e.maskValue(k, member)
		}
		return v
	case []any:
		if name == "leases" { // those of earlier cases are not over yet, and their ids are random
			v = slices.DeleteFunc(v, func(l any) bool {
				m, ok := l.(map[string]any)
				id, _ := m["ID"].(string)
				return ok && id != "4711"
			})
		}
		for i := range v {
			v[i] = e.maskValue(name, v[i])
		}
		return v
	case string:
		switch name {
		case "cluster_id", "member_id", "raft_term", "TTL", "targetID":
			return "<" + name + ">"
		case "revision", "create_revision", "mod_revision", "compact_revision", "start_revision", "rev":
			if n, err := strconv.ParseInt(v, 10, 64); err == nil && n > 1 {
				return fmt.Sprintf("%+d", n-e.base)
			}
		}
	}
	return v
}
