package outcall

// Net makes calls over the network.
type Net struct{ options Options }

var _ Caller = (*Net)(nil)

// New makes a Net. Close ends it.
func New(o Options) *Net { return &Net{options: o} }

// Go implements Caller.
func (n *Net) Go(req *Request, done func(Result)) (cancel func()) {
	go done(Result{Outcome: Transient, Message: "package outcall makes no calls yet"})
	return func() {}
}

// Close ends all calls as if they were cancelled and returns when each has ended. A call that begins later is Transient.
func (n *Net) Close() {}
