package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"time"
)

// listed is one page of the coordinator's list of transactions.
type listed struct {
	Transactions []struct{ Status string }
	Next         string `json:"next_position"`
}

// pageSize is how many transactions are asked for at a time.
const pageSize = "1000"

func page(status, position string) (*listed, error) {
	b, err := get(api + "all?" + url.Values{"status": {status}, "position": {position}, "limit": {pageSize}}.Encode())
	if err != nil {
		return nil, err
	}
	var l listed
	if err := json.Unmarshal(b, &l); err != nil {
		return nil, fmt.Errorf("%w in %.200q", err, b)
	}
	return &l, nil
}

// some reports whether the coordinator has a transaction of that status.
func some(status string) (bool, error) {
	for position := ""; ; {
		l, err := page(status, position)
		if err != nil || len(l.Transactions) > 0 {
			return err == nil, err
		}
		if l.Next == "" {
			return false, nil
		}
		position = l.Next
	}
}

// states counts all transactions by status, as the coordinator lists them.
func states() (map[string]int, error) {
	n := make(map[string]int)
	for position := ""; ; {
		l, err := page("", position)
		if err != nil {
			return nil, err
		}
		for _, t := range l.Transactions {
			n[t.Status]++
		}
		if l.Next == "" {
			return n, nil
		}
		position = l.Next
	}
}

// ended waits until no transaction is open, up to a time.
func ended(patience time.Duration) error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		open := ""
		for _, status := range []string{"submitted", "aborting", "prepared"} {
			yes, err := some(status)
			if err != nil {
				return err
			}
			if yes {
				open = status
				break
			}
		}
		if open == "" {
			return nil
		}
		if time.Since(began) > patience {
			return fmt.Errorf("a transaction is still %s after %s", open, patience)
		}
	}
}

// all waits until no transaction is open and compares their number with the answers: so many done and so many undone. At most two more may
// be done for each client, which did not wait for its last one.
func (c *coordinator) all(done, clients int, undone *int) error {
	if err := ended(10 * time.Second); err != nil {
		return err
	}
	n, err := states()
	if err != nil {
		return err
	}
	// Of its probes the last was done; an earlier one may have been, with a lost answer.
	if n["succeed"] < 1+done || n["succeed"] > c.probes+done+2*clients {
		return fmt.Errorf("the coordinator has %d transactions done, %d were answered", n["succeed"]-1, done)
	}
	if undone != nil && (n["failed"] < *undone || n["failed"] > *undone+2*clients) || undone == nil && n["failed"] > 0 {
		return fmt.Errorf("the coordinator has %d transactions undone", n["failed"])
	}
	return nil
}
