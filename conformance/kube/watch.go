package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// watch follows one kind from before the first object was created, over as many connections as it takes. Each starts from the revision
// after the last event seen.
type watch struct {
	api    *apiServer
	kind   string
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	added    map[string]meta // guarded by mu, as the rest
	last     string          // revision of the last event
	repeated int
	opened   int
	wrong    error
}

// beginWatch starts one at the newest revision.
func beginWatch(ctx context.Context, api *apiServer, kind string) (*watch, error) {
	var list object
	if _, err := api.do(ctx, http.MethodGet, path(kind)+"?limit=1", nil, &list); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{api: api, kind: kind, cancel: cancel, done: make(chan struct{}), added: map[string]meta{}, last: list.Meta.Revision}
	go func() {
		defer close(w.done)
		for ctx.Err() == nil && w.wrong == nil {
			w.follow(ctx)
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return w, nil
}

// follow is one connection. It ends with the stream, or for good with an event that must not come. That is an object changed or deleted, or
// a revision too old, which would mean that events are lost.
func (w *watch) follow(ctx context.Context) {
	res, err := w.api.open(ctx, http.MethodGet, path(w.kind)+"?watch=true&resourceVersion="+w.last, nil)
	if err != nil {
		return
	}
	defer res.Body.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests:
		return
	case res.StatusCode != http.StatusOK:
		w.wrong = fmt.Errorf("watch from revision %s: %s", w.last, res.Status)
		return
	}
	w.opened++
	for in := json.NewDecoder(bufio.NewReader(res.Body)); ; {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		var o object
		w.mu.Unlock()
		err := in.Decode(&event)
		w.mu.Lock()
		if err != nil {
			return
		}
		if event.Type != "ADDED" {
			w.wrong = fmt.Errorf("event %s after revision %s: %.200s", event.Type, w.last, event.Object)
			return
		}
		if w.wrong = json.Unmarshal(event.Object, &o); w.wrong != nil {
			return
		}
		if _, there := w.added[o.Meta.Name]; there {
			w.repeated++
		}
		w.added[o.Meta.Name], w.last = o.Meta, o.Meta.Revision
	}
}

// finish gives the last events half a minute to arrive and compares.
func (w *watch) finish(want map[string]meta) (string, error) {
	for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(20 * time.Millisecond) {
		w.mu.Lock()
		enough := len(w.added) >= len(want) || w.wrong != nil
		w.mu.Unlock()
		if enough {
			break
		}
	}
	time.Sleep(500 * time.Millisecond) // for events that come twice
	w.cancel()
	<-w.done
	events := len(w.added)
	missed, other := compare(want, w.added)
	note := fmt.Sprintf("%d events over %d connections, %d missed, %d repeated, %d of nothing created", events+w.repeated, w.opened, missed, w.repeated, other)
	if w.wrong != nil || missed+other+w.repeated > 0 || len(want) == 0 {
		return "", fmt.Errorf("%s; %v", note, w.wrong)
	}
	return note, nil
}
