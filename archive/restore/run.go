package restore

// run finds the longest row of spans in which each span begins at its predecessor's end. One leader uploads such a row. The next leader
// uploads the same entries again and cuts them elsewhere, so its spans overlap the row and do not extend it. Counting all spans behind a
// gap, or those that cover its entries, was rejected: both numbers grow with each leader. The zero run is empty.
type run struct {
	to   map[uint64]int // by last entry: the longest row that ends there
	most int
	all  int // spans
}

// mostLeaders bounds the leaders that may have left spans behind one gap. It bounds the spans that are read and kept to judge the gap.
const mostLeaders = 32

// many reports whether the spans are more than crashed leaders can have had in flight.
func (r *run) many() bool { return r.most > mostBehindGap || r.all > mostLeaders*mostBehindGap }

// add takes in a span. The firsts of the spans ascend.
func (r *run) add(first, last uint64) {
	if r.to == nil {
		r.to = map[uint64]int{}
	}
	n := r.to[first-1] + 1
	r.to[last] = max(r.to[last], n)
	r.most = max(r.most, n)
	r.all++
}
