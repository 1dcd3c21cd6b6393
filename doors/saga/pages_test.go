package saga

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/deadline"
)

// inPages writes something in pages of so many bytes, each beginning anew behind those before.
func inPages(most int, write func(w *writer)) string {
	var all []byte
	for {
		w := writer{most: most, skip: int64(len(all))}
		write(&w)
		all = append(all, w.b...)
		if !w.full {
			return string(all)
		}
	}
}

// oddTexts are texts that encoding/json escapes in every way it has.
var oddTexts = []string{"", "a", `"\/`, "\b\f\n\r\t\x00\x1f\x7f", "<a href='x'>&amp;", "é€𝄞", "\u2028\u2029\ufffd", "\xff\xfe\xe2\x80", "\xe2\x80\xa8", "\xf0\x9d\x84",
	strings.Repeat("é", block), strings.Repeat("\xff", block+1), "x" + strings.Repeat("𝄞", block)}

// FuzzPagesAreEncodingJSONs: wherever pages end, together they are what encoding/json makes of it.
func FuzzPagesAreEncodingJSONs(f *testing.F) {
	for i, s := range oddTexts {
		f.Add(s, 1+i*7, int64(i))
	}
	f.Fuzz(func(t *testing.T, s string, most int, seed int64) {
		if most = max(most, 1+len(s)/64); most < 1 {
			most = 1
		}
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		some := func() string {
			if rng.IntN(2) == 0 {
				return ""
			}
			from := rng.IntN(len(s) + 1)
			return s[from : from+rng.IntN(len(s)+1-from)]
		}
		when := func() int64 { return int64(rng.IntN(2)) * rng.Int64N(2e18) }
		tx := &sagamachine.Transaction{Number: rng.Uint64(), Definition: sagapart.Definition{Gid: s, Mode: sagapart.Saga, Protocol: some(), QueryPrepared: some(), CustomData: some(),
			Options: sagapart.Options{WaitResult: rng.IntN(2) == 0, Concurrent: rng.IntN(2) == 0, TimeoutMs: int64(rng.IntN(3)) * 1500, RequestTimeoutMs: int64(rng.IntN(3)) * 1000,
				RetryIntervalMs: int64(rng.IntN(2)), RetryLimit: int64(rng.IntN(2))}},
			Head: sagamachine.Head{Status: sagapart.Failed, Created: when(), Updated: when(), Finished: when(), RolledBack: when(), DueTick: sagamachine.Never, IntervalMs: int64(rng.IntN(2)) * 10_500,
				Retries: int64(rng.IntN(2)), Passes: rng.Uint32(), Result: some(), Reason: some()}}
		for range rng.IntN(4) {
			tx.Headers = append(tx.Headers, sagapart.Header{Name: some(), Value: some()})
		}
		d := &Door{opts: Options{Now: time.Now, Trouble: func(uint64, sagapart.Status) (Trouble, bool) { return Trouble{URL: some(), Text: some()}, true }}}
		same := func(v any, write func(w *writer)) {
			t.Helper()
			want, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if got := inPages(most, write); got != string(want) {
				t.Errorf("pages of %d:\n got %q\nwant %q", most, got, want)
			}
		}
		same(s, func(w *writer) { w.text(s) })
		same([]byte(s), func(w *writer) { w.base64([]byte(s)) })
		v := d.tried(tx)
		same(v, func(w *writer) { v.write(w, true) })
		same(v.shownTransaction, func(w *writer) { v.write(w, false) })
		b := showBranch(some(), rng.IntN(9), &sagamachine.Branch{Branch: sagapart.Branch{ID: some(), Op: some(), URL: s, Status: sagapart.Failed, Payload: []byte(s)},
			Created: when(), Updated: when(), Finished: when(), RolledBack: when()})
		if len(b.Data) == 0 {
			b.Data = nil
		}
		same(b, func(w *writer) { b.write(w) })
		topic := showTopic(&sagamachine.Topic{Name: some(), ID: rng.Uint64(), Version: rng.Uint64(), Created: when(), Updated: when(), Subscribers: []sagamachine.Subscriber{{URL: s, Remark: some()}}})
		same(topic, func(w *writer) { topic.write(w) })
	})
}

// largest is the largest transaction that one may write, about as the door's limit of a request has it.
func largest(gid string) string {
	payload := strings.Repeat("x", sagapart.MaxTransaction/2-1000)
	b, _ := json.Marshal(map[string]any{"gid": gid, "trans_type": "saga", "steps": []map[string]string{{"action": "http://a/never"}, {"action": "http://b/never"}},
		"payloads": []string{payload + "1", payload + "2"}, "custom_data": `{"x":"` + strings.Repeat("y", 500_000) + `"}`})
	return string(b)
}

// TestWhatOneMayWriteOneCanRead, by every request, with little room for answers.
func TestWhatOneMayWriteOneCanRead(t *testing.T) {
	s := serve(t, Options{MaxAnswerBytes: 2 << 20})
	s.want(200, success, "POST", "submit", largest("large"))
	for path, branches := range map[string]int{prefix + "query?gid=large": 4, ownPrefix + "query?gid=large": 4, prefix + "all": 0, ownPrefix + "all?gid=large": 0, prefix + "all?gid=large": 0} {
		code, _, b := s.do("GET", path, "")
		var answer struct {
			Branches    []shownBranch
			Transaction struct {
				Custom string `json:"custom_data"`
			}
			Transactions []struct {
				Custom string `json:"custom_data"`
			}
		}
		if err := json.Unmarshal([]byte(b), &answer); code != 200 || err != nil || len(answer.Branches) != branches {
			t.Fatalf("%s: %d, %v, %d branches, %.100q", path, code, err, len(answer.Branches), b)
		}
		custom := answer.Transaction.Custom
		for _, one := range answer.Transactions {
			custom += one.Custom
		}
		if len(custom) < 500_000 {
			t.Errorf("%s: custom data of %d bytes", path, len(custom))
		}
		for i, one := range answer.Branches {
			if n := len(one.Data); n != sagapart.MaxTransaction/2-999 || one.Data[n-1] != byte('1'+i/2) {
				t.Errorf("%s: branch %d has %d bytes", path, i, n)
			}
		}
	}
	// The steps that a workflow has recorded, in both protocols, over HTTP/1.0 too.
	s.want(200, "", "POST", "prepareWorkflow", `{"gid":"w","trans_type":"workflow"}`)
	for i := range 2 {
		s.want(200, success, "POST", "registerBranch", fmt.Sprintf(`{"gid":"w","trans_type":"workflow","branch_id":"%d","op":"action","status":"succeed","data":"%s"}`, i, strings.Repeat("z", sagapart.MaxTransaction/2-1000)))
	}
	if code, _, b := s.do("POST", prefix+"prepareWorkflow", `{"gid":"w","trans_type":"workflow"}`); code != 200 || len(b) < 9<<20 || !json.Valid([]byte(b)) {
		t.Errorf("progress: %d, %d bytes", code, len(b))
	}
	ask, back := appendText(appendText(nil, 1, "w"), 2, "workflow"), []byte(nil)
	if err := s.conn.Invoke(t.Context(), "/dtmgimp.Dtm/PrepareWorkflow", &ask, &back, grpc.ForceCodecV2(bytesCodec{}), grpc.MaxCallRecvMsgSize(64<<20)); err != nil || len(back) < 6<<20 {
		t.Errorf("over gRPC: %d bytes, %v", len(back), err)
	}
	old := serve(t, Options{MaxAnswerBytes: 48 << 20})
	old.want(200, success, "POST", "submit", largest("large"))
	c, err := net.Dial("tcp", old.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET %squery?gid=large HTTP/1.0\r\n\r\n", prefix)
	b, err := io.ReadAll(c)
	if head, body, _ := bytes.Cut(b, []byte("\r\n\r\n")); err != nil || !bytes.HasPrefix(head, []byte("HTTP/1.1 200")) || !json.Valid(body) {
		t.Errorf("over HTTP/1.0: %q, %d bytes, %v", head, len(body), err)
	}
}

// TestReadersThatTakeNothingHoldOnePage: a hundred of them hold what they were given, not what they have asked for; others read on.
func TestReadersThatTakeNothingHoldOnePage(t *testing.T) {
	s := serve(t, Options{MaxAnswerBytes: 32 << 20})
	s.want(200, success, "POST", "submit", largest("large"))
	for i := range 20 {
		s.want(200, success, "POST", "submit", fmt.Sprintf(`{"gid":"m%d","trans_type":"msg","custom_data":%q}`, i, `{"delay":1000000,"x":"`+strings.Repeat("a", 1_000_000)+`"}`))
	}
	before := inUse()
	var all []net.Conn
	for i := range 60 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", []string{prefix + "all?limit=1000", prefix + "query?gid=large"}[i%2])
		all = append(all, c)
	}
	for _, c := range all { // each has an answer
		if _, err := io.ReadFull(c, make([]byte, 12)); err != nil {
			t.Fatal(err)
		}
	}
	wait.Until(t, "no page is being made", func() bool { return len(s.door.small)+len(s.door.large) == 0 })
	if more := inUse() - before; more > 60<<20 {
		t.Errorf("%d MiB more for 60 answers of 10 MiB each", more>>20)
	}
	if code, _, b := s.do("GET", prefix+"query?gid=large", ""); code != 200 || !json.Valid([]byte(b)) {
		t.Errorf("another reader: %d", code)
	}
}

// inUse is what is reachable, in bytes.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestPagesAreOfOneMoment: changes of a transaction while its client takes the answer are not in it. A change that would mix two states
// breaks it off.
func TestPagesAreOfOneMoment(t *testing.T) {
	s := serve(t, Options{})
	payload := strings.Repeat("p", 2_000_000)
	s.want(200, "", "POST", "prepare", `{"gid":"g","trans_type":"msg","query_prepared":"http://q/never","custom_data":"{\"x\":\"`+strings.Repeat("y", 300_000)+`\"}","steps":[{"action":"http://a/ok"}],"payloads":["`+payload+`"]}`)
	begin := func(path string) (*pageStream, []byte) {
		q := &ask{}
		u, _ := url.ParseQuery(path)
		v, err := s.door.query(q, values(u))
		if err != nil {
			t.Fatal(err)
		}
		p := v.(*pageStream)
		first := bytes.Clone(p.page)
		p.page = nil
		return p, first
	}
	p, b := begin("gid=g")
	s.want(200, success, "POST", "submit", `{"gid":"g","trans_type":"msg","steps":[{"action":"http://a/ok"}],"payloads":["`+payload+`"],"wait_result":true}`)
	rest, err := io.ReadAll(p)
	b = append(b, rest...)
	if err != nil || !json.Valid(b) || !bytes.Contains(b, []byte(`"status":"prepared","query`)) || bytes.Contains(b, []byte("succeed")) {
		t.Errorf("%v, valid %t, %.200s", err, json.Valid(b), b[max(0, len(b)-700):])
	}
	if _, _, now := s.do("GET", prefix+"query?gid=g", ""); strings.Count(now, "succeed") != 2 {
		t.Error("it has not succeeded")
	}
	// Another text in the place of one that is half there.
	s.want(200, "", "POST", "prepare", `{"gid":"h","trans_type":"msg","query_prepared":"http://q/never","custom_data":"{\"x\":\"`+strings.Repeat("y", 300_000)+`\"}","steps":[],"payloads":[]}`)
	p, _ = begin("gid=h")
	s.want(200, success, "POST", "submit", `{"gid":"h","trans_type":"msg","custom_data":"{\"x\":\"`+strings.Repeat("z", 300_000)+`\"}","steps":[],"payloads":[]}`)
	if _, err := io.ReadAll(p); err == nil {
		t.Error("two texts became one")
	}
}

// values are parameters for tests.
type values url.Values

func (v values) get(name string) string { return url.Values(v).Get(name) }

// TestAListOfOneThatIsGone: what was forgotten or has gone on while a list was taken is left out of it.
func TestAListOfOneThatIsGone(t *testing.T) {
	s := serve(t, Options{})
	large := strings.Repeat("x", 90_000)
	for i := range 4 {
		s.want(200, success, "POST", "submit", fmt.Sprintf(`{"gid":"m%d","trans_type":"msg","steps":[{"action":"http://a/ongoing"}],"payloads":[""],"custom_data":%q}`, i, `{"delay":1000,"x":"`+large+`"}`))
	}
	v, err := s.door.all(&ask{}, values{"status": {"submitted"}})
	if err != nil {
		t.Fatal(err)
	}
	p := v.(*pageStream)
	s.want(200, success, "POST", "forceStop", `{"gid":"m2"}`)
	b, err := io.ReadAll(p)
	var answer struct{ Transactions []struct{ Gid string } }
	if err != nil || json.Unmarshal(b, &answer) != nil || fmt.Sprint(answer.Transactions) != "[{m3} {m1} {m0}]" {
		t.Errorf("%v %v", answer, err)
	}
}

// TestAPageThatCannotBeMade gives its place back.
func TestAPageThatCannotBeMade(t *testing.T) {
	s := serve(t, Options{})
	s.want(200, success, "POST", "submit", largest("large"))
	for range 2 * largeReaders() {
		p, err := s.door.paged(&ask{}, (&shownWhole{head: "["}).of(s.door, &sagamachine.Transaction{Number: 99, BranchBytes: largeAnswer + 1}))
		if err == nil {
			t.Fatal(p)
		}
	}
	if code, _, _ := s.do("GET", prefix+"query?gid=large", ""); code != http.StatusOK {
		t.Error(code)
	}
}

// TestALargeListTakesItsPlaceBeforeItIsRead: beyond its first piece a list is read where large answers are, whether its transactions or their number is
// large. A small one does not wait for those.
func TestALargeListTakesItsPlaceBeforeItIsRead(t *testing.T) {
	s := serve(t, Options{})
	for i := range 3 {
		s.want(200, success, "POST", "submit", fmt.Sprintf(`{"gid":"m%d","trans_type":"msg","custom_data":%q}`, i, `{"delay":1000000,"x":"`+strings.Repeat("a", 900_000)+`"}`))
	}
	for range cap(s.door.large) {
		s.door.large <- struct{}{}
	}
	if _, _, b := s.do("GET", prefix+"all?limit=1", ""); !strings.Contains(b, `"gid":"m2"`) {
		t.Errorf("a small list: %.200s", b)
	}
	usual := s.door.deadline
	s.door.deadline = deadline.New(20 * time.Millisecond)
	if _, _, err := s.door.list(values{"limit": {"3"}}); err == nil || !strings.Contains(err.Error(), "too many large answers") {
		t.Errorf("a large list among others was read: %v", err)
	}
	if _, err := s.door.all(&ask{}, values{"gid": {"m1"}}); err != nil {
		t.Errorf("one that is smaller: %v", err)
	}
	if _, err := s.door.paged(&ask{}, &shownList{d: s.door, size: largeAnswer + 1}); err == nil {
		t.Error("a page of a large list was made among others")
	}
	s.door.deadline = usual
	for range cap(s.door.large) {
		<-s.door.large
	}
	if _, _, b := s.do("GET", prefix+"all?limit=3", ""); strings.Count(b, `"gid":"m`) != 3 {
		t.Errorf("a large list: %.200s", b)
	}
}

// TestLargeAnswersLeaveProcessors: half of them, but one reader there is always. The others are for clients who ask for less.
func TestLargeAnswersLeaveProcessors(t *testing.T) {
	s := serve(t, Options{})
	if n, all := cap(s.door.large), runtime.NumCPU(); n < 1 || n > 1 && n > all/2 {
		t.Errorf("%d readers of large answers on %d processors", n, all)
	}
}
