package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// TestStatusSaysTheLevel: operators see the cluster's level, and who is in the way of the next one; asking for it raises it.
func TestStatusSaysTheLevel(t *testing.T) {
	f := three()
	f.status.Level, f.status.KnownLevel = 1, 2
	raised := false
	url, _ := serve(t, Options{}, f)
	f.handlers["level.waits"] = func(context.Context, []byte) ([]byte, error) { return []byte("n2 holds it"), nil }
	f.handlers["level.raise"] = func(context.Context, []byte) ([]byte, error) {
		if raised {
			return nil, errors.New("the cluster is at level 2, the highest that this build knows")
		}
		raised, f.status.Level = true, 2
		return nil, nil
	}
	_, body := do(t, "GET", url+"/v1/status", "")
	for _, want := range []string{`"level": 1`, `"known_level": 2`, `"level_note": "n2 holds it"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	if code, body := do(t, "POST", url+"/v1/level", ""); code != http.StatusOK || !strings.Contains(body, `"level": 2`) {
		t.Errorf("raise: %d %s", code, body)
	}
	if code, body := do(t, "POST", url+"/v1/level", ""); code != http.StatusConflict || !strings.Contains(body, "the highest that this build knows") {
		t.Errorf("raise again: %d %s", code, body)
	}
	if _, body := do(t, "GET", url+"/v1/status", ""); !strings.Contains(body, `"level": 2`) || strings.Contains(body, "level_note") {
		t.Errorf("at the highest level: %s", body)
	}
}
