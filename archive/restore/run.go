package restore

// run finds the longest row of spans that follow one another, each beginning where another one ends. One leader ships such a row. A leader
// after it that ships the same entries again cuts them elsewhere, so its spans lie across. The number of all spans behind a hole grows with
// the leaders, and so does the number that covers their entries; the longest row does not. The zero run is empty.
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
