package port

// Held returns the bytes that connections have drawn at the moment: for large requests, for open calls and what they name, and for answers that
// no client has taken yet. Any goroutine.
func (p *Port) Held() (requests, calls, answers int64) {
	return p.opts.BudgetBytes - p.budget.Load(), p.calls.Load(), p.opts.AnswerBytes - p.answers.Load()
}
