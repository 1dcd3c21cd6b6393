package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// custom is what a client says in custom_data: when a message or a saga is to begin, in which order a saga's steps may run, and of a
// workflow its name and input.
type custom struct {
	delayMs    int64
	concurrent bool
	orders     map[int][]int // the steps that a step must follow
}

// custom reads custom_data. What makes no sense is refused now, and not found out when the transaction is due; what is only written in
// another way than the worker reads it is written anew.
func (r *request) custom() (c custom, err error) {
	if r.CustomData == "" || r.Mode == sagapart.TCC || r.Mode == sagapart.XA {
		return c, nil
	}
	v, err := parse([]byte(r.CustomData))
	switch {
	case err != nil:
	case v.null() || v[0] == '[' && v.emptyList():
		r.CustomData = ""
		return c, nil
	case r.Mode == sagapart.Workflow:
		var w struct {
			Name string
			Data []byte
		}
		err = json.Unmarshal(v, &w)
	default:
		if err = v.members(func(name string, v value) error { return c.field(r, name, v) }); err == nil {
			err = c.runs()
		}
	}
	if err != nil {
		return c, refuse(500, "custom_data: %v", err)
	}
	if r.Mode != sagapart.Workflow && !plainCustom(v) {
		r.CustomData = c.text(r.Mode)
	}
	return c, nil
}

func (c *custom) field(r *request, name string, v value) (err error) {
	switch strings.ToLower(name) {
	case "delay":
		c.delayMs, err = v.seconds()
	case "concurrent":
		c.concurrent, err = v.flag()
	case "orders":
		if r.Mode == sagapart.Saga {
			c.orders, err = v.orders(len(r.steps))
		}
	}
	return err
}

// shownCustom is custom_data as DTM's clients in Go write it.
type shownCustom struct {
	Delay      seconds       `json:"delay,omitempty"`
	Orders     map[int][]int `json:"orders,omitempty"`
	Concurrent bool          `json:"concurrent,omitempty"`
}

// plainCustom reports whether custom_data is written as in shownCustom.
func plainCustom(v value) bool {
	var own struct {
		Delay      float64       `json:"delay"`
		Orders     map[int][]int `json:"orders"`
		Concurrent bool          `json:"concurrent"`
	}
	return json.Unmarshal(v, &own) == nil
}

func (c *custom) text(m sagapart.Mode) string {
	if m == sagapart.Msg {
		c.orders = nil
	}
	b, err := json.Marshal(&shownCustom{seconds(c.delayMs), c.orders, c.concurrent})
	if err != nil {
		return "" // cannot be: numbers can be written
	}
	return string(b)
}

// orders reads which of a number of steps must follow which others: {"2":[0,1]}.
func (v value) orders(steps int) (map[int][]int, error) {
	step := func(v value) (int, error) {
		if v.null() {
			return 0, errors.New("orders: null is no step")
		}
		n, err := v.count()
		if err == nil && n >= int64(steps) {
			err = fmt.Errorf("orders: step %d of %d, counted from 0", n, steps)
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
