package port

// Held returns the bytes that connections hold at the moment: for large requests, for open calls and their names, and for answers not yet
// taken. Any goroutine.
func (p *Port) Held() (requests, calls, answers int64) {
	return p.opts.BudgetBytes - p.budget.Load(), p.calls.Load(), p.opts.AnswerBytes - p.answers.Load()
}
