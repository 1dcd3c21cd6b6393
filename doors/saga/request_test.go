package saga

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// TestClientsAreSloppy: what DTM's clients in other languages send is taken as they mean it.
func TestClientsAreSloppy(t *testing.T) {
	// The request that each of the following is another way to write.
	want, err := readRequest([]byte(`{"gid":"g","trans_type":"saga","protocol":"http","steps":[{"action":"http://a","compensate":"http://b"}],
		"payloads":["{\"amount\":30}"],"wait_result":true,"timeout_to_fail":35,"retry_limit":3}`))
	if err != nil {
		t.Fatal(err)
	}
	for who, doc := range map[string]string{
		"Python: null for what it has not": `{"gid":"g","trans_type":"saga","protocol":null,"steps":[{"action":"http://a","compensate":"http://b","data":null}],
			"payloads":["{\"amount\":30}"],"wait_result":true,"timeout_to_fail":35,"retry_limit":3,"custom_data":null,"branch_headers":null,
			"query_prepared":null,"rollback_reason":null,"request_timeout":null,"concurrent":null,"req_extra":null,"retry_interval":null}`,
		"Java: fields that nobody knows, one of them twice": `{"gid":"g","trans_type":"saga","subType":"x","subType":{"a":["}"]},"branchID":{"deep":[[[1,"]"]]]},"steps":
			[{"action":"http://a","compensate":"http://b"}],"payloads":["{\"amount\":30}"],"wait_result":true,"timeout_to_fail":35,"retry_limit":3,
			"status":"prepared","passthrough_headers":[],"dtm":"http://x","op":"","branch_id":"","retry_count":0}`,
		"PHP: a list where a map is due": `{"gid":"g","trans_type":"saga","branch_headers":[],"req_extra":[],"steps":[{"action":"http://a","compensate":"http://b"}],
			"payloads":["{\"amount\":30}"],"wait_result":true,"timeout_to_fail":35,"retry_limit":3,"custom_data":""}`,
		"numbers as texts":       `{"gid":"g","trans_type":"saga","steps":[{"action":"http://a","compensate":"http://b"}],"payloads":["{\"amount\":30}"],"wait_result":"true","timeout_to_fail":"35","retry_limit":"3","retry_interval":""}`,
		"numbers as truth":       `{"gid":"g","trans_type":"saga","steps":[{"action":"http://a","compensate":"http://b"}],"payloads":["{\"amount\":30}"],"wait_result":1,"timeout_to_fail":35.0,"retry_limit":3,"concurrent":0}`,
		"the last of two counts": `{"gid":"x","gid":"g","trans_type":"saga","steps":[],"steps":[{"action":"no","action":"http://a","compensate":"http://b"}],"payloads":["no"],"payloads":["{\"amount\":30}"],"wait_result":false,"wait_result":true,"timeout_to_fail":35,"retry_limit":3}`,
		"a payload as an object": `{"gid":"g","trans_type":"saga","steps":[{"action":"http://a","compensate":"http://b"}],"payloads":[{"amount":30}],"wait_result":true,"timeout_to_fail":35,"retry_limit":3}`,
		"older: a payload in its step": `{"gid":"g","trans_type":"saga","steps":[{"action":"http://a","compensate":"http://b","data":"{\"amount\":30}"}],
			"wait_result":true,"timeout_to_fail":35,"retry_limit":3}`,
		"blanks and escapes": " \n{ \"gid\" :\t\"\\u0067\" , \"trans_type\":\"saga\",\"steps\" : [ { \"action\" : \"http:\\/\\/a\" , \"compensate\":\"http://b\" } ] ,\"payloads\" : [ \"{\\u0022amount\\\":30}\" ], \"wait_result\" : true , \"timeout_to_fail\":3.5e1 , \"retry_limit\" : 3 } ",
	} {
		got, err := readRequest([]byte(doc))
		if err != nil {
			t.Errorf("%s: %v", who, err)
			continue
		}
		for i := range got.steps {
			got.steps[i].data = nil
		}
		if len(got.Headers) == 0 {
			got.Headers = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", who, got, want)
		}
	}
	if want.Options.TimeoutMs != 35_000 || string(want.payloads[0]) != `{"amount":30}` || want.steps[0].compensate != "http://b" {
		t.Errorf("and all of them wrong: %+v", want)
	}
}

// TestWhatIsNoRequest: what cannot be meant is refused with the name of the field.
func TestWhatIsNoRequest(t *testing.T) {
	for doc, says := range map[string]string{
		``:                              "unexpected end",
		`{"gid":"g"} {}`:                "after top-level value",
		`{"gid":"g",}`:                  "invalid character",
		`["gid"]`:                       "no object",
		`"gid"`:                         "no object",
		`{"timeout_to_fail":"soon"}`:    "timeout_to_fail: \"soon\" is no number",
		`{"timeout_to_fail":-1}`:        "no number of seconds",
		`{"timeout_to_fail":1e300}`:     "no number of seconds",
		`{"timeout_to_fail":"NaN"}`:     "is no number",
		`{"timeout_to_fail":{}}`:        "timeout_to_fail: {} is no number",
		`{"retry_limit":1.5}`:           "no whole number",
		`{"wait_result":"perhaps"}`:     "wait_result: \"perhaps\" is neither true nor false",
		`{"steps":"none"}`:              "steps: \"none\" is no list",
		`{"steps":[["a"]]}`:             "no object",
		`{"payloads":{"a":1}}`:          "no list",
		`{"branch_headers":["a"]}`:      "branch_headers: [\"a\"] is no object",
		`{"branch_headers":"a: b"}`:     "no object",
		"{\"gid\":\"\x01\"}":            "invalid character",
		`{"payloads":["\ud800"],"a":1x`: "invalid character",
	} {
		if r, err := readRequest([]byte(doc)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %+v, %v; want an error with %q", doc, r, err, says)
		}
	}
	for name, r := range map[string]*request{
		"a gid with a line break":    {Definition: sagapart.Definition{Gid: "a\nb"}, mode: "saga"},
		"a gid that is no text":      {Definition: sagapart.Definition{Gid: "a\xff"}, mode: "saga"},
		"a long gid":                 {Definition: sagapart.Definition{Gid: strings.Repeat("g", sagapart.MaxGidBytes+1)}, mode: "saga"},
		"a header that is two":       {Definition: sagapart.Definition{Gid: "g", Headers: []sagapart.Header{{Name: "a", Value: "b\r\nc: d"}}}, mode: "saga"},
		"a header without a name":    {Definition: sagapart.Definition{Gid: "g", Headers: []sagapart.Header{{Value: "b"}}}, mode: "saga"},
		"a header with a blank name": {Definition: sagapart.Definition{Gid: "g", Headers: []sagapart.Header{{Name: "a b"}}}, mode: "saga"},
		"many headers":               {Definition: sagapart.Definition{Gid: "g", Headers: make([]sagapart.Header, sagapart.MaxHeaders+1)}, mode: "saga"},
		"a long callback":            {Definition: sagapart.Definition{Gid: "g", QueryPrepared: strings.Repeat("q", sagapart.MaxURLBytes+1)}, mode: "msg"},
		"a long custom_data":         {Definition: sagapart.Definition{Gid: "g", CustomData: strings.Repeat("c", sagapart.MaxCustomBytes+1)}, mode: "saga"},
		"a long result":              {Definition: sagapart.Definition{Gid: "g"}, mode: "workflow", outcome: strings.Repeat("r", sagapart.MaxResultBytes+1)},
	} {
		if err := r.check(); err == nil {
			t.Errorf("%s is let through", name)
		}
	}
	if err := (&request{Definition: sagapart.Definition{Gid: "g", Headers: []sagapart.Header{{Name: "X-a.b_1", Value: "ä 1"}}}, mode: "xa"}).check(); err != nil {
		t.Error(err)
	}
}

// TestCustomDataIsWhatTheWorkerReads: the client's meaning is in the log as DTM's clients in Go write it; data that the worker could not
// run is refused.
func TestCustomDataIsWhatTheWorkerReads(t *testing.T) {
	for _, c := range []struct {
		mode, custom, want string
		delayMs            int64
		says               string
	}{
		{mode: "saga", custom: `{"concurrent":true,"orders":{"2":[0,1]}}`, want: `{"concurrent":true,"orders":{"2":[0,1]}}`},
		{mode: "saga", custom: ` {"Concurrent" : true, "other":"kept"} `, want: ` {"Concurrent" : true, "other":"kept"} `},
		{mode: "saga", custom: `{"concurrent":1,"orders":{"2":["0",1]}}`, want: `{"orders":{"2":[0,1]},"concurrent":true}`},
		{mode: "saga", custom: `{"orders":[],"delay":"1.5"}`, want: `{"delay":1.5}`, delayMs: 1500},
		{mode: "saga", custom: `{"delay":2,"orders":null}`, want: `{"delay":2,"orders":null}`, delayMs: 2000},
		{mode: "msg", custom: `[]`, want: ``},
		{mode: "msg", custom: `null`, want: ``},
		{mode: "msg", custom: `{"delay":"10","orders":{"a":"b"}}`, want: `{"delay":10}`, delayMs: 10_000},
		{mode: "workflow", custom: `{"name":"n","data":"e30="}`, want: `{"name":"n","data":"e30="}`},
		{mode: "workflow", custom: `[]`, want: ``},
		{mode: "tcc", custom: `anything`, want: `anything`},
		{mode: "workflow", custom: `{"name":"n","data":"?"}`, says: "base64"},
		{mode: "msg", custom: `{"delay":"soon"}`, says: "is no number"},
		{mode: "msg", custom: `"delay"`, says: "no object"},
		{mode: "saga", custom: `{"orders":{"3":[0]}}`, says: "step 3 of 3"},
		{mode: "saga", custom: `{"orders":{"x":[0]}}`, says: "no number"},
		{mode: "saga", custom: `{"orders":{"2":[null]}}`, says: "null is no step"},
		{mode: "saga", custom: `{"orders":{"1":[1]},"concurrent":true}`, says: "step 1 and step 1"},
		{mode: "saga", custom: `{"orders":{"0":[1],"1":[2],"2":[0]},"concurrent":true}`, says: "wait for each other"},
		{mode: "saga", custom: `{"orders":{"0":[2]},"concurrent":true}`, want: `{"orders":{"0":[2]},"concurrent":true}`},
		{mode: "saga", custom: `{"orders":{"0":[2]}}`, says: "step 0 and step 2 wait for each other"},
	} {
		r := &request{Definition: sagapart.Definition{Gid: "g", Mode: sagapart.ParseMode(c.mode), CustomData: c.custom}, steps: make([]step, 3)}
		got, err := r.custom()
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s %s: %v, want an error with %q", c.mode, c.custom, err, c.says)
			}
		case err != nil || r.CustomData != c.want || got.delayMs != c.delayMs:
			t.Errorf("%s %s: %s, %+v, %v", c.mode, c.custom, r.CustomData, got, err)
		}
	}
}

// FuzzRequest: no bytes stop the reader; what is JSON of the right kinds is read as encoding/json reads it.
func FuzzRequest(f *testing.F) {
	for _, doc := range []string{`{"gid":"g","trans_type":"saga","steps":[{"action":"a","compensate":"b"}],"payloads":["\u00e4\n"],"branch_headers":{"a":"b","a":"c"}}`,
		`{"gid":null,"payloads":[null,1,true,{"a":[]}],"custom_data":{"a":"]}"}}`, `[]`, `null`, `{"a":"\\\"","gid":"x"}`, `{"retry_limit":"1e2"}`, `{}`, ` { } `,
		`{"kv":{"compare":[{"key":"YQ==","target":"VALUE","result":"EQUAL"}],"success":[{"request_put":{"key":"YQ=="}}]}}`} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		r, err := readRequest(doc)
		_, _ = readRegistration(doc)
		if err != nil {
			return
		}
		_ = r.check()
		if _, err := r.custom(); err == nil {
			_, _ = r.kv.txn()
		}
		var plain struct {
			Gid      string   `json:"gid"`
			Payloads []string `json:"payloads"`
			Steps    []map[string]string
			Headers  map[string]string `json:"branch_headers"`
			Limit    int64             `json:"retry_limit"`
			Wait     bool              `json:"wait_result"`
		}
		if strings.Contains(strings.ToLower(string(doc)), `\u`) || strings.Count(strings.ToLower(string(doc)), `"gid"`) > 1 || json.Unmarshal(doc, &plain) != nil {
			return // it is more than DTM would take, or names that only encoding/json takes for these
		}
		var exact map[string]json.RawMessage
		if json.Unmarshal(doc, &exact) != nil {
			return
		}
		if _, ok := exact["gid"]; ok && r.Gid != plain.Gid {
			t.Errorf("%s: gid %q and %q", doc, r.Gid, plain.Gid)
		}
		if list, ok := exact["payloads"]; ok && len(r.steps) == 0 {
			var own []string
			if json.Unmarshal(list, &own) == nil && len(own) != len(r.payloads) {
				t.Errorf("%s: payloads %q and %q", doc, r.payloads, own)
			}
		}
	})
}

// FuzzMessages: no bytes stop the readers of DTM's gRPC messages.
func FuzzMessages(f *testing.F) {
	f.Add([]byte("\x0a\x01g\x12\x04saga\x1a\x02\x08\x01"))
	f.Add([]byte("\x3a\x10[{\"action\":\"a\"}]"))
	f.Add([]byte("\x42\x0a\x0a\x06status\x12\x00"))
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []decoder{new(dtmRequest), new(dtmBranch), new(dtmTopic), new(nothing)} {
			if m.decode(b) != nil {
				continue
			}
			if r, ok := m.(*dtmRequest); ok {
				_ = r.check()
				_, _ = r.custom()
			}
		}
	})
}

// BenchmarkReadRequest reads the submit of two steps that DTM's clients send.
func BenchmarkReadRequest(b *testing.B) {
	doc := []byte(`{"gid":"bench-123456","trans_type":"saga","wait_result":true,"concurrent":false,"steps":[{"action":"http://127.0.0.1:8083/api/busi_bench/TransOut","compensate":` +
		`"http://127.0.0.1:8083/api/busi_bench/TransOutCom"},{"action":"http://127.0.0.1:8083/api/busi_bench/TransIn","compensate":"http://127.0.0.1:8083/api/busi_bench/TransInCom"}],` +
		`"payloads":["{\"uid\":123456}","{\"uid\":76545}"],"protocol":""}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readRequest(doc); err != nil {
			b.Fatal(err)
		}
	}
}
