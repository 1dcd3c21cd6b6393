package saga

import (
	"fmt"
	"maps"
	"slices"
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

// custom is what a client says of a saga or a message in custom_data.
type custom struct {
	delayMs    int64
	concurrent bool
	orders     map[int][]int // the steps that a step must follow
}

// custom reads custom_data where this door or the worker reads anything of it, so that what makes no sense is refused now and not found
// out when the transaction is due.
func (r *request) custom() (c custom, err error) {
	if r.CustomData == "" || r.Mode != esaga.Saga && r.Mode != esaga.Msg {
		return c, nil
	}
	v, err := parse([]byte(r.CustomData))
	if err != nil {
		return c, refuse(500, "custom_data: %v", err)
	}
	err = v.members(func(name string, v value) (err error) {
		switch name {
		case "delay":
			c.delayMs, err = v.seconds()
		case "concurrent":
			c.concurrent, err = v.flag()
		case "orders":
			if r.Mode == esaga.Saga {
				c.orders, err = r.orders(v)
			}
		}
		return err
	})
	if err == nil {
		err = c.runs()
	}
	if err != nil {
		return c, refuse(500, "custom_data: %v", err)
	}
	return c, nil
}

// orders reads which steps must follow which others: {"2":[0,1]}.
func (r *request) orders(v value) (map[int][]int, error) {
	step := func(v value) (int, error) {
		n, err := v.count()
		if err == nil && n >= int64(len(r.steps)) {
			err = fmt.Errorf("orders: step %d of %d, counted from 0", n, len(r.steps))
		}
		return int(n), err
	}
	all := map[int][]int{}
	return all, v.members(func(name string, v value) error {
		after, err := step(value(name))
		if err != nil {
			return err
		}
		all[after] = nil
		return v.elements(func(v value) error {
			before, err := step(v)
			all[after] = append(all[after], before)
			return err
		})
	})
}

// runs returns an error if there are steps that wait for each other: they would never run. Steps that are not concurrent follow each other
// anyway.
func (c *custom) runs() error {
	const open, done = 1, 2
	state := map[int]int{}
	for _, first := range slices.Sorted(maps.Keys(c.orders)) {
		for todo := []int{first}; len(todo) > 0; {
			at := todo[len(todo)-1]
			if state[at] != 0 {
				state[at], todo = done, todo[:len(todo)-1]
				continue
			}
			state[at] = open
			for _, before := range c.orders[at] {
				if state[before] == open || before > at && !c.concurrent {
					return fmt.Errorf("orders: step %d and step %d wait for each other", at, before)
				}
				if state[before] == 0 {
					todo = append(todo, before)
				}
			}
		}
	}
	return nil
}
