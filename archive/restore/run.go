package restore

// run finds the longest row of spans in which each span begins where the one before it ends. One leader uploads such a row. The next leader
// uploads the same entries again and cuts them elsewhere, so its spans overlap the row and do not extend it. Counting all spans behind a gap,
// or those that cover its entries, was rejected: both numbers grow with each leader. The zero run is empty.
type run struct {
	to   map[uint64]int // by last entry: the longest row that ends there
	most int
}

// add takes in a span. The firsts of the spans ascend.
func (r *run) add(first, last uint64) {
	if r.to == nil {
		r.to = map[uint64]int{}
	}
	n := r.to[first-1] + 1
	r.to[last] = max(r.to[last], n)
	r.most = max(r.most, n)
}
