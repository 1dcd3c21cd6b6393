package saga

import (
	"fmt"
	"strings"

	esaga "github.com/holdfastdb/holdfast/entry/saga"
)

// topicPrefix begins an action that is not a URL but the name of a topic.
const topicPrefix = "topic://"

// branches makes the branches of a saga or a message out of its steps. A transaction of another mode begins without any: its client
// registers them. Their order is what DTM's clients see in /query, and the order in which the worker goes through them.
func (d *Door) branches(r *request) ([]esaga.Branch, error) {
	switch r.Mode {
	case esaga.Saga, esaga.Msg:
	default:
		return nil, nil
	}
	if len(r.payloads) < len(r.steps) {
		return nil, refuse(500, "payloads: %d for %d steps; each step needs one, which may be empty", len(r.payloads), len(r.steps))
	}
	if err := r.bounded(); err != nil {
		return nil, err
	}
	if r.Mode == esaga.Saga {
		return r.sagaBranches(), nil
	}
	return d.messages(r)
}

// bounded judges the size of what the steps carry.
func (r *request) bounded() error {
	all := 0
	for i := range r.steps {
		n := len(r.payloads[i])
		if n > esaga.MaxPayload {
			return refuse(413, "payload of step %d: %d bytes are too many; at most %d", i+1, n, esaga.MaxPayload)
		}
		all += n
		if longest := max(len(r.steps[i].action), len(r.steps[i].compensate)); longest > esaga.MaxURLBytes {
			return refuse(413, "step %d: a URL of %d bytes is too long; at most %d", i+1, longest, esaga.MaxURLBytes)
		}
	}
	if all > esaga.MaxTransaction {
		return refuse(413, "the payloads have %d bytes; at most %d in one transaction", all, esaga.MaxTransaction)
	}
	return nil
}

// sagaBranches are a compensation and an action for each step, in this order.
func (r *request) sagaBranches() []esaga.Branch {
	all := make([]esaga.Branch, 0, 2*len(r.steps))
	for i := range r.steps {
		s, id := &r.steps[i], fmt.Sprintf("%02d", i+1)
		all = append(all,
			esaga.Branch{ID: id, Op: esaga.OpCompensate, URL: s.compensate, Status: esaga.Prepared, Payload: r.payloads[i]},
			esaga.Branch{ID: id, Op: esaga.OpAction, URL: s.action, Status: esaga.Prepared, Payload: r.payloads[i]})
	}
	return all
}

// messages are an action for each step, or one for each subscriber where the step names a topic. Who subscribes is read from the state as
// of now.
func (d *Door) messages(r *request) ([]esaga.Branch, error) {
	all, asked := make([]esaga.Branch, 0, len(r.steps)), false
	for i := range r.steps {
		id := fmt.Sprintf("%02d", i+1)
		name, topic := strings.CutPrefix(r.steps[i].action, topicPrefix)
		if !topic {
			all = append(all, esaga.Branch{ID: id, Op: esaga.OpAction, URL: name, Status: esaga.Prepared, Payload: r.payloads[i]})
			continue
		}
		if !asked {
			if err := d.node.Linearize(d.bounded()); err != nil {
				return nil, unread(err)
			}
			asked = true
		}
		t, err := d.machine.Topic(name)
		if err != nil {
			return nil, err
		}
		if t == nil || len(t.Subscribers) == 0 {
			return nil, refuse(500, "topic not found")
		}
		for j := range t.Subscribers {
			one := id
			if len(t.Subscribers) > 1 {
				one = fmt.Sprintf("%s-%02d", id, j+1)
			}
			all = append(all, esaga.Branch{ID: one, Op: esaga.OpAction, URL: t.Subscribers[j].URL, Status: esaga.Prepared, Payload: r.payloads[i]})
		}
	}
	return all, nil
}
