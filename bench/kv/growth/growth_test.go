package growth

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestBars: a bar is beside etcd's figure, beside another of ours, or alone; what a whole run did not measure is no bar reached.
func TestBars(t *testing.T) {
	three, one := past{3, 10}.String(), past{1, 10}.String()
	all := []Line{
		{Row: one, Servers: map[string]Figure{etcd: {CPU: 50}, holdfast: {CPU: 50}}},
		{Row: three, Servers: map[string]Figure{etcd: {CPU: 60, Rate: 10}, holdfast: {CPU: 66, Rate: 12}}},
		{Row: "limit=1 of 1000000 keys", Servers: map[string]Figure{etcd: {CPU: 100_000}, holdfast: {CPU: 249}}},
		{Row: "get of one of 1000000 keys, a client", Servers: map[string]Figure{etcd: {CPU: 300}, holdfast: {CPU: 150}}},
	}
	got := judge(all, false)
	if len(got) != 4 || got[0].Reached || *got[0].Got != 1.1 || !got[1].Reached || *got[1].Got != 1.2 || got[2].Reached || *got[2].Got != 1.32 || !got[3].Reached || *got[3].Got != 99 {
		t.Errorf("%+v", got)
	}
	whole := judge(all, true)
	missing := 0
	for _, b := range whole {
		if b.Got == nil {
			missing++
		}
	}
	if len(whole) != len(ownBars) || missing != len(ownBars)-4 {
		t.Errorf("%d bars, %d not measured", len(whole), missing)
	}
}

// TestLines: medians by server and row, in the order of the rows.
func TestLines(t *testing.T) {
	got := lines([]Round{
		{Server: etcd, Figures: []Figure{{Row: "b", CPU: 4}, {Row: "a", CPU: 1}}},
		{Server: holdfast, Figures: []Figure{{Row: "b", CPU: 1}}},
		{Server: etcd, Figures: []Figure{{Row: "b", CPU: 6}}},
		{Server: etcd, Figures: []Figure{{Row: "b", CPU: 100}}},
	})
	if len(got) != 2 || got[0].Row != "b" || got[0].Servers[etcd].CPU != 6 || got[0].Rounds[etcd] != 3 || got[1].Servers[etcd].CPU != 1 {
		t.Errorf("%+v", got)
	}
	var out bytes.Buffer
	printLines(&out, got)
	if !strings.Contains(out.String(), "0.17x") {
		t.Errorf("no ratio:\n%s", out.String())
	}
}

// TestTheFloorCounts: where the machine and gRPC leave no more, a share of the floor server's rate is enough.
func TestTheFloorCounts(t *testing.T) {
	row := "put of 1 MB, 4 clients"
	for share, want := range map[float64]bool{80: false, 95: true} { // any order: they are independent
		got := judge([]Line{{Row: row, Servers: map[string]Figure{etcd: {Rate: 200, CPU: 1}, holdfast: {Rate: share, CPU: 1}, floor: {Rate: 100, CPU: 1}}}}, false)
		if len(got) != 2 || got[0].Reached != want || !got[1].Reached {
			t.Errorf("at %v of 100: %+v", share, got)
		}
	}
}

func TestQuantiles(t *testing.T) {
	var x []time.Duration
	for i := range 100 {
		x = append(x, time.Duration(i))
	}
	if at(x, 0.5) != 50 || at(x, 0.99) != 99 || at(x[:1], 0.99) != 0 {
		t.Error(at(x, 0.5), at(x, 0.99), at(x[:1], 0.99))
	}
}
