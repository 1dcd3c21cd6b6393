package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

func kvs(key, value string) []*mvccpb.KeyValue {
	return []*mvccpb.KeyValue{{Key: []byte(key), Value: []byte(value)}}
}

// ask posts a body and returns status and answer, without the white space the library varies.
func ask(t *testing.T, g *Gateway, method, path, body, authorization string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	var out bytes.Buffer
	for line := range bytes.Lines(w.Body.Bytes()) {
		if json.Compact(&out, line) != nil {
			out.Write(line)
		}
	}
	return w.Code, out.String()
}

func TestJSONIsEtcds(t *testing.T) {
	g := start(t)
	for _, c := range []struct {
		method, path, body, authorization string
		code                              int
		want                              string
	}{
		// Numbers of 64 bits are strings, zero fields are left out, bytes are base64.
		{"POST", "/v3/kv/range", `{"key":"Zm9v","limit":"7"}`, "", 200, `{"kvs":[{"key":"Zm9v"}],"count":"7"}`},
		{"POST", "/v3/kv/range", `{"key":"Zm9v","limit":7,"unknown":true}`, "", 200, `{"kvs":[{"key":"Zm9v"}],"count":"7"}`},
		{"POST", "/v3beta/kv/range", `{"key":"Zm9v"}`, "", 200, `{"kvs":[{"key":"Zm9v"}]}`},
		{"POST", "/v3/kv/range", `{"key":"Zm9v"}`, "token", 200, `{"kvs":[{"key":"Zm9v","value":"dG9rZW4="}]}`},
		{"POST", "/v3/watch", `{"create_request":{"watch_id":"1"}} {"create_request":{"watch_id":"2"}}`, "", 200,
			`{"result":{"watch_id":"1","created":true}}{"result":{"watch_id":"2","created":true}}`},
		// Errors.
		{"POST", "/v3/kv/range", `{"key":"cmVmdXNlZA=="}`, "", 400, `{"code":3,"message":"etcdserver: refused"}`},
		{"POST", "/v3/kv/put", `{}`, "", 501, `{"code":12,"message":"method Put not implemented"}`},
		{"POST", "/v3/kv/nosuch", `{}`, "", 404, `{"code":5,"message":"Not Found"}`},
		{"GET", "/v3/kv/range", ``, "", 501, `{"code":12,"message":"Method Not Allowed"}`},
	} {
		if code, got := ask(t, g, c.method, c.path, c.body, c.authorization); code != c.code || got != c.want {
			t.Errorf("%s %s %s\ngot  %d %s\nwant %d %s", c.method, c.path, c.body, code, got, c.code, c.want)
		}
	}
	if code, _ := ask(t, g, http.MethodPost, "/v3/kv/range", `{"key":"!"}`, ""); code != 400 {
		t.Errorf("a key that is no base64 is answered %d", code)
	}
}
