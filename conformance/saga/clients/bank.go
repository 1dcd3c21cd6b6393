package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/dtm-labs/client/dtmcli"
	_ "github.com/go-sql-driver/mysql"
)

// order is what the bank is asked for: the payload of both steps of a transfer.
type order struct {
	From   int    `json:"from"`
	To     int    `json:"to"`
	Amount int    `json:"amount"`
	Refuse string `json:"refuse"` // the service that says no to it: TransOut, TransIn or none
}

// bank is the two services of a transfer and their compensations, behind the barrier of DTM's client:
//
//	clients bank -listen HOST:PORT -db USER:PASSWORD@tcp(HOST:PORT)/
//
// It may be killed at any moment. It expects the tables that conformance/saga/transfer makes. In bank.attempts it notes each call,
// committed before anything else. In bank.ledger it notes each booking, together with the money.
func bank(args []string) error {
	flags := flag.NewFlagSet("bank", flag.ExitOnError)
	listen := flags.String("listen", "", "where the services are")
	dsn := flags.String("db", "", "the database, as Go's driver for MySQL writes it")
	_ = flags.Parse(args) // it exits on an error
	db, err := sql.Open("mysql", *dsn)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)
	b := &teller{db}
	mux := http.NewServeMux()
	mux.HandleFunc("/TransOut", b.move(func(o *order) (account, amount int) { return o.From, -o.Amount }))
	mux.HandleFunc("/TransOutUndo", b.move(func(o *order) (account, amount int) { return o.From, o.Amount }))
	mux.HandleFunc("/TransIn", b.move(func(o *order) (account, amount int) { return o.To, o.Amount }))
	mux.HandleFunc("/TransInUndo", b.move(func(o *order) (account, amount int) { return o.To, -o.Amount }))
	return http.ListenAndServe(*listen, mux)
}

type teller struct{ db *sql.DB }

// move is a service that books an amount to an account.
func (b *teller) move(what func(o *order) (account, amount int)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := b.book(r, what)
		code, text := http.StatusOK, "booked"
		switch {
		case errors.Is(err, dtmcli.ErrFailure):
			code, text = http.StatusConflict, err.Error()
		case err != nil:
			code, text = http.StatusInternalServerError, err.Error()
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text) // the coordinator has gone
	}
}

func (b *teller) book(r *http.Request, what func(o *order) (account, amount int)) error {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		return err
	}
	if err := b.attempt(r.URL.Query()); err != nil {
		return err
	}
	barrier, err := dtmcli.BarrierFromQuery(r.URL.Query())
	if err != nil {
		return err
	}
	forward := barrier.Op == "action"
	if forward && "/"+o.Refuse == r.URL.Path {
		return fmt.Errorf("the customer has changed his mind: %w", dtmcli.ErrFailure)
	}
	account, amount := what(&o)
	return barrier.CallWithDB(b.db, func(tx *sql.Tx) error {
		least := -1 << 40 // what undoes a step is never refused
		if forward {
			least = 0
		}
		res, err := tx.Exec("UPDATE bank.accounts SET balance = balance + ? WHERE id = ? AND balance + ? >= ?", amount, account, amount, least)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("account %d has no %d: %w", account, -amount, dtmcli.ErrFailure)
		}
		_, err = tx.Exec("INSERT INTO bank.ledger (gid, branch_id, op, account, amount) VALUES (?, ?, ?, ?, ?)", barrier.Gid, barrier.BranchID, barrier.Op,
			account, amount)
		return err
	})
}

// attempt notes a call before anything can come of it.
func (b *teller) attempt(q url.Values) error {
	_, err := b.db.Exec("INSERT INTO bank.attempts (gid, branch_id, op) VALUES (?, ?, ?)", q.Get("gid"), q.Get("branch_id"), q.Get("op"))
	return err
}
