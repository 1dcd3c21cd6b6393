package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestEachStepOfAWriteIsCountedForEveryProtocol: for a write by any protocol, decode and reply go up by one. Each step between them goes up
// by one at least: workers propose commands too.
func TestEachStepOfAWriteIsCountedForEveryProtocol(t *testing.T) {
	s := serveTlog(t, t.TempDir(), "--tlog-origin", "log.example/2026")
	client := s.client(t, nil)
	send := func(method, url, body string) {
		t.Helper()
		req, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := http.DefaultClient.Do(req)
		if code, body := s.read(res, err); code/100 != 2 {
			t.Fatalf("%s: %d %s", url, code, body)
		}
	}
	s.checkpoint("/checkpoint", vkeyOf(t, says(t, "tlog", "vkey", "--data", s.data)), 0)
	for name, write := range map[string]func(){
		"v3": func() {
			if _, err := client.Put(timely(t), "k", "v"); err != nil {
				t.Fatal(err)
			}
		},
		"gateway": func() { send("POST", "http://"+s.kvAddr+"/v3/kv/put", `{"key":"aw==","value":"dg=="}`) },
		"v2":      func() { send("PUT", "http://"+s.kvAddr+"/v2/keys/k", "value=v") },
		"tlog":    func() { send("POST", s.url+"/add", "entry") },
	} {
		write()                            // a connection of its own, and what the first one makes
		time.Sleep(200 * time.Millisecond) // more than a checkpoint takes
		before := counted(s.Host().Steps)
		write()
		after := counted(s.Host().Steps)
		// A step is counted when it is over: the reply when the answer is on its way, apply when the waiting callers have been woken.
		missing := func() bool {
			for _, step := range []string{"propose", "append", "sync", "commit", "apply", "reply"} {
				if after[step] == before[step] {
					return true
				}
			}
			return false
		}
		for deadline := time.Now().Add(wait.Limit(t)); missing() && time.Now().Before(deadline); after = counted(s.Host().Steps) {
			time.Sleep(time.Millisecond)
		}
		for _, step := range []string{"decode", "reply"} {
			if n := after[step] - before[step]; n != 1 {
				t.Errorf("%s: %s went up by %d for one write", name, step, n)
			}
		}
		for _, step := range []string{"propose", "append", "sync", "commit", "apply"} {
			if after[step] == before[step] {
				t.Errorf("%s: %s was not counted", name, step)
			}
		}
	}
}

func counted(steps *meter.Steps) map[string]uint64 {
	all := map[string]uint64{}
	steps.Each(func(name string, s *meter.Step) { all[name] = s.Total.Load() })
	return all
}
