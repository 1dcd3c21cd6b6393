package saga

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
	"google.golang.org/protobuf/encoding/protowire"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/spent"
	"github.com/holdfastdb/holdfast/serve/ack"
)

// many is a text n times, with a number in the place of each %d.
func many(n int, between, s string) string {
	var b strings.Builder
	numbered := strings.Contains(s, "%d")
	for i := range n {
		if i > 0 {
			b.WriteString(between)
		}
		if numbered {
			fmt.Fprintf(&b, s, i)
		} else {
			b.WriteString(s)
		}
	}
	return b.String()
}

// quoted is a text as JSON.
func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// costly are requests in JSON of which a client may send each, made to cost as much as one of its size can.
func costly() map[string]string {
	const all = 1 << 19 // what is linear is so to the end
	orders := func(steps int, list string, lists int) string {
		return quoted(`{"concurrent":true,"orders":{` + many(lists, ",", `"%d":[`+list+`]`) + `}}`)
	}
	steps := many(500, ",", `{}`)
	payloads := many(500, ",", `""`)
	return map[string]string{
		"millions of steps":                `{"gid":"g","trans_type":"saga","steps":[` + many(all/3, ",", `{}`) + `]}`,
		"as many steps as there may":       `{"gid":"g","trans_type":"saga","steps":[` + steps + `],"payloads":[` + payloads + `]}`,
		"the steps again and again":        `{"gid":"g","trans_type":"saga"` + many(all/1520, "", `,"steps":[`+steps+`]`) + `}`,
		"millions of payloads":             `{"gid":"g","trans_type":"saga","payloads":[` + many(all/3, ",", `""`) + `]}`,
		"payloads that are escaped":        `{"gid":"g","trans_type":"saga","steps":[{},{}],"payloads":["\n` + strings.Repeat("x", all/2-500) + `","\n` + strings.Repeat("y", all/2-500) + `"]}`,
		"payloads that are all escapes":    `{"gid":"g","trans_type":"saga","steps":[{}],"payloads":["` + strings.Repeat(`\u00e9`, all/6-50) + `"]}`,
		"pairs of surrogates":              `{"gid":"g","trans_type":"saga","steps":[{}],"payloads":["` + strings.Repeat(`\ud834\udd1e`, all/12-50) + `"]}`,
		"a deep payload":                   `{"gid":"g","trans_type":"saga","steps":[{}],"payloads":[` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `]}`,
		"a payload of numbers":             `{"gid":"g","trans_type":"saga","steps":[{}],"payloads":[[` + many(all/2-500, ",", "1") + `]]}`,
		"hundreds of thousands of headers": `{"gid":"g","trans_type":"saga","branch_headers":{` + many(all/15, ",", `"x%d":"a"`) + `}}`,
		"one header again and again":       `{"gid":"g","trans_type":"saga","branch_headers":{` + many(all/8, ",", `"x":"a"`) + `}}`,
		"the headers again and again":      `{"gid":"g","trans_type":"saga"` + many(all/14_000, "", `,"branch_headers":{`+many(1000, ",", `"x%d":"a"`)+`}`) + `}`,
		"long headers":                     `{"gid":"g","trans_type":"saga","branch_headers":{` + many(500, ",", `"x%d":"`+strings.Repeat("a", 16_000)+`"`) + `}}`,
		"fields that nobody knows":         `{"gid":"g","trans_type":"saga"` + many(all/8, "", `,"ab":{}`) + `}`,
		"names in capitals":                `{"gid":"g","trans_type":"saga"` + many(all/9, "", `,"ABC":0`) + `}`,
		"one field again and again":        `{"gid":"g","trans_type":"saga"` + many(all/13, "", `,"gid":"gggg"`) + `}`,
		"req_extra":                        `{"gid":"g","trans_type":"workflow","req_extra":{` + many(all/9, ",", `"ab":"x"`) + `}}`,
		"custom data":                      `{"gid":"g","trans_type":"msg","custom_data":` + quoted(`{"x":"`+strings.Repeat("y", sagapart.MaxCustomBytes-100)+`"}`) + `}`,
		"custom data of escapes":           `{"gid":"g","trans_type":"msg","custom_data":"{\"x\":\"` + strings.Repeat(`\u00e9`, sagapart.MaxCustomBytes/2-100) + `\"}"}`,
		"custom data of fields":            `{"gid":"g","trans_type":"msg","custom_data":` + quoted(`{`+many(sagapart.MaxCustomBytes/7-10, ",", `"ab":1`)+`}`) + `}`,
		"orders of one step again":         `{"gid":"g","trans_type":"saga","steps":[` + steps + `],"payloads":[` + payloads + `],"custom_data":` + orders(500, many(500_000, ",", "1"), 1) + `}`,
		"orders of all steps":              `{"gid":"g","trans_type":"saga","steps":[` + steps + `],"payloads":[` + payloads + `],"custom_data":` + orders(500, many(490, ",", "%d"), 500) + `}`,
		"orders as texts":                  `{"gid":"g","trans_type":"saga","steps":[` + steps + `],"payloads":[` + payloads + `],"custom_data":` + orders(500, many(250_000, ",", `"1"`), 1) + `}`,
		"orders that are empty":            `{"gid":"g","trans_type":"saga","steps":[` + steps + `],"payloads":[` + payloads + `],"custom_data":` + quoted(`{"orders":{`+many(149_000, ",", `"1":[]`)+`}}`) + `}`,
		"a topic for every step":           `{"gid":"g","trans_type":"msg","steps":[` + many(1000, ",", `{"action":"topic://T"}`) + `],"payloads":[` + many(1000, ",", `""`) + `]}`,
		"compares":                         `{"gid":"g","trans_type":"saga","kv":{"compare":[` + many(all/3, ",", `{}`) + `]}}`,
		"changes":                          `{"gid":"g","trans_type":"saga","kv":{"success":[` + many(all/31, ",", `{"request_put":{"key":"YQ=="}}`) + `]}}`,
		"a large value":                    `{"gid":"g","trans_type":"saga","kv":{"success":[{"request_put":{"key":"YQ==","value":"` + strings.Repeat("AAAA", all/4-100) + `"}}]}}`,
		"no JSON":                          `{"gid":"g","x":[` + strings.Repeat("[],", all/3-100),
		"blanks":                           `{"gid":"g",` + strings.Repeat(" ", all-200) + `"trans_type":"saga"}`,
	}
}

// judge does with a request everything that the door does before it proposes, up to the proposed bytes.
func (d *Door) judge(r *request, err error) {
	if err != nil || r.check() != nil {
		return
	}
	if !r.kv.null() {
		if _, err := r.kv.txn(); err != nil {
			return
		}
	}
	p, err := d.begin(r, sagapart.Submitted)
	if err != nil {
		return
	}
	part := &sagapart.Part{Kind: sagapart.Begin, Begin: p}
	sagapart.Append(make([]byte, 0, sizeOf(part)), part)
}

// TestARequestCostsWhatItsSizeIsWorth: decoding and judging the costliest requests there are is linear, and holds little more than they are.
func TestARequestCostsWhatItsSizeIsWorth(t *testing.T) {
	s := serve(t, Options{})
	for i := range 20 {
		s.want(200, success, "GET", fmt.Sprintf("subscribe?topic=T&url=http://a/%d", i), "")
	}
	for what, doc := range costly() {
		spent.Within(t, what, len(doc), func() {
			r, err := readRequest([]byte(doc))
			s.door.judge(r, err)
		})
		spent.Within(t, what+", as a registration", len(doc), func() {
			if r, err := readRegistration([]byte(doc)); err == nil {
				_, _ = r.branches()
			}
		})
		spent.Within(t, what+", by JSON-RPC", len(doc), func() {
			s.door.jsonRPC(&ask{}, []byte(`{"jsonrpc":"2.0","id":"1","method":"none","params":`+doc+`}`))
		})
	}
	for what, b := range costlyMessages() {
		spent.Within(t, what, len(b), func() {
			var r dtmRequest
			err := r.decode(b)
			s.door.judge(&r.request, err)
		})
		spent.Within(t, what+", as a registration", len(b), func() {
			var r dtmBranch
			if r.decode(b) == nil {
				_, _ = r.branches()
			}
		})
		spent.Within(t, what+", as a topic", len(b), func() { _ = new(dtmTopic).decode(b) })
	}
}

// costlyMessages are costly for DTM's messages over gRPC.
func costlyMessages() map[string][]byte {
	all := map[string][]byte{}
	begin := appendText(appendText(nil, 1, "g"), 2, "saga")
	fill := func(what string, one func(i int) []byte) {
		b := append([]byte(nil), begin...)
		for i := 0; len(b) < 1<<18; i++ {
			b = append(b, one(i)...)
		}
		all[what] = b
	}
	pairOf := func(key, value string) []byte { return appendText(appendText(nil, 1, key), 2, value) }
	for num := protowire.Number(1); num <= 9; num++ {
		fill(fmt.Sprintf("field %d, empty, again and again", num), func(int) []byte { return appendMessage(nil, num, nil) })
		fill(fmt.Sprintf("field %d again and again", num), func(int) []byte { return appendMessage(nil, num, []byte("abc")) })
		fill(fmt.Sprintf("field %d of pairs", num), func(i int) []byte { return appendMessage(nil, num, pairOf(fmt.Sprint("k", i), "v")) })
	}
	fill("headers over gRPC", func(i int) []byte {
		return appendMessage(nil, 3, appendMessage(nil, 5, pairOf(fmt.Sprint("x", i), "a")))
	})
	var headers []byte
	for i := 0; len(headers) < 1<<18; i++ {
		headers = appendMessage(headers, 5, pairOf(fmt.Sprint("x", i), "a"))
	}
	all["headers in one message"] = appendMessage(append([]byte(nil), begin...), 3, headers)
	fill("steps again and again", func(int) []byte { return appendMessage(nil, 7, []byte("["+many(999, ",", "{}")+"]")) })
	all["millions of steps over gRPC"] = appendMessage(append([]byte(nil), begin...), 7, []byte("["+many(1<<17, ",", "{}")+"]"))
	all["a large payload"] = appendMessage(append([]byte(nil), begin...), 5, make([]byte, maxBody-1000))
	return all
}

// TestATopicBombIsCounted before any of it is made: 1,000 steps of 1,000 subscribers are a million branches.
func TestATopicBombIsCounted(t *testing.T) {
	s := serve(t, Options{})
	for i := range sagapart.MaxSubscribers {
		s.apply(&sagapart.Part{Kind: sagapart.Subscribe, Topic: &sagapart.TopicPart{Topic: "T", URL: fmt.Sprint("http://a/", i)}})
	}
	doc := costly()["a topic for every step"]
	spent.Within(t, "a topic bomb", len(doc)+100_000, func() { // beside the topic, which is read
		r, err := readRequest([]byte(doc))
		s.door.judge(r, err)
	})
	if code, _, b := s.do("POST", prefix+"submit", doc); code != 400 || !strings.Contains(b, "branches are too many") {
		t.Errorf("%d %s", code, b)
	}
	s.want(200, success, "POST", "submit", `{"gid":"one","trans_type":"msg","steps":[{"action":"topic://T"}],"payloads":["x"],"custom_data":"{\"delay\":1000}"}`)
	if n := len(s.find("one").Branches); n != sagapart.MaxSubscribers {
		t.Errorf("%d branches", n)
	}
	s.want(400, "", "POST", "submit", `{"gid":"two","trans_type":"msg","steps":[{"action":"topic://T"},{"action":"http://a"}],"payloads":["x","y"]}`)
}

// FuzzRequestsInJSON: any input is read at its price, and any valid one can be proposed.
func FuzzRequestsInJSON(f *testing.F) {
	for _, doc := range []string{`{"gid":"g","trans_type":"saga","steps":[{"action":"http://a"}],"payloads":["\ud834\udd1e\n"],"branch_headers":{"a":"b","a":"c"},"custom_data":"{\"orders\":{\"0\":[0]},\"concurrent\":true}"}`,
		`{"jsonrpc":"2.0","id":"1","method":"submit","params":{}}`, `{"gid":"g","trans_type":"msg","kv":{"compare":[{"key":"YQ=="}],"success":[{"request_put":{"key":"YQ=="}}]}}`,
		`{"gid":"g","trans_type":"tcc","branch_id":"01","op":"x","status":"succeed","data":{"a":1},"confirm":"http://a"}`} {
		f.Add([]byte(doc))
	}
	d := fuzzDoor(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		if len(doc) > maxBody {
			return
		}
		spent.Within(t, "a request", len(doc), func() {
			r, err := readRequest(doc)
			d.judge(r, err)
			if r, err := readRegistration(doc); err == nil {
				_, _ = r.branches()
			}
		})
		spent.Within(t, "a request in a call by JSON-RPC", len(doc), func() {
			d.jsonRPC(&ask{}, []byte(`{"jsonrpc":"2.0","id":"1","method":"none","params":`+string(doc)+`}`))
		})
		v, err := parse(doc)
		if err == nil && v[0] == '"' { // a text is what encoding/json says
			var want string
			if got, err := v.text(); err != nil || json.Unmarshal(v, &want) != nil || got != want {
				t.Errorf("%q is %q, want %q, %v", v, got, want, err)
			}
		}
	})
}

// FuzzRequestsOverGRPC is the same of DTM's messages.
func FuzzRequestsOverGRPC(f *testing.F) {
	f.Add(appendMessage(appendText(appendText(nil, 1, "g"), 2, "saga"), 3, appendMessage(nil, 5, appendText(appendText(nil, 1, "a"), 2, "b"))))
	f.Add(appendText(appendText(appendText(nil, 1, "g"), 2, "saga"), 7, `[{"action":"a"}]`))
	d := fuzzDoor(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > maxBody {
			return
		}
		spent.Within(t, "a message", len(b), func() {
			var r dtmRequest
			err := r.decode(b)
			d.judge(&r.request, err)
			if r := new(dtmBranch); r.decode(b) == nil {
				_, _ = r.branches()
			}
			_ = new(dtmTopic).decode(b)
		})
	})
}

// FuzzQueries is the same of what stands in paths, parameters and headers.
func FuzzQueries(f *testing.F) {
	f.Add("topic%20", "gid=a&limit=10&position=9&status=succeed&transType=saga&createTimeStart=1&createTimeEnd=9223372036854", "archive")
	f.Add("%zz", "limit=-1&limit=2&status=%00&createTimeStart=99999999999999999999&cat=topics&key=%e2%80", "commit")
	f.Fuzz(func(t *testing.T, path, query, level string) {
		size := len(path) + len(query) + len(level)
		if size > 16<<10 { // the port's limit of a head
			return
		}
		spent.Within(t, "what is asked for", size, func() {
			var args fasthttp.Args
			args.Parse(query)
			in := &input{args: &args}
			before, n, filter, err := listOf(in)
			if err == nil && (n < 1 || n > mostPage || before > math.MaxInt64 || filter.From < 0 || filter.To < 0) {
				t.Errorf("%q: a page of %d before %d from %d to %d", query, n, before, filter.From, filter.To)
			}
			for _, name := range []string{"gid", "topic", "url", "remark", "cat", "key", "position"} {
				_ = checkGid(in.get(name))
			}
			if name, err := url.PathUnescape(path); err == nil {
				_ = checkGid(name)
			}
			_, _ = ack.Dial{}.Session(level)
		})
	})
}

// fuzzDoor is a door without clients.
func fuzzDoor(f *testing.F) *Door {
	d := &Door{node: &solo{}}
	d.opts.fill()
	return d
}
