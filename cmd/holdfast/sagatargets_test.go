package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestASagaDoesNotWriteKeys: a step may not lead to a port at which this server serves clients, its own or another door's. Only a port that
// an operator has named is allowed.
func TestASagaDoesNotWriteKeys(t *testing.T) {
	kv := freeAddr(t)
	_, port, _ := strings.Cut(kv, ":")
	for _, allowed := range []bool{false, true} {
		args := []string{"--kv", kv, "--saga-allow-targets", "127.0.0.0/8"}
		if allowed {
			args[3] += ",localhost:" + port
		}
		s := serveSaga(t, t.TempDir(), args...)
		put := "http://localhost:" + port + "/v2/keys/a?value=b&method=put"
		s.post("submit", "", `{"gid":"keys","trans_type":"saga","steps":[{"action":"`+put+`"}],"payloads":["{}"]}`)
		s.post("submit", "", `{"gid":"own","trans_type":"saga","steps":[{"action":"http://`+s.at+`/api/dtmsvr/submit"}],"payloads":["{}"]}`)
		const refused = "serves clients"
		for gid, called := range map[string]bool{"keys": allowed, "own": false} {
			wait.Until(t, gid+" was tried", func() bool {
				b := s.query(gid)
				tried := strings.Contains(b, `"last_error"`) || strings.Contains(b, `"status":"succeed"`) || strings.Contains(b, `"status":"failed"`)
				if tried && strings.Contains(b, refused) == called {
					t.Errorf("allowed %t: %s stands as %s", allowed, gid, b)
				}
				return tried
			})
		}
		s.stop()
	}
}

// query is what the door tells an operator of a transaction.
func (s *sagaRig) query(gid string) string {
	s.t.Helper()
	res, err := http.Get("http://" + s.at + "/api/holdfast/query?gid=" + gid)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}
