package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestImportFromADTM: topics are copied and compared, and what is open is waited for.
func TestImportFromADTM(t *testing.T) {
	t.Parallel()
	s := serveSaga(t, t.TempDir())
	var looks atomic.Int32
	var never atomic.Bool
	dtm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/dtmsvr/scanKV":
			row := map[string]any{"cat": "topics", "k": "orders", "v": `[{"url":"http://a/x","remark":"first"},{"url":"http://b/y","remark":""}]`, "version": 1}
			json.NewEncoder(w).Encode(map[string]any{"kv": []any{row}, "next_position": ""})
		case "/api/dtmsvr/all":
			var all []any
			if r.URL.Query().Get("status") == "submitted" && (never.Load() || looks.Add(1) < 3) {
				all = append(all, map[string]any{"gid": "slow-1", "trans_type": "saga", "status": "submitted"})
			}
			json.NewEncoder(w).Encode(map[string]any{"transactions": all, "next_position": ""})
		default:
			http.NotFound(w, r)
		}
	}))
	defer dtm.Close()
	for range 2 { // the second time there is nothing to copy
		out := says(t, "import", "--dtm", dtm.URL, "--saga", s.at)
		if !strings.Contains(out, "the same on both sides: 2 subscriptions") || !strings.Contains(out, "no open transaction") || !strings.Contains(out, "not copied") {
			t.Errorf("it says:\n%s", out)
		}
	}
	if looks.Load() < 3 {
		t.Error("what is open was not waited for")
	}
	res, err := http.Get("http://" + s.at + "/api/dtmsvr/queryKV?cat=topics&key=orders")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var kv struct{ KV []struct{ V string } }
	if err := json.NewDecoder(res.Body).Decode(&kv); err != nil || len(kv.KV) != 1 || !strings.Contains(kv.KV[0].V, "http://b/y") || !strings.Contains(kv.KV[0].V, "first") {
		t.Errorf("%+v, %v", kv, err)
	}
	never.Store(true)
	refuses(t, "1 transactions are still open", "import", "--dtm", dtm.URL, "--saga", s.at, "--wait", "10ms")
	refuses(t, "is that the HTTP address of a DTM", "import", "--dtm", "http://"+freeAddr(t), "--saga", s.at)
}
