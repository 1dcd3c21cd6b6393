package machine

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/golden"
)

const rowsFile = "testdata/rows.txt"

func sampleHeads() []head {
	const t = machinetest.Epoch
	return []head{
		{status: sagapart.Prepared, created: t, updated: t, begun: 900, due: 1000},
		{status: sagapart.Submitted, created: t, updated: t + 5e6, begun: 1 << 30, due: 1 << 40, interval: 10_000, retries: 3, passes: 300, chunks: 2, size: 100_000,
			reason: "why", result: "what", branches: []branch{
				{sagapart.Prepared, t, t}, {sagapart.Succeed, t, t + 5e6}, {sagapart.Failed, t, t + 1e6}, {sagapart.Succeed, t + 1e6, t + 1e6},
				{sagapart.Succeed, t + 1e6, t + 5e6}, {sagapart.Prepared, t + 1e6, t + 2e6}}},
		{status: sagapart.Failed, created: t, updated: t + 1e12, begun: 5, due: Never, interval: -1},
	}
}

func sampleTopics() []*Topic {
	const t = machinetest.Epoch
	return []*Topic{
		{Name: "t", ID: 7, Version: 1, Created: t, Updated: t},
		{Name: "t", ID: 1 << 40, Version: 300, Created: t, Updated: t + 1e9, Subscribers: []Subscriber{{"http://a", "first"}, {"http://b", ""}}},
	}
}

func sampleRetired() []retired {
	return []retired{{1, sagapart.Succeed, 0, "order-1"}, {1 << 40, sagapart.Failed, 1000, "g"}}
}

func sampleDefinition() (head, *sagapart.Definition, []byte) {
	return sampleHeads()[1], &sagapart.Definition{Gid: "order-1", Mode: sagapart.Msg, Protocol: "http", QueryPrepared: "http://q", CustomData: `{"delay":3}`,
			Options: sagapart.Options{TimeoutMs: 35_000}, Headers: []sagapart.Header{{Name: "n", Value: "v"}}},
		sagapart.AppendBranches(nil, steps(1, 4))
}

func sampleCounters() counters {
	return counters{next: 1 << 40, held: true, elapsed: 3_600_000, counts: [lastCount]int64{0, 1, 2, 300, 4, 5, 6}}
}

func TestGoldenRows(t *testing.T) {
	var out strings.Builder
	put := func(what string, b []byte) { fmt.Fprintf(&out, "%s\n%s\n", what, hex.Dump(b)) }
	for _, h := range sampleHeads() {
		put("head: "+h.String(), appendHead(nil, &h))
	}
	h, d, branches := sampleDefinition()
	put("definition with branches: "+d.String(), appendDefinition(nil, &h, d, branches))
	put("definition without", appendDefinition(nil, &h, d, nil))
	c := sampleCounters()
	put("counters: "+c.String(), appendCounters(nil, &c))
	c.held, c.elapsed, c.retention = false, 0, 3_600_000
	put("counters: "+c.String(), appendCounters(nil, &c))
	var row []byte
	for _, r := range sampleRetired() {
		row = appendRetired(row, &r)
	}
	put("two to forget", row)
	for _, topic := range sampleTopics() {
		put(fmt.Sprintf("topic %+v", *topic), appendTopic(nil, topic))
	}
	put("gid of transaction 1000", appendNumber(nil, 1000))
	put("key of gid order-1", appendGidKey(nil, "order-1"))
	put("key of definition 1000", appendDefinitionKey(nil, 1000))
	put("key of head 1000", appendHeadKey(nil, 1000))
	put("key of branches 2 of 1000", appendBranchesKey(nil, 1000, 2))
	put("key of timer 5000 of 1000", appendTimerKey(nil, spaceTimer, Timer{5000, 1000}))
	put("key of what to forget at 5000 from 1000 on", appendTimerKey(nil, spaceRetired, Timer{5000, 1000}))
	put("key of topic t", appendTopicKey(nil, "t"))
	golden.Check(t, rowsFile, out.String())
}

func TestRowsComeBack(t *testing.T) {
	for _, h := range sampleHeads() {
		if got, err := decodeHead(appendHead(nil, &h)); err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("%+v came back as %+v, %v", h, got, err)
		}
	}
	h, d, branches := sampleDefinition()
	got, err := decodeDefinition(appendDefinition([]byte("before"), &h, d, branches)[len("before"):])
	if err != nil || !reflect.DeepEqual(got.head, h) || !reflect.DeepEqual(&got.Definition, d) || string(got.inline) != string(branches) {
		t.Errorf("definition came back as %+v, %v", got, err)
	}
	// A head of more than 127 bytes has a length of two.
	h.branches = make([]branch, 200)
	for i := range h.branches {
		h.branches[i] = branch{sagapart.Prepared, h.created, h.created}
	}
	if got, err = decodeDefinition(appendDefinition(nil, &h, d, nil)); err != nil || !reflect.DeepEqual(got.head, h) || len(got.inline) > 0 {
		t.Errorf("definition with 200 branches came back as %+v, %v", got, err)
	}
	c := sampleCounters()
	if got, err := decodeCounters(appendCounters(nil, &c)); err != nil || got != c {
		t.Errorf("counters came back as %+v, %v", got, err)
	}
	var row []byte
	for _, r := range sampleRetired() {
		row = appendRetired(row, &r)
	}
	if got, err := decodeRetired(row); err != nil || !reflect.DeepEqual(got, sampleRetired()) {
		t.Errorf("what to forget came back as %+v, %v", got, err)
	}
	for _, topic := range sampleTopics() {
		if got, err := decodeTopic(topic.Name, appendTopic(nil, topic)); err != nil || !reflect.DeepEqual(got, topic) {
			t.Errorf("%+v came back as %+v, %v", topic, got, err)
		}
	}
}

// FuzzRows feeds the decoders what a damaged store could hold: they may refuse it, and what they take must come back.
func FuzzRows(f *testing.F) {
	for _, h := range sampleHeads() {
		f.Add(appendHead(nil, &h))
	}
	h, d, branches := sampleDefinition()
	f.Add(appendDefinition(nil, &h, d, branches))
	f.Add(branches)
	c := sampleCounters()
	f.Add(appendCounters(nil, &c))
	for _, r := range sampleRetired() {
		f.Add(appendRetired(nil, &r))
	}
	for _, topic := range sampleTopics() {
		f.Add(appendTopic(nil, topic))
	}
	f.Add(appendTimerKey(nil, spaceTimer, Timer{5000, 1000}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := decodeHead(b); err == nil {
			if again, err := decodeHead(appendHead(nil, &h)); err != nil || !reflect.DeepEqual(again, h) {
				t.Fatalf("head %x: %+v came back as %+v, %v", b, h, again, err)
			}
		}
		if d, err := decodeDefinition(b); err == nil {
			again, err := decodeDefinition(appendDefinition(nil, &d.head, &d.Definition, d.inline))
			if err != nil || !reflect.DeepEqual(again.Definition, d.Definition) || !reflect.DeepEqual(again.head, d.head) || string(again.inline) != string(d.inline) {
				t.Fatalf("definition %x: %+v came back as %+v, %v", b, d, again, err)
			}
			_, _ = takeBranches(nil, d.inline)
		}
		if c, err := decodeCounters(b); err == nil {
			if again, err := decodeCounters(appendCounters(nil, &c)); err != nil || again != c {
				t.Fatalf("counters %x: %+v came back as %+v, %v", b, c, again, err)
			}
		}
		if all, err := decodeRetired(b); err == nil {
			var row []byte
			for i := range all {
				row = appendRetired(row, &all[i])
			}
			if again, err := decodeRetired(row); err != nil || !reflect.DeepEqual(again, all) {
				t.Fatalf("what to forget %x: %+v came back as %+v, %v", b, all, again, err)
			}
		}
		if topic, err := decodeTopic("t", b); err == nil {
			if again, err := decodeTopic("t", appendTopic(nil, topic)); err != nil || !reflect.DeepEqual(again, topic) {
				t.Fatalf("topic %x: %+v came back as %+v, %v", b, topic, again, err)
			}
		}
		if all, err := takeBranches(nil, b); err == nil {
			if again, err := takeBranches(nil, sagapart.AppendBranches(nil, all)); err != nil || !reflect.DeepEqual(again, all) {
				t.Fatalf("branches %x: %+v came back as %+v, %v", b, all, again, err)
			}
		}
		_, _ = splitTimerKey(b)
		_, _ = decodeNumber(b)
		for _, space := range "cndhbtrq?" {
			_ = DescribeRow(append([]byte{letter, byte(space)}, b...), b)
			_, _, _ = restoreRow([]byte{letter, byte(space)}, b)
		}
	})
}
