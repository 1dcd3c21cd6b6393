package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// custom is the client's custom_data. It has the start time of a message or a saga, the order of a saga's steps, and a workflow's name and
// input.
type custom struct {
	delayMs    int64
	concurrent bool
	orders     map[int][]int16 // the steps that a step must follow
}

// custom reads custom_data. Invalid values are refused now, not when the transaction is due. Values in another notation than the worker's
// are rewritten.
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
	Delay      seconds         `json:"delay,omitempty"`
	Orders     map[int][]int16 `json:"orders,omitempty"`
	Concurrent bool            `json:"concurrent,omitempty"`
}

// plainCustom reports whether custom_data is written as in shownCustom.
func plainCustom(v value) bool {
	number := func(v value, whole bool) error {
		if v.null() {
			return nil
		}
		if _, err := strconv.ParseFloat(string(v), 64); err != nil || v[0] == '"' {
			return errOtherForm
		}
		if _, err := strconv.Atoi(string(v)); whole && err != nil {
			return errOtherForm
		}
		return nil
	}
	orders := func(name string, v value) error {
		if _, err := strconv.Atoi(name); err != nil || !v.null() && v[0] != '[' {
			return errOtherForm
		}
		return v.elements(func(v value) error { return number(v, true) })
	}
	return v[0] == '{' && v.members(func(name string, v value) error {
		switch strings.ToLower(name) {
		case "delay":
			return number(v, false)
		case "concurrent":
			if !v.null() && v[0] != 't' && v[0] != 'f' {
				return errOtherForm
			}
		case "orders":
			if !v.null() && v[0] != '{' {
				return errOtherForm
			}
			return v.members(orders)
		}
		return nil
	}) == nil
}

var errOtherForm = errors.New("written in another way than the worker reads it")

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

// orders reads which of a number of steps must follow which others: {"2":[0,1]}. A step that is named twice counts once.
func (v value) orders(steps int) (map[int][]int16, error) {
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
	all, seen, list := map[int][]int16{}, make([]int, steps), 0
	return all, v.members(func(name string, v value) error {
		after, err := step(value(name))
		if err != nil {
			return err
		}
		list++
		first := all[after][:0]
		err = v.elements(func(v value) error {
			before, err := step(v)
			if err == nil && seen[before] != list {
				seen[before] = list
				first = append(first, int16(before))
			}
			return err
		})
		all[after] = first
		return err
	})
}

// runs returns an error if there are steps that wait for each other: they would never run. Steps that are not concurrent follow each other
// anyway.
func (c *custom) runs() error {
	const open, done = 1, 2
	type visit struct{ at, next int }
	state := map[int]int{}
	for _, first := range slices.Sorted(maps.Keys(c.orders)) {
		if state[first] != 0 {
			continue
		}
		state[first] = open
		for path := []visit{{first, 0}}; len(path) > 0; {
			top := &path[len(path)-1]
			if top.next == len(c.orders[top.at]) {
				state[top.at] = done
				path = path[:len(path)-1]
				continue
			}
			before := int(c.orders[top.at][top.next])
			top.next++
			if state[before] == open || before > top.at && !c.concurrent {
				return fmt.Errorf("orders: step %d and step %d wait for each other", top.at, before)
			}
			if state[before] == 0 {
				state[before] = open
				path = append(path, visit{before, 0})
			}
		}
	}
	return nil
}
