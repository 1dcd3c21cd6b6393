package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dtm-labs/client/dtmcli"
	"github.com/go-resty/resty/v2"
)

// amount is the payload of all cases.
type amount struct {
	Amount int `json:"amount"`
}

var thirty = amount{30}

const paid = `{"amount":30}`

// httpStories are the cases over HTTP and JSON-RPC.
func httpStories(a *at) []story {
	s := newServices()
	w := &web{at: a, services: s}
	return []story{
		{"newGid and version", w.names},
		{"saga that succeeds", w.saga},
		{"saga without wait_result", w.sagaLater},
		{"saga whose second step says no", w.sagaFails},
		{"saga whose service is broken once", w.sagaRetried},
		{"saga whose service is at it", w.sagaOngoing},
		{"saga with a retry limit", w.sagaLimit},
		{"saga with a timeout", w.sagaTimeout},
		{"saga with headers for its branches", w.sagaHeaders},
		{"saga with steps at the same time and orders", w.sagaOrders},
		{"saga at the same time that fails", w.sagaOrdersFail},
		{"saga over JSON-RPC", w.sagaRPC},
		{"saga submitted once more", w.sagaAgain},
		{"saga with a step that needs no undoing", w.sagaNoUndo},
		{"msg that is prepared and submitted", w.msg},
		{"msg whose sender fails", w.msgAborted},
		{"msg whose sender is never heard of: committed", w.msgAskedYes},
		{"msg whose sender is never heard of: rolled back", w.msgAskedNo},
		{"msg with a delay", w.msgDelay},
		{"msg to a topic", w.msgTopic},
		{"tcc that is confirmed", w.tcc},
		{"tcc whose Try says no", w.tccCancelled},
		{"tcc within tcc", w.tccNested},
		{"tcc whose sender is never heard of", w.tccLost},
		{"forceStop and query", w.stopped},
	}
}

// web is the cases over HTTP.
type web struct {
	*at
	*services
}

func (w *web) newSaga(gid string) *dtmcli.Saga {
	saga := dtmcli.NewSaga(w.http, gid).Add(w.url+"TransOut", w.url+"TransOutUndo", thirty).Add(w.url+"TransIn", w.url+"TransInUndo", thirty)
	saga.WaitResult = true
	saga.RetryInterval = 1
	return saga
}

func (w *web) gid() string { return dtmcli.MustGenGid(w.http) }

const (
	sagaCalls = "01 action TransOut POST " + paid + "; 02 action TransIn POST " + paid
	sagaGood  = "01 compensate prepared, 01 action succeed, 02 compensate prepared, 02 action succeed"
	undone    = "; 02 compensate TransInUndo POST " + paid + "; 01 compensate TransOutUndo POST " + paid
)

func (w *web) names() (string, error) {
	one, two := w.gid(), w.gid()
	if one == two || len(one) != 22 {
		return "", fmt.Errorf("gids %q and %q", one, two)
	}
	var v struct{ Version string }
	if err := w.get("/version", &v); err != nil || v.Version == "" {
		return "", fmt.Errorf("version %q, %v", v.Version, err)
	}
	return "gids of 22 characters", nil
}

func (w *web) saga() (string, error) {
	gid := w.gid()
	if err := w.newSaga(gid).Submit(); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed", calls: sagaCalls, branches: sagaGood})
}

func (w *web) sagaLater() (string, error) {
	gid := w.gid()
	saga := w.newSaga(gid)
	saga.WaitResult = false
	if err := saga.Submit(); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed", calls: sagaCalls, branches: sagaGood})
}

func (w *web) sagaFails() (string, error) {
	gid := w.gid()
	w.answer(gid, "TransIn", failure)
	if err := refused(w.newSaga(gid).Submit(), "FAILURE"); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "failed", calls: sagaCalls + undone, reason: "no money",
		branches: "01 compensate succeed, 01 action succeed, 02 compensate succeed, 02 action failed"})
}

func (w *web) sagaRetried() (string, error) {
	gid := w.gid()
	w.answer(gid, "TransIn", broken)
	saga := w.newSaga(gid)
	saga.WaitResult = false
	if err := saga.Submit(); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed", calls: sagaCalls + "; 02 action TransIn POST " + paid, branches: sagaGood})
}

func (w *web) sagaOngoing() (string, error) {
	gid := w.gid()
	w.answer(gid, "TransOut", ongoing)
	if err := refused(w.newSaga(gid).Submit(), "wait result not return success"); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed", calls: "01 action TransOut POST " + paid + "; " + sagaCalls, branches: sagaGood})
}

func (w *web) sagaLimit() (string, error) {
	gid := w.gid()
	w.answer(gid, "TransOut", broken, broken, broken, broken, broken)
	saga := w.newSaga(gid)
	saga.WithRetryLimit(2)
	if err := refused(saga.Submit(), "RetryLimit"); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "failed", reason: "RetryCount is greater than RetryLimit, RetryLimit: 2",
		calls: strings.Repeat("01 action TransOut POST "+paid+"; ", 3) + "01 compensate TransOutUndo POST " + paid})
}

func (w *web) sagaTimeout() (string, error) {
	gid := w.gid()
	w.answer(gid, "TransIn", ongoing, ongoing, ongoing, ongoing, ongoing, ongoing, ongoing, ongoing)
	saga := w.newSaga(gid)
	saga.WaitResult, saga.TimeoutToFail = false, 2
	if err := saga.Submit(); err != nil {
		return "", err
	}
	if note, err := w.took(w.services, gid, path{status: "failed", reason: "Timeout after 2 seconds"}); err != nil {
		return note, err
	}
	all := w.story(gid)
	if !strings.HasPrefix(all, sagaCalls) || !strings.HasSuffix(all, undone) {
		return "", errors.New("the services saw " + all)
	}
	return "both undone after 2 s", nil
}

func (w *web) sagaHeaders() (string, error) {
	gid := w.gid()
	saga := w.newSaga(gid)
	saga.BranchHeaders = map[string]string{"X-Tenant": "seven"}
	if err := saga.Submit(); err != nil {
		return "", err
	}
	for _, c := range w.calls(gid) {
		if c.header != "seven" || c.mode != "saga" {
			return "", fmt.Errorf("%s came with X-Tenant %q and trans_type %q", c, c.header, c.mode)
		}
	}
	return w.took(w.services, gid, path{status: "succeed", calls: sagaCalls})
}

// newOrders is four steps: the last two want the first two, whose compensations want those of the last two.
func (w *web) newOrders(gid string) *dtmcli.Saga {
	saga := dtmcli.NewSaga(w.http, gid)
	for _, name := range []string{"A", "B", "C", "D"} {
		saga.Add(w.url+name, w.url+name+"Undo", thirty)
	}
	saga.AddBranchOrder(2, []int{0, 1}).AddBranchOrder(3, []int{0, 1}).SetConcurrent()
	saga.WaitResult = true
	return saga
}

// inOrder checks that each service was called once, those of one group before those of the next.
func (w *web) inOrder(gid string, groups ...[]string) error {
	all := w.calls(gid)
	for _, group := range groups {
		if len(all) < len(group) {
			return errors.New("the services saw " + w.story(gid))
		}
		var got []string
		for _, c := range all[:len(group)] {
			got = append(got, c.service)
		}
		all = all[len(group):]
		if slices.Sort(got); !slices.Equal(got, group) {
			return errors.New("the services saw " + w.story(gid))
		}
	}
	if len(all) > 0 {
		return errors.New("the services saw " + w.story(gid))
	}
	return nil
}

func (w *web) sagaOrders() (string, error) {
	gid := w.gid()
	if err := w.newOrders(gid).Submit(); err != nil {
		return "", err
	}
	_, err := w.took(w.services, gid, path{status: "succeed"})
	return "A and B, then C and D", errors.Join(err, w.inOrder(gid, []string{"A", "B"}, []string{"C", "D"}))
}

func (w *web) sagaOrdersFail() (string, error) {
	gid := w.gid()
	w.answer(gid, "D", failure)
	if err := refused(w.newOrders(gid).Submit(), "FAILURE"); err != nil {
		return "", err
	}
	_, err := w.took(w.services, gid, path{status: "failed", reason: "no money"})
	return "A and B, C and D, then what undoes C and D, then A and B", errors.Join(err,
		w.inOrder(gid, []string{"A", "B"}, []string{"C", "D"}, []string{"CUndo", "DUndo"}, []string{"AUndo", "BUndo"}))
}

func (w *web) sagaRPC() (string, error) {
	gid := w.gid()
	saga := w.newSaga(gid)
	saga.Dtm, saga.Protocol = w.rpc, "json-rpc"
	if err := saga.Submit(); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed", calls: sagaCalls})
}

func (w *web) sagaAgain() (string, error) {
	gid := w.gid()
	if err := w.newSaga(gid).Submit(); err != nil {
		return "", err
	}
	err := w.newSaga(gid).Submit()
	if err != nil { // as DTM has it; the same once more is no failure otherwise
		err = refused(err, "current status 'succeed', cannot sumbmit")
	}
	note, err2 := w.took(w.services, gid, path{status: "succeed", calls: sagaCalls})
	return note, errors.Join(err, err2)
}

func (w *web) sagaNoUndo() (string, error) {
	gid := w.gid()
	w.answer(gid, "TransIn", failure)
	saga := dtmcli.NewSaga(w.http, gid).Add(w.url+"Look", "", thirty).Add(w.url+"TransIn", w.url+"TransInUndo", thirty)
	saga.WaitResult = true
	if err := refused(saga.Submit(), "FAILURE"); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "failed",
		calls: "01 action Look POST " + paid + "; 02 action TransIn POST " + paid + "; 02 compensate TransInUndo POST " + paid})
}

const msgCalls = "01 action TransOut POST " + paid + "; 02 action TransIn POST " + paid

func (w *web) newMsg(gid string) *dtmcli.Msg {
	msg := dtmcli.NewMsg(w.http, gid).Add(w.url+"TransOut", thirty).Add(w.url+"TransIn", thirty)
	msg.WaitResult = true
	return msg
}

func (w *web) msg() (string, error) {
	gid := w.gid()
	var own string
	err := w.newMsg(gid).DoAndSubmit(w.url+"Query", func(bb *dtmcli.BranchBarrier) error {
		own = bb.BranchID + " " + bb.Op + " of " + bb.TransType
		return nil
	})
	if err != nil {
		return "", err
	}
	note, err := w.took(w.services, gid, path{status: "succeed", calls: msgCalls, branches: "01 action succeed, 02 action succeed"})
	return note, errors.Join(err, same("the sender's own branch", own, "00 msg of msg"))
}

func (w *web) msgAborted() (string, error) {
	gid := w.gid()
	err := w.newMsg(gid).DoAndSubmit(w.url+"Query", func(*dtmcli.BranchBarrier) error { return dtmcli.ErrFailure })
	if !errors.Is(err, dtmcli.ErrFailure) {
		return "", fmt.Errorf("the sender is told %v", err)
	}
	if _, err := w.took(w.services, gid, path{status: "failed"}); err != nil {
		return "", err
	}
	return "no call", same("the services saw", w.story(gid), "")
}

// lost is a message that is prepared and then forgotten by its sender.
func (w *web) lost(gid string) error {
	msg := w.newMsg(gid)
	msg.TimeoutToFail = 1
	return msg.Prepare(w.url + "Query")
}

func (w *web) msgAskedYes() (string, error) {
	gid := w.gid()
	if err := w.lost(gid); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed", calls: "00 msg Query GET; " + msgCalls})
}

func (w *web) msgAskedNo() (string, error) {
	gid := w.gid()
	w.answer(gid, "Query", failure)
	if err := w.lost(gid); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "failed", calls: "00 msg Query GET"})
}

func (w *web) msgDelay() (string, error) {
	gid := w.gid()
	msg := w.newMsg(gid).SetDelay(2)
	msg.WaitResult = false
	began := time.Now()
	if err := msg.Submit(); err != nil {
		return "", err
	}
	if _, err := w.took(w.services, gid, path{status: "succeed", calls: msgCalls}); err != nil {
		return "", err
	}
	if first := w.calls(gid)[0].when.Sub(began); first < 2*time.Second {
		return "", fmt.Errorf("called after %s, want 2 s", first)
	}
	return "called after 2 s, not before", nil
}

func (w *web) msgTopic() (string, error) {
	gid := w.gid()
	topic := "topic-" + gid
	for _, name := range []string{"One", "Two"} {
		if err := w.get("/subscribe?remark=case&topic="+topic+"&url="+url.QueryEscape(w.url+name), nil); err != nil {
			return "", err
		}
	}
	// DTM's server looks at its topics every three seconds.
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		msg := dtmcli.NewMsg(w.http, gid).AddTopic(topic, thirty)
		msg.WaitResult = true
		err := msg.Submit()
		if err == nil {
			break
		}
		if time.Since(began) > patience {
			return "", err
		}
	}
	return w.took(w.services, gid, path{status: "succeed", calls: "01-01 action One POST " + paid + "; 01-02 action Two POST " + paid})
}

// pay calls one branch of a tcc.
func (w *web) pay(t *dtmcli.Tcc, name string) (*resty.Response, error) {
	return t.CallBranch(thirty, w.url+name, w.url+name+"Confirm", w.url+name+"Cancel")
}

func (w *web) tcc() (string, error) {
	gid := w.gid()
	err := dtmcli.TccGlobalTransaction2(w.http, gid, func(t *dtmcli.Tcc) { t.WaitResult = true }, func(t *dtmcli.Tcc) (*resty.Response, error) {
		if r, err := w.pay(t, "TransOut"); err != nil {
			return r, err
		}
		return w.pay(t, "TransIn")
	})
	if err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed",
		calls: "01 try TransOut POST " + paid + "; 02 try TransIn POST " + paid + "; 02 confirm TransInConfirm POST " + paid +
			"; 01 confirm TransOutConfirm POST " + paid,
		branches: "01 cancel prepared, 01 confirm succeed, 02 cancel prepared, 02 confirm succeed"})
}

func (w *web) tccCancelled() (string, error) {
	gid := w.gid()
	w.answer(gid, "TransIn", failure)
	err := dtmcli.TccGlobalTransaction(w.http, gid, func(t *dtmcli.Tcc) (*resty.Response, error) {
		if r, err := w.pay(t, "TransOut"); err != nil {
			return r, err
		}
		return w.pay(t, "TransIn")
	})
	if !errors.Is(err, dtmcli.ErrFailure) {
		return "", fmt.Errorf("the sender is told %v", err)
	}
	return w.took(w.services, gid, path{status: "failed", reason: "no money",
		calls: "01 try TransOut POST " + paid + "; 02 try TransIn POST " + paid + "; 02 cancel TransInCancel POST " + paid +
			"; 01 cancel TransOutCancel POST " + paid,
		branches: "01 cancel succeed, 01 confirm prepared, 02 cancel succeed, 02 confirm prepared"})
}

func (w *web) tccNested() (string, error) {
	gid := w.gid()
	err := dtmcli.TccGlobalTransaction2(w.http, gid, func(t *dtmcli.Tcc) { t.WaitResult = true }, func(t *dtmcli.Tcc) (*resty.Response, error) {
		if r, err := w.pay(t, "TransOut"); err != nil {
			return r, err
		}
		// The calls of a branch's service that calls others in its turn.
		inner, err := dtmcli.TccFromQuery(url.Values{"dtm": {w.http}, "gid": {gid}, "trans_type": {"tcc"}, "branch_id": {t.CurrentSubBranchID()}})
		if err != nil {
			return nil, err
		}
		return w.pay(inner, "TransIn")
	})
	if err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed",
		calls: "01 try TransOut POST " + paid + "; 0101 try TransIn POST " + paid + "; 0101 confirm TransInConfirm POST " + paid +
			"; 01 confirm TransOutConfirm POST " + paid})
}

func (w *web) tccLost() (string, error) {
	gid := w.gid()
	// A sender that ends after its first Try: all that it has done by then.
	body := `{"gid":"` + gid + `","trans_type":"tcc","timeout_to_fail":1}`
	if err := w.post("/prepare", body); err != nil {
		return "", err
	}
	t := &dtmcli.Tcc{}
	t.Gid, t.TransType, t.Dtm = gid, "tcc", w.http
	if _, err := w.pay(t, "TransOut"); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "failed", reason: "Timeout after 1 seconds",
		calls: "01 try TransOut POST " + paid + "; 01 cancel TransOutCancel POST " + paid})
}

func (w *web) stopped() (string, error) {
	gid := w.gid()
	w.answer(gid, "TransOut", ongoing)
	saga := w.newSaga(gid)
	saga.RetryInterval = 60
	if err := refused(saga.Submit(), "wait result"); err != nil {
		return "", err
	}
	if err := w.post("/forceStop", `{"gid":"`+gid+`"}`); err != nil {
		return "", err
	}
	note, err := w.took(w.services, gid, path{status: "failed", calls: "01 action TransOut POST " + paid,
		branches: "01 compensate prepared, 01 action prepared, 02 compensate prepared, 02 action prepared"})
	return note, errors.Join(err, refused(w.post("/forceStop", `{"gid":"`+gid+`"}`), "409"))
}

func (a *at) post(path, body string) error {
	res, err := http.Post(a.http+path, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, res.Status)
	}
	return nil
}
