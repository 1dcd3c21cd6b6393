package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dtm-labs/client/dtmcli"
	"github.com/dtm-labs/client/dtmgrpc"
	"github.com/dtm-labs/client/dtmgrpc/dtmgimp"
	"github.com/dtm-labs/client/dtmgrpc/dtmgpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// grpcStories are the cases over gRPC. The outcome of a transaction is queried over HTTP: gRPC has no query.
func grpcStories(a *at) []story {
	w := &rpc{at: a, services: newServices()}
	return []story{
		{"newGid", w.names},
		{"saga that succeeds", w.saga},
		{"saga whose second step says no", w.sagaFails},
		{"saga whose service is broken once", w.sagaRetried},
		{"saga whose service is at it", w.sagaOngoing},
		{"saga with headers for its branches", w.sagaHeaders},
		{"saga with a step over HTTP", w.sagaMixed},
		{"saga with steps at the same time and orders", w.sagaOrders},
		{"saga submitted once more", w.sagaAgain},
		{"msg that is prepared and submitted", w.msg},
		{"msg whose sender fails", w.msgAborted},
		{"msg whose sender is never heard of: committed", w.msgAskedYes},
		{"msg whose sender is never heard of: rolled back", w.msgAskedNo},
		{"msg to a topic", w.msgTopic},
		{"tcc that is confirmed", w.tcc},
		{"tcc whose Try says no", w.tccCancelled},
	}
}

// rpc is the cases over gRPC.
type rpc struct {
	*at
	*services
}

var coins = wrapperspb.String("30 coins")

func (w *rpc) gid() string { return dtmgrpc.MustGenGid(w.grpc) }

func (w *rpc) newSaga(gid string, opts ...dtmgrpc.TransBaseOption) *dtmgrpc.SagaGrpc {
	saga := dtmgrpc.NewSagaGrpc(w.grpc, gid, opts...).Add(w.method("TransOut"), w.method("TransOutUndo"), coins).
		Add(w.method("TransIn"), w.method("TransInUndo"), coins)
	saga.WaitResult = true
	saga.RetryInterval = 1
	return saga
}

const rpcCalls = "01 action TransOut gRPC 30 coins; 02 action TransIn gRPC 30 coins"

func (w *rpc) names() (string, error) {
	one, two := w.gid(), w.gid()
	if one == two || len(one) != 22 {
		return "", fmt.Errorf("gids %q and %q", one, two)
	}
	return "gids of 22 characters", nil
}

func (w *rpc) saga() (string, error) {
	gid := w.gid()
	if err := w.newSaga(gid).Submit(); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed", calls: rpcCalls, branches: sagaGood})
}

func (w *rpc) sagaFails() (string, error) {
	gid := w.gid()
	w.answer(gid, "TransIn", failure)
	err := dtmgrpc.GrpcError2DtmError(w.newSaga(gid).Submit())
	if !errors.Is(err, dtmcli.ErrFailure) {
		return "", fmt.Errorf("the sender is told %v", err)
	}
	return w.took(w.services, gid, path{status: "failed", reason: "no money",
		calls:    rpcCalls + "; 02 compensate TransInUndo gRPC 30 coins; 01 compensate TransOutUndo gRPC 30 coins",
		branches: "01 compensate succeed, 01 action succeed, 02 compensate succeed, 02 action failed"})
}

func (w *rpc) sagaRetried() (string, error) {
	gid := w.gid()
	w.answer(gid, "TransIn", broken)
	saga := w.newSaga(gid)
	saga.WaitResult = false
	if err := saga.Submit(); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed", calls: rpcCalls + "; 02 action TransIn gRPC 30 coins"})
}

func (w *rpc) sagaOngoing() (string, error) {
	gid := w.gid()
	w.answer(gid, "TransOut", ongoing)
	if err := refused(w.newSaga(gid).Submit(), "wait result not return success"); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed", calls: "01 action TransOut gRPC 30 coins; " + rpcCalls})
}

func (w *rpc) sagaHeaders() (string, error) {
	gid := w.gid()
	if err := w.newSaga(gid, dtmgrpc.WithBranchHeaders(map[string]string{"x-tenant": "seven"})).Submit(); err != nil {
		return "", err
	}
	for _, c := range w.calls(gid) {
		if c.header != "seven" || c.mode != "saga" {
			return "", fmt.Errorf("%s came with x-tenant %q and trans_type %q", c, c.header, c.mode)
		}
	}
	return w.took(w.services, gid, path{status: "succeed", calls: rpcCalls})
}

func (w *rpc) sagaMixed() (string, error) {
	gid := w.gid()
	saga := w.newSaga(gid).Add(w.url+"Mail", w.url+"MailUndo", coins)
	if err := saga.Submit(); err != nil {
		return "", err
	}
	// A service over HTTP gets the bytes as they are: the field of the message before the text.
	return w.took(w.services, gid, path{status: "succeed", calls: rpcCalls + "; 03 action Mail POST " + string(dtmgimp.MustProtoMarshal(coins))})
}

func (w *rpc) sagaOrders() (string, error) {
	gid := w.gid()
	saga := dtmgrpc.NewSagaGrpc(w.grpc, gid)
	for _, name := range []string{"A", "B", "C"} {
		saga.Add(w.method(name), w.method(name+"Undo"), coins)
	}
	saga.AddBranchOrder(2, []int{0, 1}).EnableConcurrent()
	saga.WaitResult = true
	if err := saga.Submit(); err != nil {
		return "", err
	}
	_, err := w.took(w.services, gid, path{status: "succeed"})
	return "A and B, then C", errors.Join(err, (&web{w.at, w.services}).inOrder(gid, []string{"A", "B"}, []string{"C"}))
}

func (w *rpc) sagaAgain() (string, error) {
	gid := w.gid()
	if err := w.newSaga(gid).Submit(); err != nil {
		return "", err
	}
	err := w.newSaga(gid).Submit()
	if err != nil { // as DTM has it; the same once more is no failure otherwise
		err = refused(err, "current status 'succeed', cannot sumbmit")
	}
	note, err2 := w.took(w.services, gid, path{status: "succeed", calls: rpcCalls})
	return note, errors.Join(err, err2)
}

func (w *rpc) newMsg(gid string) *dtmgrpc.MsgGrpc {
	msg := dtmgrpc.NewMsgGrpc(w.grpc, gid).Add(w.method("TransOut"), coins).Add(w.method("TransIn"), coins)
	msg.WaitResult = true
	return msg
}

func (w *rpc) msg() (string, error) {
	gid := w.gid()
	if err := w.newMsg(gid).DoAndSubmit(w.method("Query"), func(*dtmcli.BranchBarrier) error { return nil }); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed", calls: rpcCalls, branches: "01 action succeed, 02 action succeed"})
}

func (w *rpc) msgAborted() (string, error) {
	gid := w.gid()
	err := w.newMsg(gid).DoAndSubmit(w.method("Query"), func(*dtmcli.BranchBarrier) error { return dtmcli.ErrFailure })
	if !errors.Is(err, dtmcli.ErrFailure) {
		return "", fmt.Errorf("the sender is told %v", err)
	}
	if _, err := w.took(w.services, gid, path{status: "failed"}); err != nil {
		return "", err
	}
	return "no call", same("the services saw", w.story(gid), "")
}

func (w *rpc) lost(gid string) error {
	msg := w.newMsg(gid)
	msg.TimeoutToFail = 1
	return msg.Prepare(w.method("Query"))
}

func (w *rpc) msgAskedYes() (string, error) {
	gid := w.gid()
	if err := w.lost(gid); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed", calls: "00 msg Query gRPC; " + rpcCalls})
}

func (w *rpc) msgAskedNo() (string, error) {
	gid := w.gid()
	w.answer(gid, "Query", failure)
	if err := w.lost(gid); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "failed", calls: "00 msg Query gRPC"})
}

func (w *rpc) msgTopic() (string, error) {
	gid := w.gid()
	topic := "topic-" + gid
	dtm := dtmgimp.MustGetDtmClient(w.grpc)
	for _, name := range []string{"One", "Two"} {
		if _, err := dtm.Subscribe(context.Background(), &dtmgpb.DtmTopicRequest{Topic: topic, URL: w.method(name), Remark: "case"}); err != nil {
			return "", err
		}
	}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) { // as over HTTP
		msg := dtmgrpc.NewMsgGrpc(w.grpc, gid).AddTopic(topic, coins)
		msg.WaitResult = true
		err := msg.Submit()
		if err == nil {
			break
		}
		if time.Since(began) > patience {
			return "", err
		}
	}
	if _, err := dtm.DeleteTopic(context.Background(), &dtmgpb.DtmTopicRequest{Topic: topic}); err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed", calls: "01-01 action One gRPC 30 coins; 01-02 action Two gRPC 30 coins"})
}

func (w *rpc) pay(t *dtmgrpc.TccGrpc, name string) error {
	return t.CallBranch(coins, w.method(name), w.method(name+"Confirm"), w.method(name+"Cancel"), &emptypb.Empty{})
}

func (w *rpc) tcc() (string, error) {
	gid := w.gid()
	err := dtmgrpc.TccGlobalTransaction2(w.grpc, gid, func(t *dtmgrpc.TccGrpc) { t.WaitResult = true }, func(t *dtmgrpc.TccGrpc) error {
		if err := w.pay(t, "TransOut"); err != nil {
			return err
		}
		return w.pay(t, "TransIn")
	})
	if err != nil {
		return "", err
	}
	return w.took(w.services, gid, path{status: "succeed",
		calls: "01 try TransOut gRPC 30 coins; 02 try TransIn gRPC 30 coins; 02 confirm TransInConfirm gRPC 30 coins; " +
			"01 confirm TransOutConfirm gRPC 30 coins"})
}

func (w *rpc) tccCancelled() (string, error) {
	gid := w.gid()
	w.answer(gid, "TransIn", failure)
	err := dtmgrpc.TccGlobalTransaction(w.grpc, gid, func(t *dtmgrpc.TccGrpc) error {
		if err := w.pay(t, "TransOut"); err != nil {
			return err
		}
		return w.pay(t, "TransIn")
	})
	if err == nil {
		return "", errors.New("the sender is told of no error")
	}
	return w.took(w.services, gid, path{status: "failed", reason: "no money",
		calls: "01 try TransOut gRPC 30 coins; 02 try TransIn gRPC 30 coins; 02 cancel TransInCancel gRPC 30 coins; " +
			"01 cancel TransOutCancel gRPC 30 coins"})
}
