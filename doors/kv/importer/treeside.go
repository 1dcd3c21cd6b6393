package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// treeSide is the v2 API of one cluster. Safe for concurrent use.
type treeSide struct {
	*side
	bases          []string // scheme://host:port
	user, password string   // for HTTP Basic; "" without
	http           *http.Client
	next           atomic.Uint32 // which of bases is asked; moves on when one does not answer
}

func newTreeSide(s *side, e Endpoint) *treeSide {
	t := &treeSide{side: s, user: e.User, password: e.Password,
		http: &http.Client{Transport: &http.Transport{TLSClientConfig: e.TLS, MaxIdleConnsPerHost: treeWriters + 8}}}
	scheme := "http://"
	if e.TLS != nil {
		scheme = "https://"
	}
	for _, a := range e.Addresses {
		if !strings.Contains(a, "://") {
			a = scheme + a
		}
		t.bases = append(t.bases, strings.TrimSuffix(a, "/"))
	}
	return t
}

func (t *treeSide) close() { t.http.CloseIdleConnections() }

// treeNode is a key or a directory as the API shows it.
type treeNode struct {
	Key   string     `json:"key"`
	Value string     `json:"value"`
	Dir   bool       `json:"dir"`
	TTL   int64      `json:"ttl"` // seconds left, rounded up; after mortal, 0 = no TTL
	Index uint64     `json:"modifiedIndex"`
	Nodes []treeNode `json:"nodes"`

	Expiration string `json:"expiration"` // set for a node with a TTL
}

// mortal gives a node that has expired but is not removed yet the smallest TTL. The server shows 0 seconds for it, which would mean no TTL.
func (n treeNode) mortal() treeNode {
	if n.Expiration != "" {
		n.TTL = max(n.TTL, 1)
	}
	return n
}

// treeAnswer is the result of a request: an event, or a refusal with a code.
type treeAnswer struct {
	Action string   `json:"action"`
	Node   treeNode `json:"node"`

	Code    int    `json:"errorCode"`
	Message string `json:"message"`
	Cause   string `json:"cause"`

	status int
	index  uint64 // the tree's when it was answered
}

// The codes of refusals that the import acts on.
const (
	treeNotFound = 100
	treeNotFile  = 102
	treeCleared  = 401
)

var (
	// errNoTree: the side has no v2 API.
	errNoTree = errors.New("it does not offer the v2 API")
	// errListing: our own servers refuse listings they would have to buffer whole; their directories can be listed one by one.
	errListing = errors.New("the listing is too large")
)

// refusal is the answer as an error, nil if it is none.
func (a *treeAnswer) refusal() error {
	if a.Code == 0 {
		return nil
	}
	return fmt.Errorf("%s (%d): %s", a.Message, a.Code, a.Cause)
}

// request asks one member once. The body of a watch comes when there is an event: ctx ends it.
func (t *treeSide) request(ctx context.Context, method, key string, query url.Values) (*treeAnswer, error) {
	base := t.bases[int(t.next.Load())%len(t.bases)]
	u := base + (&url.URL{Path: "/v2/keys" + key}).EscapedPath()
	var body io.Reader
	if method == http.MethodPut {
		body = strings.NewReader(query.Encode()) // a URL is too short for values
	} else if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if t.user != "" {
		req.SetBasicAuth(t.user, t.password)
	}
	resp, err := t.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &treeAnswer{status: resp.StatusCode}
	a.index, _ = strconv.ParseUint(resp.Header.Get("X-Etcd-Index"), 10, 64) // 0: not told
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err // the head of a watch says how far it has looked
	}
	if len(b) == 0 && resp.StatusCode == http.StatusOK {
		return a, nil // a watch that the server ended
	}
	switch err := json.Unmarshal(b, a); {
	case resp.StatusCode == http.StatusNotFound && (err != nil || a.Code == 0):
		return nil, errNoTree
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("it wants a user with the role root: %s", strings.TrimSpace(string(b)))
	case err != nil || resp.StatusCode >= 300 && a.Code == 0:
		return nil, fmt.Errorf("status %d: %.200s", resp.StatusCode, b)
	}
	return a, nil
}

// ask is request, repeated as side.insist does; every request made here may be repeated. A refusal is an answer.
func (t *treeSide) ask(ctx context.Context, what, method, key string, query url.Values) (a *treeAnswer, err error) {
	began, wait := time.Now(), 50*time.Millisecond
	defer t.waiting.Store(false)
	for {
		attempt, cancel := context.WithTimeout(ctx, treePatience)
		a, err = t.request(attempt, method, key, query)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil && strings.Contains(a.Cause, "list the directories below it"):
			return nil, errListing
		case err == nil && a.status < 500:
			return a, nil
		case err == nil:
			err = a.refusal()
		case errors.Is(err, errNoTree), strings.Contains(err.Error(), "role root"):
			return nil, fmt.Errorf("%s at the %s: %w", what, t.name, err)
		}
		if time.Since(began) > outage {
			return nil, fmt.Errorf("%s at the %s: no answer for %s: %w", what, t.name, outage, err)
		}
		t.waiting.Store(time.Since(began) > time.Second)
		t.next.Add(1)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, 2*time.Second)
	}
}

// treePatience is for one request; a listing of everything may be long.
const treePatience = time.Minute

// list reads what is visible at and below root into all, by key, and returns the tree's index. A root that is not there is empty.
func (t *treeSide) list(ctx context.Context, root string, all map[string]treeNode) (index uint64, err error) {
	a, err := t.ask(ctx, "list "+root, http.MethodGet, root, url.Values{"recursive": {"true"}, "quorum": {"true"}})
	whole := !errors.Is(err, errListing)
	if !whole {
		a, err = t.ask(ctx, "list "+root, http.MethodGet, root, url.Values{"quorum": {"true"}})
	}
	switch {
	case err != nil:
		return 0, err
	case a.Code == treeNotFound:
		return a.index, nil
	case a.Code != 0:
		return 0, fmt.Errorf("list %s at the %s: %w", root, t.name, a.refusal())
	}
	var gather func(n *treeNode) error
	gather = func(n *treeNode) error {
		if n.Key != "" && n.Key != "/" {
			all[n.Key] = treeNode{Key: n.Key, Value: n.Value, Dir: n.Dir, TTL: n.mortal().TTL}
		}
		for i := range n.Nodes {
			below := &n.Nodes[i]
			if below.Dir && !whole {
				if _, err := t.list(ctx, below.Key, all); err != nil {
					return err
				}
			} else if err := gather(below); err != nil {
				return err
			}
		}
		return nil
	}
	return a.index, gather(&a.Node)
}

// top returns how many nodes the topmost directory shows.
func (t *treeSide) top(ctx context.Context) (int, error) {
	a, err := t.ask(ctx, "list /", http.MethodGet, "/", nil)
	if err != nil {
		return 0, err
	}
	return len(a.Node.Nodes), a.refusal()
}

// put sets a key's value, or makes a directory, with ttl seconds to live (0: for good).
func (t *treeSide) put(ctx context.Context, n treeNode) error {
	query := url.Values{"value": {n.Value}}
	if n.Dir {
		query = url.Values{"dir": {"true"}}
	}
	if n.TTL > 0 {
		query.Set("ttl", strconv.FormatInt(n.TTL, 10))
	}
	a, err := t.ask(ctx, "write "+n.Key, http.MethodPut, n.Key, query)
	if err == nil && a.Code == treeNotFile && n.Dir { // the directory exists, perhaps with another TTL
		return t.retime(ctx, n)
	}
	if err == nil {
		err = a.refusal()
	}
	return err
}

// retime gives a node another time to live. The value of a key stays, and its watchers see no event.
func (t *treeSide) retime(ctx context.Context, n treeNode) error {
	query := url.Values{"prevExist": {"true"}, "ttl": {""}}
	if n.TTL > 0 {
		query.Set("ttl", strconv.FormatInt(n.TTL, 10))
	}
	if n.Dir {
		query.Set("dir", "true")
	} else {
		query.Set("refresh", "true")
	}
	a, err := t.ask(ctx, "write "+n.Key, http.MethodPut, n.Key, query)
	if err == nil {
		err = a.refusal()
	}
	return err
}

// remove deletes a node and all below it, if it is there.
func (t *treeSide) remove(ctx context.Context, key string) error {
	a, err := t.ask(ctx, "delete "+key, http.MethodDelete, key, url.Values{"recursive": {"true"}, "dir": {"true"}})
	if err == nil && a.Code != treeNotFound {
		err = a.refusal()
	}
	return err
}
