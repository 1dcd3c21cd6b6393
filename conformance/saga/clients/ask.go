package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dtm-labs/client/dtmcli"
	"github.com/dtm-labs/logger"
)

// patience is how long a case waits: DTM looks for due transactions every three seconds.
const patience = 20 * time.Second

// quiet keeps DTM's client from printing each request.
func quiet() { logger.InitLog("fatal") }

// transaction is what /query answers, as far as the cases look.
type transaction struct {
	Transaction struct {
		Status         string `json:"status"`
		RollbackReason string `json:"rollback_reason"`
	} `json:"transaction"`
	Branches []struct {
		BranchID string `json:"branch_id"`
		Op       string `json:"op"`
		Status   string `json:"status"`
	} `json:"branches"`
}

// branches is the stored order: branch, operation and status of each.
func (t *transaction) branches() string {
	var all []string
	for _, b := range t.Branches {
		all = append(all, b.BranchID+" "+b.Op+" "+b.Status)
	}
	return strings.Join(all, ", ")
}

func (a *at) get(path string, answer any) error {
	res, err := http.Get(a.http + path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, res.Status, b)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(b, answer)
}

// ended waits until a transaction has ended as it should.
func (a *at) ended(gid, status string) (*transaction, error) {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		var t transaction
		err := a.get("/query?gid="+url.QueryEscape(gid), &t)
		if err != nil {
			return nil, err
		}
		switch {
		case t.Transaction.Status == status:
			return &t, nil
		case t.Transaction.Status == dtmcli.StatusSucceed, t.Transaction.Status == dtmcli.StatusFailed, time.Since(began) > patience:
			return nil, fmt.Errorf("the transaction is %s after %s, want %s: %s; reason %q", t.Transaction.Status, time.Since(began).Round(time.Millisecond), status,
				t.branches(), t.Transaction.RollbackReason)
		}
	}
}

// same reports how two texts differ.
func same(what, got, want string) error {
	if got != want {
		return fmt.Errorf("%s: %s; want %s", what, got, want)
	}
	return nil
}

// refused wants a failure with a word in it.
func refused(err error, word string) error {
	switch {
	case err == nil:
		return errors.New("there is no error, want one with " + word)
	case !strings.Contains(err.Error(), word):
		return fmt.Errorf("the error is %q, want one with %q", err, word)
	}
	return nil
}

// path is the checked part of a transaction in the end: its status, its services' calls, its stored branches and the reason of a failure. A
// field that is "" is not checked.
type path struct{ status, calls, branches, reason string }

// took checks it and returns what the services saw.
func (a *at) took(s *services, gid string, want path) (string, error) {
	t, err := a.ended(gid, want.status)
	if err != nil {
		return "", fmt.Errorf("%w; the services saw %s", err, s.story(gid))
	}
	if want.calls != "" {
		err = errors.Join(err, same("the services saw", s.story(gid), want.calls))
	}
	if want.branches != "" {
		err = errors.Join(err, same("branches", t.branches(), want.branches))
	}
	if want.reason != "" && !strings.Contains(t.Transaction.RollbackReason, want.reason) {
		err = errors.Join(err, fmt.Errorf("the reason is %q, want one with %q", t.Transaction.RollbackReason, want.reason))
	}
	return s.story(gid), err
}
