package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// smallMost is how long a small statement may take beside large ones that need none of its rows.
const smallMost = 500 * time.Millisecond

// padded is a table in the shape of sysbench's, with so many rows from 1 on.
type padded struct {
	name string // with its database
	rows int
}

// create makes the table and fills it by several clients.
func (p padded) create(n *proctest.Node) error {
	const clients, piece = 8, 1000
	if err := onLeader(n, "CREATE DATABASE IF NOT EXISTS "+p.name[:strings.Index(p.name, ".")],
		"CREATE TABLE "+p.name+" (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL, KEY by_k (k))"); err != nil {
		return err
	}
	var next atomic.Int64
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			c, err := connect(n, "")
			if err != nil {
				errs[i] = err
				return
			}
			defer c.close()
			for {
				from := int(next.Add(piece)) - piece + 1
				if from > p.rows {
					return
				}
				var text strings.Builder
				text.WriteString("INSERT INTO " + p.name + " VALUES ")
				for id := from; id < from+piece && id <= p.rows; id++ {
					if id > from {
						text.WriteString(", ")
					}
					text.WriteString(p.row(id))
				}
				if _, err := c.change(text.String()); err != nil {
					errs[i] = fmt.Errorf("insert of rows from %d on: %w", from, errors.Unwrap(err))
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// row is a row as INSERT has it.
func (p padded) row(id int) string {
	return fmt.Sprintf("(%d, %d, 'c of row %0100d', 'pad of row %040d')", id, id*7919%p.rows, id, id)
}

// small are clients that run the statements of oltp_write_only on rows of a table, one transaction after the other, and time each.
type small struct {
	table    padded
	from, to int // the rows that they use
}

// outcome is what small clients have seen.
type outcome struct {
	statements, transactions, refused int
	slowest                           time.Duration
	text                              string // of the slowest
	at                                time.Time
}

func (o *outcome) add(p outcome) {
	o.statements, o.transactions, o.refused = o.statements+p.statements, o.transactions+p.transactions, o.refused+p.refused
	if p.slowest > o.slowest {
		o.slowest, o.text, o.at = p.slowest, p.text, p.at
	}
}

func (o outcome) String() string {
	s := fmt.Sprintf("%d small statements, the slowest %s", o.statements, round(o.slowest))
	if o.slowest > smallMost/2 {
		s += " (" + o.text + ")"
	}
	return s
}

// run runs clients until ctx ends. Deadlocks among them are counted. Any other error ends a client and is returned.
func (s small) run(ctx context.Context, n *proctest.Node, clients int) (all outcome, err error) {
	seen, errs := make([]outcome, clients), make([]error, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() { errs[i] = s.one(ctx, n, &seen[i]) })
	}
	wg.Wait()
	for _, o := range seen {
		all.add(o)
	}
	return all, errors.Join(errs...)
}

func (s small) one(ctx context.Context, n *proctest.Node, o *outcome) error {
	c, err := connect(n, "")
	if err != nil {
		return err
	}
	defer c.close()
	for ctx.Err() == nil {
		id, other := s.from+rand.IntN(s.to-s.from+1), s.from+rand.IntN(s.to-s.from+1)
		texts := []string{"BEGIN",
			fmt.Sprintf("UPDATE %s SET k = k + 1 WHERE id = %d", s.table.name, id),
			fmt.Sprintf("UPDATE %s SET c = 'written %d' WHERE id = %d", s.table.name, o.statements, other),
			fmt.Sprintf("DELETE FROM %s WHERE id = %d", s.table.name, id),
			fmt.Sprintf("INSERT INTO %s VALUES %s", s.table.name, s.table.row(id)),
			"COMMIT"}
		for _, text := range texts {
			began := time.Now()
			_, err := c.change(text)
			took := time.Since(began)
			if o.statements++; took > o.slowest {
				o.slowest, o.text, o.at = took, text, began
			}
			if number(err) == 1213 {
				o.refused++
				break
			}
			if err != nil {
				return err
			}
			if text == "COMMIT" {
				o.transactions++
			}
		}
	}
	return nil
}
