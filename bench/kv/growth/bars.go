package growth

import (
	"fmt"
	"math"

	"github.com/holdfastdb/holdfast/bench/bars"
)

// bar is the project's goal for one row. The figure is divided by etcd's in the same row, or by its own in another (beside). Or it is the
// excess over its own in another (beyond), or stands for itself (alone).
type bar struct {
	row     string
	of      func(f *Figure) *float64
	what    string
	beside  string
	beyond  string
	alone   bool
	unit    string
	atLeast bool
	want    float64
	floor   float64 // reached too by so much of the floor server's figure; 0: not
}

var (
	cpuOf   = fields[0].of
	rateOf  = fields[1].of
	p50Of   = fields[2].of
	p99Of   = fields[3].of
	worstOf = fields[4].of
	rssOf   = fields[5].of
)

// flat is what counts as the same cost at ten or five times the size.
const flat = 1.2

func cpuBar(row string, want float64) bar {
	return bar{row: row, of: cpuOf, what: "CPU beside etcd's", unit: "x", want: want}
}

func rateBar(row string, want, floor float64) bar {
	return bar{row: row, of: rateOf, what: "rate beside etcd's", unit: "x", atLeast: true, want: want, floor: floor}
}

func besideBar(row, other string, of func(f *Figure) *float64, want float64) bar {
	return bar{row: row, of: of, what: "beside " + other, beside: other, unit: "x", want: want}
}

func aloneBar(row string, of func(f *Figure) *float64, what, unit string, want float64) bar {
	return bar{row: row, of: of, what: what, alone: true, unit: unit, want: want}
}

// beyondAGet is what a row costs more than a request for one key.
func beyondAGet(row, other string, want float64) bar {
	return bar{row: row, of: cpuOf, what: "CPU beyond " + other, beyond: other, unit: " us", want: want}
}

// ownBars are those of the issue that asked for flat costs, in its order.
var ownBars = []bar{
	cpuBar(past{3, 10}.String(), 1),
	rateBar(past{3, 10}.String(), 1, 0),
	besideBar(past{3, 10}.String(), past{1, 10}.String(), cpuOf, 1.3),
	cpuBar(past{6, 2000}.String(), 1),
	cpuBar(past{6, 100_000}.String(), 1.5),
	cpuBar("limit=1 at a revision 2000 changes ago, 6 versions a key", 1),
	cpuBar("1,000 quiet keys resume over 300,000 changes", 0.35),
	cpuBar("1,000 quiet prefixes resume over 300,000 changes", 0.5),
	cpuBar("one prefix resumes over 500,000 events", 1),
	cpuBar("put beside 10000 watchers, 500/s", 0.6),
	cpuBar("put beside 50000 watchers, 500/s", 0.6),
	besideBar("put beside 50000 watchers, 500/s", "put beside 10000 watchers, 500/s", cpuOf, flat),
	cpuBar("50000 watches opened on one stream", 1),
	cpuBar(restartRow, 1),
	rateBar(restartRow, 0.5, 0),
	beyondAGet("count of a random interval of 1000000 keys", fmt.Sprintf(getRow, 1_000_000), 100),
	beyondAGet("limit=1 of 1000000 keys", fmt.Sprintf(getRow, 1_000_000), 100),
	besideBar("first page of 500 of 1000000 keys", "first page of 500 of 10000 keys", cpuOf, flat),
	beyondAGet("count of a random interval of 5000000 keys", fmt.Sprintf(getRow, 5_000_000), 100),
	beyondAGet("limit=1 of 5000000 keys", fmt.Sprintf(getRow, 5_000_000), 100),
	besideBar("first page of 500 of 5000000 keys", "first page of 500 of 10000 keys", cpuOf, flat),
	cpuBar("list of 10k × 1.5 KB, 4 clients", 0.8),
	{row: "list of 10k × 1.5 KB, 4 clients", of: p99Of, what: "p99 beside etcd's", unit: "x", want: 1},
	cpuBar("grant beside 10000 leases, 50/s", 0.6),
	cpuBar("grant beside 100000 leases, 50/s", 0.6),
	besideBar("grant beside 100000 leases, 50/s", "grant beside 10000 leases, 50/s", cpuOf, flat),
	rateBar(fmt.Sprintf(keepRow, 10_000), 1.1, 0),
	cpuBar(fmt.Sprintf(keepRow, 10_000), 0.8),
	rateBar(fmt.Sprintf(keepRow, 100_000), 1.1, 0),
	cpuBar(fmt.Sprintf(keepRow, 100_000), 0.8),
	rateBar("put of 10 KB, 64 clients", 1.2, 0.9),
	cpuBar("put of 10 KB, 64 clients", 0.7),
	rateBar("put of 100 KB, 16 clients", 1.1, 0.9),
	cpuBar("put of 100 KB, 16 clients", 0.8),
	rateBar("put of 1 MB, 4 clients", 1, 0.9),
	cpuBar("put of 1 MB, 4 clients", 1),
	rateBar("get of 10 KB, 64 clients", 1.2, 0.9),
	cpuBar("get of 10 KB, 64 clients", 0.6),
	rateBar("get of 100 KB, 16 clients", 1.1, 0.9),
	cpuBar("get of 100 KB, 16 clients", 0.7),
	rateBar("get of 1 MB, 4 clients", 1.1, 0.9),
	cpuBar("get of 1 MB, 4 clients", 0.9),
	rateBar("range of 100 of a million keys of 1000 B, 16 clients", 1, 0),
	rateBar("get of a million keys of 1000 B, 64 clients", 1.1, 0),
	rateBar("Txn of 20 gets, 32 clients", 1.3, 0),
	beyondAGet("count of 100,000 deleted keys", getOneRow, 100),
	aloneBar("put beside the delete of 100,000 keys, 500/s", worstOf, "worst", " ms", 100),
	// The live memory holds the data; the garbage of a load that is just over is in the row above.
	{row: "memory: 10,000 keys, a minute after puts, the largest of three members", of: rssOf, what: "beside etcd's", unit: "x", want: 1.2},
	{row: "memory: 10,000 watchers", of: rssOf, what: "beside etcd's", unit: "x", want: 1.2},
	{row: "memory: 100,000 leases", of: rssOf, what: "beside etcd's", unit: "x", want: 1.2},
	besideBar("memory: 60 s after 10 GB of reads", "memory: idle beside 10k × 1.5 KB", rssOf, 1.3),
	rateBar("get of a million keys of 100 B after kill -9, 64 clients", 1.3, 0),
	rateBar("put of a million keys of 100 B, 64 clients", 1.5, 0),
	rateBar("put of a million keys of 1000 B, 64 clients", 1.3, 0),
	{row: "put of a million keys of 1000 B, 64 clients", of: p99Of, what: "p99 beside etcd's", unit: "x", want: 1},
	aloneBar("gap in writes after kill -9 of the leader, 64 writers", p50Of, "median", " ms", 100),
	aloneBar("gap in writes after kill -9 of the leader, 64 writers", worstOf, "worst", " ms", 1000),
}

// judge holds the medians against the bars. Of a part of the experiments only measured rows are judged; of a whole run a bar with an
// unmeasured row is shown as such.
func judge(all []Line, whole bool) bars.List {
	get := func(row, server string, of func(f *Figure) *float64) float64 {
		for i := range all {
			if f, there := all[i].Servers[server]; there && all[i].Row == row && *of(&f) != 0 {
				return *of(&f)
			}
		}
		return math.NaN()
	}
	measured := make(map[string]bool)
	for i := range all {
		measured[all[i].Row] = true
	}
	var out bars.List
	for _, b := range ownBars {
		if !measured[b.row] && !whole {
			continue
		}
		got := get(b.row, holdfast, b.of)
		switch {
		case b.alone:
		case b.beyond != "":
			got -= get(b.beyond, holdfast, b.of)
		case b.beside != "":
			got /= get(b.beside, holdfast, b.of)
		default:
			got /= get(b.row, etcd, b.of)
		}
		what := b.row + ": " + b.what
		if share := get(b.row, holdfast, b.of) / get(b.row, floor, b.of); b.floor > 0 && !math.IsNaN(share) {
			what += fmt.Sprintf(" (or %.2gx of the floor server's, it is %.2fx)", b.floor, share)
			if b.atLeast && got < b.want && share >= b.floor {
				got = b.want // reached the other way
			}
		}
		if b.atLeast {
			out.AtLeast(what, b.want, got, b.unit)
		} else {
			out.AtMost(what, b.want, got, b.unit)
		}
	}
	return out
}
