package outcall

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestWhatAnAnswerOverJSONRPCMeans(t *testing.T) {
	n := newNet(t, Options{Timeout: time.Minute})
	for _, c := range []struct {
		name    string
		status  int
		body    string
		outcome Outcome
		message string
	}{
		{"a result", 200, `{"jsonrpc":"2.0","id":"1","result":{"dtm_result":"SUCCESS"}}`, OK, "SUCCESS"},
		{"nothing but an object", 200, `{}`, OK, ""},
		{"no error", 200, `{"error":null,"result":1}`, OK, ""},
		{"an error that is a failure", 200, `{"error":{"code":-32901,"message":"out of stock"}}`, Failure, "out of stock"},
		{"an error that is ongoing", 200, `{"error":{"code":-32902,"message":"in a minute"}}`, Ongoing, "in a minute"},
		{"another error", 200, `{"error":{"code":-32603,"message":"no database"}}`, Transient, "no database"},
		{"an error in another form", 200, `{"error":"no database"}`, Transient, "no database"},
		{"an error without a code", 200, `{"error":{"message":"no database"}}`, Transient, "no database"},
		{"a code that is no number", 200, `{"error":{"code":"-32901"}}`, Transient, "-32901"},
		{"the word in an error", 200, `{"error":{"code":-32603,"message":"FAILURE"}}`, Failure, "FAILURE"},
		{"a conflict", 409, ``, Failure, ""},
		{"too early", 425, ``, Ongoing, ""},
		{"a server error", 500, `{}`, Transient, "answered 500"},
		{"no JSON", 200, `SUCCESS`, Transient, "no JSON object"},
		{"no object", 200, `[]`, Transient, "no JSON object"},
		{"nothing", 200, ``, Transient, "no JSON object"},
		{"null", 200, `null`, Transient, "no JSON object"},
		{"as long as it may be", 200, `{"result":"` + strings.Repeat("x", maxBody-20) + `"}`, OK, ""},
		{"longer than what is kept", 200, `{"result":"` + strings.Repeat("x", maxBody) + `"}`, OK, "xxx"},
		{"longer, with a failure", 200, `{"result":{"error":"\"` + strings.Repeat("x", maxBody) + `"},"error":{"code":-32901,"message":"no money"}}`, Failure, "xxx"},
		{"longer, with an error in front", 200, `{"error":{"code":-32902},"result":"` + strings.Repeat(`\"{`, maxBody) + `"}`, Ongoing, "-32902"},
		{"longer, with another error", 200, `{"error":{"code":1},"result":"` + strings.Repeat("x", 3<<20) + `"}`, Transient, "with an error"},
		{"longer, without an error", 200, `{"error":null,"result":["error", "` + strings.Repeat("x", maxBody) + `"]}`, OK, "xxx"},
		{"longer and no object", 200, `["` + strings.Repeat("x", maxBody) + `"]`, Transient, "no JSON object"},
		{"longer and cut off", 200, `{"result":"` + strings.Repeat("x", maxBody), Transient, "no JSON object"},
		{"longer, with an error that is too long", 200, `{"error":"` + strings.Repeat("x", maxBody) + `"}`, Transient, "with an error of more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			})
			want(t, do(t, n, &Request{URL: s.URL + "/rpc?method=pay", Protocol: JSONRPC}), c.outcome, c.message)
		})
	}
}

func TestACallOverJSONRPCSaysWhatItIsOf(t *testing.T) {
	seen, base := recorder(t)
	n := newNet(t, Options{})
	r := Request{URL: base + "/rpc?method=pay&x=1", Protocol: JSONRPC, Gid: "g1", Mode: "saga", BranchID: "01", Op: "action",
		Payload: []byte(`{"amount":12345678901234567890,"gid":"mine","nested":{"a":[1]}}`), Headers: []Header{{"X-Trace", "7"}}}
	do(t, n, &r)
	if seen.method != "POST" || seen.uri != "/rpc?method=pay&x=1" || seen.header.Get("Content-Type") != "application/json" || seen.header.Get("X-Trace") != "7" {
		t.Errorf("%+v", seen)
	}
	var got struct {
		ID, JSONRPC, Method string
		Params              map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(seen.body), &got); err != nil {
		t.Fatal(err)
	}
	if got.ID == "" || got.JSONRPC != "2.0" || got.Method != "pay" {
		t.Errorf("%s", seen.body)
	}
	for name, value := range map[string]string{"gid": `"g1"`, "trans_type": `"saga"`, "branch_id": `"01"`, "op": `"action"`,
		"amount": "12345678901234567890", "nested": `{"a":[1]}`} {
		if string(got.Params[name]) != value {
			t.Errorf("%s is %s, want %s", name, got.Params[name], value)
		}
	}
	first := got.ID
	do(t, n, &r)
	if json.Unmarshal([]byte(seen.body), &got); got.ID == first {
		t.Error("two calls have one id")
	}
	for _, payload := range []string{"", "null", "{}"} {
		r.Payload = []byte(payload)
		do(t, n, &r)
		if !strings.Contains(seen.body, `"params":{"branch_id":"01","gid":"g1"`) {
			t.Errorf("with the payload %q: %s", payload, seen.body)
		}
	}
	for _, payload := range []string{"[1]", "1", `"x"`, "{", "{}{}"} {
		r.Payload = []byte(payload)
		want(t, do(t, n, &r), Refused, "JSON object")
	}
	// Without the word in its URL it is a plain call.
	r.URL, r.Payload = base+"/pay", nil
	want(t, do(t, n, &r), OK, "")
	if seen.method != "GET" || !strings.Contains(seen.uri, "gid=g1") {
		t.Errorf("%+v", seen)
	}
}

// FuzzTheErrorOfALongAnswer: what is found of an answer as it comes in pieces is what a parser finds of the whole.
func FuzzTheErrorOfALongAnswer(f *testing.F) {
	for _, s := range []string{`{"result":{"error":1},"error":{"code":-32901}}`, `{"error":null}`, ` { "a" : [1,{"error":2}] , "error" : {"code":-32902,"message":"}"} } `, `{}`, `[]`, `{"error":"a"`,
		`{"error":{"code":1},"error":null}`, `{"a":"\"error\":1"}`} {
		f.Add([]byte(s), uint16(7))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		var whole map[string]json.RawMessage
		if json.Unmarshal(b, &whole) != nil || whole == nil || len(b) > maxSaid {
			return // what is no object may be taken for one: it is not kept, and so not parsed
		}
		for name := range whole {
			if strings.EqualFold(name, "error") && !bytes.Contains(b, []byte(`"`+name+`"`)) {
				return // a name in other letters than it means
			}
		}
		var e rpcError
		at := min(int(cut), len(b))
		e.scan(b[:at])
		e.scan(b[at:])
		got, want := e.judge("", "answered"), judgeJSONRPC(b, "answered")
		if got.outcome != want.outcome {
			t.Errorf("%q is %v as it comes and %v as a whole", b, got.outcome, want.outcome)
		}
	})
}
