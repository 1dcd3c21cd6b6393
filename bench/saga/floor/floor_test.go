package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestASagaIsDurableBeforeItsFirstCallAndAfterItsLast: or the floor would be lower than any coordinator.
func TestASagaIsDurableBeforeItsFirstCallAndAfterItsLast(t *testing.T) {
	name := filepath.Join(t.TempDir(), "floor.log")
	l, err := openLog(name)
	if err != nil {
		t.Fatal(err)
	}
	written := func() []byte {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		return bytes.TrimRight(b[:4096], "\x00")
	}
	var mu sync.Mutex
	var seen []string
	branches := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.URL.String())
		if b := written(); !bytes.Contains(b, []byte(`"steps"`)) || bytes.HasSuffix(b, []byte("g-1")) {
			t.Errorf("at a call the log has %q", b)
		}
		if strings.HasPrefix(r.URL.Path, "/no") {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	defer branches.Close()
	c := &coordinator{log: l}
	body := `{"gid":"g-1","steps":[{"action":"URL/a?uid=7"},{"action":""},{"action":"URL/b"}],"payloads":["{}","{}","{}"]}`
	if err := c.submit([]byte(strings.ReplaceAll(body, "URL", branches.URL))); err != nil {
		t.Fatal(err)
	}
	want := "/a?uid=7&gid=g-1&trans_type=saga&branch_id=01&op=action /b?gid=g-1&trans_type=saga&branch_id=03&op=action"
	if got := strings.Join(seen, " "); got != want {
		t.Errorf("called %s\nwant %s", got, want)
	}
	if b := written(); !bytes.HasSuffix(b, []byte("g-1")) {
		t.Errorf("at the end the log has %q", b)
	}
	if err := c.submit([]byte(strings.ReplaceAll(body, "URL/b", branches.URL+"/no"))); err == nil {
		t.Error("a branch that refuses is a success")
	}
	for _, bad := range []string{"", "{}x", `{"gid":"g","steps":[{"action":"x"}]}`} {
		if err := c.submit([]byte(bad)); err == nil {
			t.Errorf("%q is a saga", bad)
		}
	}
}
