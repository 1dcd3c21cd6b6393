package advance

import (
	"encoding/json"
	"fmt"
	"strconv"

	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// plan is a transaction's CustomData: how to run it. Each mode has words of its own; others are passed over.
type plan struct {
	// problem is why it cannot be run as it is, "" for most.
	problem string

	concurrent    bool    // saga
	before, after [][]int // saga: by step, the steps that it follows, and those that follow it
	delayMs       int64   // msg
	name          string  // workflow
	data          []byte  // workflow
}

// newPlan reads it.
func newPlan(tx *sagamachine.Transaction) *plan {
	p := &plan{}
	if err := p.read(tx); err != nil {
		p.problem = err.Error()
	}
	return p
}

func (p *plan) read(tx *sagamachine.Transaction) error {
	custom := []byte(tx.CustomData)
	if len(custom) == 0 {
		custom = []byte("{}")
	}
	switch tx.Mode {
	case sagapart.Saga:
		return p.readSaga(tx, custom)
	case sagapart.Msg:
		var c struct {
			Delay float64 `json:"delay"` // seconds
		}
		if err := json.Unmarshal(custom, &c); err != nil {
			return fmt.Errorf("custom_data of the message: %w", err)
		}
		p.delayMs = int64(min(max(c.Delay, 0), 1e12) * 1000)
	case sagapart.Workflow:
		var c struct {
			Name string `json:"name"`
			Data []byte `json:"data"`
		}
		if err := json.Unmarshal(custom, &c); err != nil {
			return fmt.Errorf("custom_data of the workflow: %w", err)
		}
		p.name, p.data = c.Name, c.Data
	case sagapart.TCC, sagapart.XA:
	default:
		return fmt.Errorf("mode %d is not known to this build", tx.Mode)
	}
	return nil
}

// readSaga reads {"concurrent":true,"orders":{"2":[0,1]}}: the third step follows the first two.
func (p *plan) readSaga(tx *sagamachine.Transaction, custom []byte) error {
	var c struct {
		Concurrent bool             `json:"concurrent"`
		Orders     map[string][]int `json:"orders"`
	}
	if err := json.Unmarshal(custom, &c); err != nil {
		return fmt.Errorf("custom_data of the saga: %w", err)
	}
	n := len(tx.Branches) / 2
	if len(tx.Branches)%2 != 0 {
		return fmt.Errorf("a saga with %d branches: there must be a compensation for each action", len(tx.Branches))
	}
	for k := range n {
		if c, a := tx.Branches[2*k].Op, tx.Branches[2*k+1].Op; c != sagapart.OpCompensate || a != sagapart.OpAction {
			return fmt.Errorf("step %d of the saga is a %s and a %s: it must be a compensation and its action", k, c, a)
		}
	}
	p.concurrent = c.Concurrent
	p.before, p.after = make([][]int, n), make([][]int, n)
	follow := func(k, earlier int) {
		p.before[k], p.after[earlier] = append(p.before[k], earlier), append(p.after[earlier], k)
	}
	if !c.Concurrent {
		for k := 1; k < n; k++ {
			follow(k, k-1)
		}
	}
	for k := range n {
		for _, earlier := range c.Orders[strconv.Itoa(k)] {
			if earlier < 0 || earlier >= n || earlier == k {
				return fmt.Errorf("orders of custom_data: step %d is to follow step %d of %d", k, earlier, n)
			}
			follow(k, earlier)
		}
	}
	if p.circular() {
		return fmt.Errorf("orders of custom_data: they go round in a circle, so that some step would wait for itself")
	}
	return nil
}

// circular reports whether some step would have to follow itself.
func (p *plan) circular() bool {
	left := make([]int, len(p.before))
	var free []int
	for k := range p.before {
		if left[k] = len(p.before[k]); left[k] == 0 {
			free = append(free, k)
		}
	}
	for i := 0; i < len(free); i++ {
		for _, k := range p.after[free[i]] {
			if left[k]--; left[k] == 0 {
				free = append(free, k)
			}
		}
	}
	return len(free) < len(p.before)
}
