package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// v2Client is a client of one server's v2 API that is not the import's.
type v2Client struct {
	base     string
	client   *http.Client
	password string // root's, "" without authentication
}

func newV2Client(d *deployment, member int) v2Client {
	v := v2Client{base: d.urls()[member%len(d.Nodes)] + "/v2/keys", client: http.DefaultClient}
	if a := d.access; a != nil {
		v.client = &http.Client{Transport: &http.Transport{TLSClientConfig: a.client}}
		v.password = a.password
	}
	return v
}

var errV2 = errors.New("refused")

// do sends one request; errV2 wraps refusals, which some of the load provokes.
func (v v2Client) do(ctx context.Context, method, key string, form url.Values) ([]byte, error) {
	u := v.base + (&url.URL{Path: key}).EscapedPath()
	var body io.Reader
	if method == "PUT" || method == "POST" {
		body = strings.NewReader(form.Encode())
	} else {
		u += "?" + form.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if v.password != "" {
		req.SetBasicAuth("root", v.password)
	}
	resp, err := v.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %w: %d %s", method, key, errV2, resp.StatusCode, b)
	}
	return b, err
}

// fillV2 writes what the deployment holds in its v2 API before the move.
func fillV2(v v2Client) error {
	ctx := context.Background()
	for i := range 500 {
		if _, err := v.do(ctx, "PUT", fmt.Sprintf("/old/%d/%d", i%20, i), url.Values{"value": {strings.Repeat("v", i)}}); err != nil {
			return err
		}
	}
	for key, form := range map[string]url.Values{
		"/empty":          {"dir": {"true"}},
		"/ends":           {"value": {"x"}, "ttl": {"500"}},
		"/dir/ends":       {"dir": {"true"}, "ttl": {"600"}},
		"/dir/ends/below": {"value": {""}},
		"/_hidden/named":  {"value": {"secret"}},
		"/odd ?%/ü&":      {"value": {"a=b&c\n\"<>"}},
		"/large":          {"value": {strings.Repeat("z", 300<<10)}},
	} {
		if _, err := v.do(ctx, "PUT", key, form); err != nil && !strings.Contains(err.Error(), "102") { // below came before its directory
			return err
		}
	}
	return nil
}

// startV2 runs v2 clients until stop.
func (l *importLoad) startV2(clients []v2Client) {
	for i, v := range clients {
		l.each(time.Duration(7+i)*time.Millisecond, func(r *rand.Rand) error {
			_, err := v.do(l.ctx, "PUT", fmt.Sprintf("/hot/%d/%d", r.IntN(5), r.IntN(40)), url.Values{"value": {fmt.Sprint(r.Int())}})
			return err
		})
	}
	v := clients[0]
	l.each(11*time.Millisecond, func(r *rand.Rand) error { // compared and swapped, in order, hidden
		_, err := v.do(l.ctx, "PUT", "/swapped", url.Values{"value": {fmt.Sprint(r.Int())}})
		if err == nil {
			_, err = v.do(l.ctx, "PUT", "/swapped", url.Values{"value": {fmt.Sprint(r.Int())}, "prevExist": {"true"}})
		}
		if err == nil {
			_, err = v.do(l.ctx, "POST", "/queue", url.Values{"value": {fmt.Sprint(r.Int())}})
		}
		if err == nil {
			_, err = v.do(l.ctx, "PUT", fmt.Sprintf("/_hidden/%d", r.IntN(20)), url.Values{"value": {fmt.Sprint(r.Int())}})
		}
		return err
	})
	l.each(90*time.Millisecond, func(r *rand.Rand) error { // whole directories go, and keys come in their place
		key := fmt.Sprintf("/hot/%d", r.IntN(5))
		_, err := v.do(l.ctx, "DELETE", key, url.Values{"recursive": {"true"}})
		if err == nil && r.IntN(2) == 0 {
			if _, err = v.do(l.ctx, "PUT", key, url.Values{"value": {"a key now"}}); err == nil {
				_, err = v.do(l.ctx, "DELETE", key, nil)
			}
		}
		return err
	})
	l.each(60*time.Millisecond, func(r *rand.Rand) error { // keys that end while the import looks
		_, err := v.do(l.ctx, "PUT", fmt.Sprintf("/short/%d", r.IntN(50)), url.Values{"value": {"x"}, "ttl": {fmt.Sprint(1 + r.IntN(3))}})
		return err
	})
	l.each(400*time.Millisecond, func(*rand.Rand) error { // refreshed: no watch is told
		_, err := v.do(l.ctx, "PUT", "/ends", url.Values{"refresh": {"true"}, "ttl": {"500"}, "prevExist": {"true"}})
		return err
	})
}

// sameV2 compares what two servers hold by the v2 API.
func sameV2(source, target v2Client) error {
	of := func(v v2Client) wholeOf {
		return func(ctx context.Context) ([]string, error) { return v2Of(ctx, v) }
	}
	return same(of(source), of(target), 500)
}

// v2Of lists nodes with values, hidden ones of /_hidden too, and whether they end, to ten seconds.
func v2Of(ctx context.Context, v v2Client) ([]string, error) {
	type node struct {
		Key, Value string
		Dir        bool
		TTL        int64
		Nodes      []node
	}
	var out []string
	for _, root := range []string{"/", "/_hidden"} {
		b, err := v.do(ctx, "GET", root, url.Values{"recursive": {"true"}, "quorum": {"true"}})
		if err != nil {
			return nil, err
		}
		var answer struct{ Node node }
		if err := json.Unmarshal(b, &answer); err != nil {
			return nil, err
		}
		var walk func(n *node)
		walk = func(n *node) {
			line := fmt.Sprintf("%q = %q", n.Key, n.Value)
			if n.Dir {
				line = fmt.Sprintf("%q: a directory", n.Key)
			}
			if n.TTL > 0 {
				line += fmt.Sprintf(", ends in about %d s", (n.TTL+5)/10*10)
			}
			out = append(out, line)
			for i := range n.Nodes {
				walk(&n.Nodes[i])
			}
		}
		walk(&answer.Node)
	}
	slices.Sort(out)
	return out, nil
}
