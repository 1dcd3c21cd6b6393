package port

import (
	"fmt"
	"strings"
)

// Owed names the resources that the port's connections have not given back, "" if none: places of connections, and memory for requests,
// open calls and answers. After Shutdown and the end of the gRPC server it is "" once the last connection's goroutine has ended. Tests of
// doors check that. Any goroutine.
func (p *Port) Owed() string {
	var all []string
	owed := func(what string, left, all64 int64) {
		if left != all64 {
			all = append(all, fmt.Sprintf("%d bytes of %s", all64-left, what))
		}
	}
	owed("requests", p.budget.Load(), p.opts.BudgetBytes)
	p.waitRoom.mu.Lock()
	if n := len(p.waitRoom.all); n != 0 {
		all = append(all, fmt.Sprintf("%d requests that wait for room", n))
	}
	p.waitRoom.mu.Unlock()
	owed("open calls", 0, p.calls.Load())
	owed("answers", p.answers.Load(), p.opts.AnswerBytes)
	p.mu.Lock()
	for _, of := range []struct {
		what string
		n    int
	}{{"connections", p.conns}, {"connections over HTTP/1.1", len(p.clients)}, {"connections of the gRPC server", len(p.grpcConns)},
		{"connections that have said nothing", p.silent.len}, {"connections without a call", p.unused.len},
		{"connections of net/http", p.web.len()}, {"addresses with connections of the gRPC server", len(p.sites)}} {
		if of.n != 0 {
			all = append(all, fmt.Sprintf("%d %s", of.n, of.what))
		}
	}
	p.mu.Unlock()
	p.askers.mu.Lock()
	if n := len(p.askers.by); n != 0 {
		all = append(all, fmt.Sprintf("%d requests that are being handled", n))
	}
	p.askers.mu.Unlock()
	return strings.Join(all, ", ")
}
