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

// customs are custom objects: one of each kind, which is written again and again, and a watch of each kind.
type customs struct {
	api     *apiServer
	kinds   int
	written int

	mu    sync.Mutex
	heard []int64 // of each kind, the number in the object; guarded by mu
	wrong error   // the first; guarded by mu
	ended int     // watches that have ended; guarded by mu
}

const group = "crowd.example.com"

// custom is where the objects of the i-th kind are.
func custom(i int) string {
	return fmt.Sprintf("/apis/%s/v1/namespaces/%s/kind%03ds", group, namespace, i)
}

// define creates so many definitions, and returns when the API server serves each.
func (c *customs) define(ctx context.Context, n int) error {
	c.kinds, c.heard = n, make([]int64, n)
	type object = map[string]any
	for i := range n {
		name := fmt.Sprintf("kind%03d", i)
		schema := object{"type": "object", "properties": object{"spec": object{"type": "object", "properties": object{"n": object{"type": "integer"}}}}}
		in := object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": name + "s." + group},
			"spec": object{"group": group, "scope": "Namespaced", "names": object{"plural": name + "s", "singular": name, "kind": "Kind" + name[4:]},
				"versions": []object{{"name": "v1", "served": true, "storage": true, "schema": object{"openAPIV3Schema": schema}}}}}
		if _, err := c.api.do(ctx, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", in, nil); err != nil {
			return err
		}
	}
	for i := range n {
		for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			_, err := c.api.do(ctx, http.MethodGet, custom(i), nil, nil)
			if err == nil {
				break
			}
			if ctx.Err() != nil || time.Since(began) > 3*time.Minute {
				return fmt.Errorf("kind %d is not served: %w", i, err)
			}
		}
	}
	return nil
}

// watch begins a watch of each kind. It ends with ctx.
func (c *customs) watch(ctx context.Context) error {
	for i := range c.kinds {
		in := map[string]any{"apiVersion": group + "/v1", "kind": fmt.Sprintf("Kind%03d", i), "metadata": map[string]any{"name": "one"}, "spec": map[string]any{"n": 0}}
		var made object
		if _, err := c.api.do(ctx, http.MethodPost, custom(i), in, &made); err != nil {
			return err
		}
		res, err := c.api.open(ctx, http.MethodGet, custom(i)+"?watch=true&timeoutSeconds=3600&resourceVersion="+made.Meta.Revision, nil)
		if err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			res.Body.Close()
			return fmt.Errorf("watch of kind %d: %s", i, res.Status)
		}
		go func() {
			defer res.Body.Close()
			c.follow(i, json.NewDecoder(bufio.NewReader(res.Body)))
		}()
	}
	return nil
}

// follow reads the events of one watch. Each is the next number.
func (c *customs) follow(i int, in *json.Decoder) {
	for {
		var event struct {
			Type   string `json:"type"`
			Object struct {
				Spec struct {
					N int64 `json:"n"`
				} `json:"spec"`
			} `json:"object"`
		}
		err := in.Decode(&event)
		c.mu.Lock()
		n := event.Object.Spec.N
		switch {
		case err != nil:
			c.ended++
			err = fmt.Errorf("the watch of kind %d has ended: %w", i, err)
		case event.Type != "MODIFIED" || n != c.heard[i]+1:
			err = fmt.Errorf("kind %d: %s of %d after %d", i, event.Type, n, c.heard[i])
		default:
			c.heard[i] = n
		}
		if err != nil && c.wrong == nil {
			c.wrong = err
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// write writes the objects by turns, ten a second, until end.
func (c *customs) write(ctx context.Context, end time.Time) error {
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for time.Now().Before(end) {
		i, n := c.written%c.kinds, c.written/c.kinds+1
		in := []map[string]any{{"op": "replace", "path": "/spec/n", "value": n}}
		if err := c.api.patch(ctx, custom(i)+"/one", in); err != nil {
			return err
		}
		c.written++
		<-every.C
	}
	return nil
}

// finish waits until everything written was heard of.
func (c *customs) finish() (string, error) {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c.mu.Lock()
		heard, wrong, ended := int64(0), c.wrong, c.ended
		for _, n := range c.heard {
			heard += n
		}
		c.mu.Unlock()
		switch {
		case wrong != nil:
			return "", fmt.Errorf("%d of %d events, %d watches ended: %w", heard, c.written, ended, wrong)
		case heard == int64(c.written):
			return fmt.Sprintf("%d watches have told of each of %d writes once, in order, and none has ended", c.kinds, c.written), nil
		case time.Since(began) > 30*time.Second:
			return "", fmt.Errorf("%d of %d events", heard, c.written)
		}
	}
}
