package saga

import (
	"fmt"
	"strings"

	"github.com/holdfastdb/holdfast/core/entry"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// topicPrefix begins an action that is not a URL but the name of a topic.
const topicPrefix = "topic://"

// branches makes the branches of a saga or a message out of its steps. A transaction of another mode begins without any: its client
// registers them. Their order is what DTM's clients see in /query, and the order in which the worker goes through them.
func (d *Door) branches(r *request) ([]sagapart.Branch, error) {
	switch r.Mode {
	case sagapart.Saga, sagapart.Msg:
	default:
		return nil, nil
	}
	if len(r.payloads) < len(r.steps) {
		return nil, refuse(500, "payloads: %d for %d steps; each step needs one, which may be empty", len(r.payloads), len(r.steps))
	}
	if err := r.bounded(); err != nil {
		return nil, err
	}
	if r.Mode == sagapart.Saga {
		if n := 2 * len(r.steps); n > sagapart.MaxBranches {
			return nil, tooManyBranches(n)
		}
		return r.sagaBranches(), nil
	}
	return d.messages(r)
}

// tooManyBranches refuses a transaction of n of them.
func tooManyBranches(n int) error {
	return refuse(400, "%d branches are too many; at most %d in one transaction", n, sagapart.MaxBranches)
}

// bounded checks the size of the steps' payloads.
func (r *request) bounded() error {
	all := 0
	for i := range r.steps {
		n := len(r.payloads[i])
		if n > sagapart.MaxPayload {
			return refuse(413, "payload of step %d: %d bytes are too many; at most %d", i+1, n, sagapart.MaxPayload)
		}
		all += n
	}
	if all > sagapart.MaxTransaction {
		return refuse(413, "the payloads have %d bytes; at most %d in one transaction", all, sagapart.MaxTransaction)
	}
	return nil
}

// sagaBranches are a compensation and an action for each step, in this order.
func (r *request) sagaBranches() []sagapart.Branch {
	all := make([]sagapart.Branch, 0, 2*len(r.steps))
	for i := range r.steps {
		s, id := &r.steps[i], fmt.Sprintf("%02d", i+1)
		all = append(all,
			sagapart.Branch{ID: id, Op: sagapart.OpCompensate, URL: s.compensate, Status: sagapart.Prepared, Payload: r.payloads[i]},
			sagapart.Branch{ID: id, Op: sagapart.OpAction, URL: s.action, Status: sagapart.Prepared, Payload: r.payloads[i]})
	}
	return all
}

// messages are an action for each step, or one for each subscriber where the step names a topic. The subscribers are read from the present
// state. They are counted before any is made: a step is some bytes, and a topic has up to a thousand subscribers.
func (d *Door) messages(r *request) ([]sagapart.Branch, error) {
	topics, n, err := d.subscribers(r)
	if err != nil {
		return nil, err
	}
	all := make([]sagapart.Branch, 0, n)
	for i := range r.steps {
		id := fmt.Sprintf("%02d", i+1)
		name, topic := strings.CutPrefix(r.steps[i].action, topicPrefix)
		if !topic {
			all = append(all, sagapart.Branch{ID: id, Op: sagapart.OpAction, URL: name, Status: sagapart.Prepared, Payload: r.payloads[i]})
			continue
		}
		to := topics[name]
		for j := range to {
			one := id
			if len(to) > 1 {
				one = fmt.Sprintf("%s-%02d", id, j+1)
			}
			all = append(all, sagapart.Branch{ID: one, Op: sagapart.OpAction, URL: to[j].URL, Status: sagapart.Prepared, Payload: r.payloads[i]})
		}
	}
	return all, nil
}

// subscribers reads the topics that the steps of a message name, each once, and counts the branches.
func (d *Door) subscribers(r *request) (topics map[string][]sagamachine.Subscriber, n int, err error) {
	bytes := 0
	for i := range r.steps {
		name, topic := strings.CutPrefix(r.steps[i].action, topicPrefix)
		if !topic {
			n++
			continue
		}
		to, known := topics[name]
		if !known {
			if topics == nil {
				topics = map[string][]sagamachine.Subscriber{}
				if err := d.node.Linearize(d.bounded()); err != nil {
					return nil, 0, unread(err)
				}
			}
			t, err := d.machine.Topic(name)
			if err != nil {
				return nil, 0, err
			}
			if t == nil || len(t.Subscribers) == 0 {
				return nil, 0, refuse(500, "topic not found")
			}
			to = t.Subscribers
			topics[name] = to
		}
		if n += len(to); n > sagapart.MaxBranches {
			return nil, 0, tooManyBranches(n + len(r.steps) - 1 - i) // at least: others may be topics
		}
		for j := range to {
			bytes += len(to[j].URL)
		}
		if bytes > entry.MaxCommandBytes {
			return nil, 0, refuse(413, "the URLs of the subscribers are too many bytes for one transaction; at most %d", entry.MaxCommandBytes)
		}
	}
	return topics, n, nil
}
