package part

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/codectest"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// steps are the branches of a saga as its door gives them: compensation, then action, with one payload for both.
func steps(n int, payload string) (all []Branch) {
	for i := range n {
		id := fmt.Sprintf("%02d", i+1)
		for _, op := range []string{OpCompensate, OpAction} {
			b := Branch{ID: id, Op: op, URL: "http://127.0.0.1:8081/" + op, Status: Prepared}
			if payload != "" {
				b.Payload = []byte(payload + id)
			}
			all = append(all, b)
		}
	}
	return all
}

// samples holds one part of every kind, the smallest and with every field in use.
func samples() []*Part {
	full := Definition{Gid: "order-1", Mode: Workflow, Protocol: "grpc", QueryPrepared: "http://a/query", CustomData: `{"delay":3}`,
		Options: Options{WaitResult: true, Concurrent: true, TimeoutMs: 35_000, RequestTimeoutMs: -1, RetryIntervalMs: math.MaxInt64, RetryLimit: 3},
		Headers: []Header{{"Authorization", "secret"}, {"", ""}}}
	return []*Part{
		{Kind: Begin, Begin: &BeginPart{Definition: Definition{Gid: "g", Mode: TCC}, Status: Prepared}},
		{Kind: Begin, Begin: &BeginPart{Definition: Definition{Gid: "g", Mode: Saga}, Status: Submitted, IntervalMs: 10_000, Branches: steps(2, "{}")}},
		{Kind: Begin, Begin: &BeginPart{Definition: full, Status: Submitted, Exists: true, FirstMs: 3000, IntervalMs: 10_000, Branches: []Branch{
			{ID: "01", Op: "msg", URL: "topic://t", Status: Succeed, Payload: bytes.Repeat([]byte("p"), 300)},
			{ID: "", Op: OpConfirm, Status: Failed}}}},
		{Kind: Begin, Begin: &BeginPart{Definition: Definition{Gid: "g", Mode: Msg}, Status: Submitted, Fresh: true}},
		{Kind: Change, Change: &ChangePart{Gid: "g", From: Of(Submitted), To: Succeed, Results: []BranchResult{{1, Succeed}, {3, Succeed}}}},
		{Kind: Change, Change: &ChangePart{Gid: "g", Number: 1 << 40, From: Open, To: Aborting, Reason: "url:http://a return failed: no", Result: "r",
			Results: []BranchResult{{999, Failed}}, Timer: true, NextMs: -1, IntervalMs: math.MinInt64, Retries: 7, Pass: true, Worker: true}},
		{Kind: Change, Change: &ChangePart{Gid: "g", From: Of(Prepared, Aborting)}},
		{Kind: Register, Register: &RegisterPart{Gid: "g", Branches: []Branch{
			{ID: "01", Op: OpCancel, URL: "http://a/c", Status: Prepared}, {ID: "01", Op: OpRollback, Status: Prepared},
			{ID: "01", Op: OpCommit, Status: Prepared}}}},
		{Kind: Register, Register: &RegisterPart{Gid: "g"}},
		{Kind: Subscribe, Topic: &TopicPart{Topic: "t", URL: "http://a", Remark: "first"}},
		{Kind: Unsubscribe, Topic: &TopicPart{Topic: "t", URL: "http://a"}},
		{Kind: Drop, Topic: &TopicPart{Topic: "t"}},
		{Kind: Resume},
		{Kind: Elapse, ElapseMs: 3_600_000},
		{Kind: Submit, Begin: &BeginPart{Definition: Definition{Gid: "g", Mode: TCC}, Status: Submitted}},
		{Kind: Submit, Begin: &BeginPart{Definition: full, Status: Submitted, FirstMs: 3000, IntervalMs: 10_000, Branches: steps(1, "{}")}},
		{Kind: Retain, RetainMs: 7 * 86_400_000},
	}
}

func decode(b []byte) (*Part, error) {
	p := new(Part)
	return p, p.Decode(b)
}

func codec() *codectest.Codec[*Part] {
	return &codectest.Codec[*Part]{Samples: samples(), Append: Append, Decode: decode, Describe: Describe, Trailing: wire.ErrTrailing}
}

func TestGolden(t *testing.T)    { codec().Golden(t, "testdata/parts.txt") }
func TestRoundTrip(t *testing.T) { codec().RoundTrip(t) }
func FuzzDecode(f *testing.F)    { codec().Fuzz(f) }

// TestASubmitGivesWhatItNames: each option that a submit names replaces the prepared one, each other one stays, and an equal one is no
// change. WaitResult is not the transaction's.
func TestASubmitGivesWhatItNames(t *testing.T) {
	prepared := Definition{Gid: "g", Mode: TCC, Protocol: "grpc", QueryPrepared: "q", CustomData: "old",
		Options: Options{TimeoutMs: 1, RequestTimeoutMs: 2, RetryIntervalMs: 3, RetryLimit: 4}, Headers: []Header{{"A", "1"}}}
	if d := prepared; d.Take(&Definition{Gid: "other", Mode: Msg, Protocol: "http", QueryPrepared: "other", Options: Options{WaitResult: true}}) ||
		fmt.Sprint(d) != fmt.Sprint(prepared) || (&Definition{Options: Options{WaitResult: true}, Protocol: "http", QueryPrepared: "q"}).Gives() {
		t.Errorf("nothing was given, and it is %v", d)
	}
	for name, give := range map[string]func(*Definition){
		"concurrent":      func(d *Definition) { d.Options.Concurrent = true },
		"timeout":         func(d *Definition) { d.Options.TimeoutMs = 10 },
		"request timeout": func(d *Definition) { d.Options.RequestTimeoutMs = 10 },
		"retry interval":  func(d *Definition) { d.Options.RetryIntervalMs = 10 },
		"retry limit":     func(d *Definition) { d.Options.RetryLimit = 10 },
		"custom data":     func(d *Definition) { d.CustomData = "new" },
		"headers":         func(d *Definition) { d.Headers = []Header{{"B", "2"}, {"A", "2"}} },
	} {
		given, want, d := Definition{}, prepared, prepared
		give(&given)
		give(&want)
		if !given.Gives() || !d.Take(&given) || fmt.Sprint(d) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", name, d, want)
		}
		if d.Take(&given) {
			t.Errorf("%s: given again it is a change", name)
		}
	}
}

// TestASubmitWaitsForItsLevel: a build of the level before would stop at such a part.
func TestASubmitWaitsForItsLevel(t *testing.T) {
	for _, p := range samples() {
		want := map[Kind]uint16{Elapse: 3, Submit: 6, Retain: 8}[p.Kind]
		if got := PartLevel(Append(nil, p)); got != want {
			t.Errorf("%s: level %d, want %d", p, got, want)
		}
		if p.Kind == Submit && !FromClient(Append(nil, p)) {
			t.Errorf("%s needs no pass", p)
		}
	}
	if PartLevel(nil) != 0 {
		t.Error("nothing has a level")
	}
	if _, err := decode(Append(nil, &Part{Kind: Submit, Begin: &BeginPart{Definition: Definition{Gid: "g", Mode: TCC}, Status: Prepared}})); !errors.Is(err, ErrForm) {
		t.Errorf("a submit as prepared: %v", err)
	}
}

// TestAPayloadIsThereOnce: action and compensation of a step have one payload, and it is in the log once.
func TestAPayloadIsThereOnce(t *testing.T) {
	payload := strings.Repeat("x", 100_000)
	for _, n := range []int{1, 2, 40} {
		all := steps(n, payload)
		all = append(all, all[0]) // and once more, far from its first use
		b := AppendBranches(nil, all)
		if most := n * (len(payload) + 200); len(b) > most {
			t.Errorf("%d steps: %d bytes, more than %d", n, len(b), most)
		}
		got, rest, err := TakeBranches(nil, append(b, "rest"...))
		if err != nil || string(rest) != "rest" || len(got) != len(all) {
			t.Fatalf("%d steps: %d branches, %d bytes left, %v", n, len(got), len(rest), err)
		}
		for i := range all {
			if fmt.Sprint(got[i]) != fmt.Sprint(all[i]) {
				t.Fatalf("%d steps: branch %d came back as another one", n, i)
			}
		}
	}
}

// TestTextsOutliveTheirBytes: the log reuses the decoded bytes afterwards.
func TestTextsOutliveTheirBytes(t *testing.T) {
	for _, p := range samples() {
		for _, pad := range []int{0, sharedText} { // small, and too large to share one copy
			if pad > 0 && p.Kind == Register {
				p.Register.Branches = append(p.Register.Branches, Branch{ID: "pad", Op: "o", URL: strings.Repeat("u", pad)})
			}
			b := Append(nil, p)
			want := Describe(b)
			got, err := decode(b)
			if err != nil {
				t.Fatal(err)
			}
			for i := range b {
				b[i] = 0xff
			}
			if got.String() != want {
				t.Errorf("%s became %s", want, got)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	begin := func(change func(*BeginPart)) []byte {
		g := &BeginPart{Definition: Definition{Gid: "g", Mode: Saga}, Status: Submitted, Branches: steps(1, "p")}
		change(g)
		return Append(nil, &Part{Kind: Begin, Begin: g})
	}
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"kind 99", []byte{99}, ErrKind},
		{"kind 0", []byte{0}, ErrKind},
		{"a flag", []byte{byte(Begin), 4, byte(Submitted), 0, 0, 0, byte(Saga), 1, 'g', 0, 0, 0, 0, 0}, ErrFlags},
		{"a mode", begin(func(g *BeginPart) { g.Mode = 99 }), ErrWord},
		{"a status", begin(func(g *BeginPart) { g.Status = 99 }), ErrWord},
		{"a branch's status", begin(func(g *BeginPart) { g.Branches[0].Status = 99 }), ErrWord},
		{"an op", bytes.Replace(begin(func(*BeginPart) {}), []byte{byte(Prepared), 2, 2, '0', '1'}, []byte{byte(Prepared), 99, 2, '0', '1'}, 1), ErrWord},
		{"a status to come from", Append(nil, &Part{Kind: Change, Change: &ChangePart{Gid: "g", From: 1 << 9}}), ErrWord},
		{"a status to go to", Append(nil, &Part{Kind: Change, Change: &ChangePart{Gid: "g", To: 9}}), ErrWord},
		{"a known op as a word", bytes.Replace(begin(func(g *BeginPart) { g.Branches[0].Op = "actiom" }), []byte("actiom"), []byte("action"), 1), ErrForm},
		{"no gid", begin(func(g *BeginPart) { g.Gid = "" }), ErrForm},
		{"a long gid", begin(func(g *BeginPart) { g.Gid = strings.Repeat("g", MaxGidBytes+1) }), ErrForm},
		{"a begin that has ended", begin(func(g *BeginPart) { g.Status = Succeed }), ErrForm},
		{"a branch that is submitted", begin(func(g *BeginPart) { g.Branches[0].Status = Submitted }), ErrForm},
		{"a large payload", begin(func(g *BeginPart) { g.Branches[0].Payload = make([]byte, MaxPayload+1) }), ErrForm},
		{"many branches", begin(func(g *BeginPart) { g.Branches = steps(MaxBranches/2+1, "") }), wire.ErrCount},
		{"a topic without a name", Append(nil, &Part{Kind: Drop, Topic: &TopicPart{}}), ErrForm},
		{"a branch beyond all", Append(nil, &Part{Kind: Change, Change: &ChangePart{Gid: "g", Results: []BranchResult{{MaxBranches, Succeed}}}}), ErrForm},
	} {
		var p Part
		err := p.Decode(c.b)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if foreign := c.want == ErrKind || c.want == ErrFlags || c.want == ErrWord; Foreign(err) != foreign {
			t.Errorf("%s: foreign is %v", c.name, !foreign)
		}
	}
	for _, b := range [][]byte{
		begin(func(g *BeginPart) { g.Gid = strings.Repeat("g", MaxGidBytes) }),
		begin(func(g *BeginPart) { g.Branches = steps(MaxBranches/2, "") }),
		begin(func(g *BeginPart) { g.Branches[0].Payload = make([]byte, MaxPayload) }),
	} {
		var p Part
		if err := p.Decode(b); err != nil {
			t.Errorf("at its bounds: %v", err)
		}
	}
}

// TestWhoseAPartIs: while authentication is on, a client's part needs a Pass and the worker's has none.
func TestWhoseAPartIs(t *testing.T) {
	change := func(c ChangePart) *Part { c.Gid, c.From = "g", Open; return &Part{Kind: Change, Change: &c} }
	for _, c := range []struct {
		p    *Part
		want bool
	}{
		{samples()[0], true},
		{change(ChangePart{To: Aborting, Reason: "by hand", Timer: true}), true},
		{change(ChangePart{To: Failed, Result: "r", Number: 3, Retries: 1}), true},
		{change(ChangePart{Results: []BranchResult{{0, Succeed}}}), false},
		{change(ChangePart{Timer: true, Pass: true}), false},
		{change(ChangePart{To: Aborting, Worker: true}), false},
		{&Part{Kind: Register, Register: &RegisterPart{Gid: "g"}}, true},
		{&Part{Kind: Subscribe, Topic: &TopicPart{Topic: "t", URL: "u"}}, true},
		{&Part{Kind: Unsubscribe, Topic: &TopicPart{Topic: "t", URL: "u"}}, true},
		{&Part{Kind: Drop, Topic: &TopicPart{Topic: "t"}}, true},
		{&Part{Kind: Resume}, false},
		{&Part{Kind: Elapse, ElapseMs: 1}, false},
		{&Part{Kind: Retain, RetainMs: 1}, false},
	} {
		if got := FromClient(Append(nil, c.p)); got != c.want {
			t.Errorf("%s: from a client: %v", c.p, got)
		}
	}
	if FromClient(nil) {
		t.Error("nothing is from a client")
	}
}

func TestWords(t *testing.T) {
	for s := Prepared; s <= lastStatus; s++ {
		if ParseStatus(s.String()) != s || s.Final() != (s == Succeed || s == Failed) || Open.Has(s) == s.Final() {
			t.Errorf("status %d is %s", s, s)
		}
	}
	for m := Saga; m <= lastMode; m++ {
		if ParseMode(m.String()) != m {
			t.Errorf("mode %d is %s", m, m)
		}
	}
	if ParseStatus("") != 0 || ParseMode("") != 0 || Status(99).String() != "unknown" || Mode(99).String() != "unknown" {
		t.Error("no word is a word")
	}
	if Describe(nil) == "" || !strings.HasPrefix(Describe([]byte{99}), "saga.?") {
		t.Error("what does not decode is not said")
	}
}

func BenchmarkDecode(b *testing.B) {
	body := Append(nil, &Part{Kind: Begin, Begin: &BeginPart{Definition: Definition{Gid: "bench-123456", Mode: Saga, Protocol: "http"}, Status: Submitted,
		IntervalMs: 10_000, Branches: steps(2, "")}})
	b.ReportAllocs()
	for b.Loop() {
		var p Part
		if err := p.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}
