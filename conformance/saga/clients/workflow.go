package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/dtm-labs/client/dtmcli"
	"github.com/dtm-labs/client/dtmgrpc"
	"github.com/dtm-labs/client/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
)

// flows is the cases of workflows, for both protocols of the coordinator and the services.
type flows struct {
	*at
	*services
	gid  func() string
	call func(wf *workflow.Workflow, service string) error // a step, or part of one that undoes or confirms
	how  string                                            // the services are called

	mu  sync.Mutex
	ran map[string]int // by gid: how often the local step did run
}

func workflowHTTPStories(a *at) []story {
	s := newServices()
	workflow.InitHTTP(a.http, "http://"+hostOf(s.url)+"/workflow/resume")
	f := &flows{at: a, services: s, ran: map[string]int{}, how: "POST " + paid, gid: func() string { return dtmcli.MustGenGid(a.http) }}
	f.call = func(wf *workflow.Workflow, service string) error {
		_, err := wf.NewRequest().SetBody(thirty).Post(s.url + service)
		return err
	}
	return f.stories()
}

func workflowGRPCStories(a *at) []story {
	s := newServices()
	workflow.InitGrpc(a.grpc, s.host, s.server)
	conn, err := grpc.Dial(s.host, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(workflow.Interceptor))
	if err != nil {
		fatal(err)
	}
	f := &flows{at: a, services: s, ran: map[string]int{}, how: "gRPC 30 coins", gid: func() string { return dtmgrpc.MustGenGid(a.grpc) }}
	f.call = func(wf *workflow.Workflow, service string) error {
		return conn.Invoke(wf.Context, "/busi.Busi/"+service, coins, &emptypb.Empty{})
	}
	return f.stories()
}

// resume is where the coordinator has a workflow over HTTP carried on.
func resume(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err == nil {
		_, err = workflow.ExecuteCtx(context.Background(), r.URL.Query().Get("op"), r.URL.Query().Get("gid"), data)
	}
	code, res := dtmcli.Result2HttpJSON(err)
	w.WriteHeader(code)
	_, _ = fmt.Fprint(w, res) // the caller has gone
}

const (
	savings = "workflow of two steps"
	booking = "workflow that confirms"
)

func (f *flows) stories() []story {
	// Each is registered once, as a program does when it starts; gids tell the cases apart.
	register := func(name string, do workflow.WfFunc2) {
		if err := workflow.Register2(name, do, func(wf *workflow.Workflow) { wf.RetryInterval = 1 }); err != nil {
			fatal(err)
		}
	}
	register(savings, f.savings)
	register(booking, f.booking)
	return []story{
		{"workflow that succeeds", f.succeeds},
		{"its result once more", f.result},
		{"workflow whose second step says no", f.fails},
		{"workflow that is called back", f.calledBack},
		{"workflow that ends in a call back with a failure", f.failsLater},
		{"workflow that confirms its steps", f.confirms},
		{"workflow that cancels its steps", f.cancels},
	}
}

// savings is the saga's shape: each step says how it is undone. A local step lies between them.
func (f *flows) savings(wf *workflow.Workflow, data []byte) ([]byte, error) {
	undo := func(service string) workflow.WfPhase2Func {
		return func(*dtmcli.BranchBarrier) error { return f.call(wf, service) }
	}
	wf.NewBranch().OnRollback(undo("TransOutUndo"))
	if err := f.call(wf, "TransOut"); err != nil {
		return nil, err
	}
	receipt, err := wf.NewBranch().Do(func(bb *dtmcli.BranchBarrier) ([]byte, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ran[bb.Gid]++
		return fmt.Appendf(nil, "receipt %d of %s", f.ran[bb.Gid], data), nil
	})
	if err != nil {
		return nil, err
	}
	wf.NewBranch().OnRollback(undo("TransInUndo"))
	if err := f.call(wf, "TransIn"); err != nil {
		return nil, err
	}
	return receipt, nil
}

// booking is tcc's shape: what confirms and what cancels.
func (f *flows) booking(wf *workflow.Workflow, data []byte) ([]byte, error) {
	for _, service := range []string{"Flight", "Hotel"} {
		wf.NewBranch().OnFinish(func(_ *dtmcli.BranchBarrier, isRollback bool) error {
			if isRollback {
				return f.call(wf, service+"Cancel")
			}
			return f.call(wf, service+"Confirm")
		})
		if err := f.call(wf, service); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// execute runs a workflow as its starter does.
func (f *flows) execute(name, gid string) ([]byte, error) {
	return workflow.ExecuteCtx(context.Background(), name, gid, []byte("30 coins"))
}

// lines is calls as the services see them in this protocol.
func (f *flows) lines(all ...string) string {
	return strings.Join(all, " "+f.how+"; ") + " " + f.how
}

func (f *flows) succeeds() (string, error) {
	gid := f.gid()
	result, err := f.execute(savings, gid)
	if err != nil {
		return "", err
	}
	note, err := f.took(f.services, gid, path{status: "succeed", calls: f.lines("01 action TransOut", "03 action TransIn"),
		branches: "01 action succeed, 02 action succeed, 03 action succeed"})
	return note, errors.Join(err, same("result", string(result), "receipt 1 of 30 coins"))
}

func (f *flows) result() (string, error) {
	gid := f.gid()
	if _, err := f.execute(savings, gid); err != nil {
		return "", err
	}
	result, err := f.execute(savings, gid)
	if err != nil {
		return "", err
	}
	note, err := f.took(f.services, gid, path{status: "succeed", calls: f.lines("01 action TransOut", "03 action TransIn")})
	return note, errors.Join(err, same("result", string(result), "receipt 1 of 30 coins"))
}

func (f *flows) fails() (string, error) {
	gid := f.gid()
	f.answer(gid, "TransIn", failure)
	if _, err := f.execute(savings, gid); !errors.Is(err, dtmcli.ErrFailure) {
		return "", fmt.Errorf("the starter is told %v", err)
	}
	if _, err := f.execute(savings, gid); !errors.Is(err, dtmcli.ErrFailure) {
		return "", fmt.Errorf("the starter is told %v the second time", err)
	}
	return f.took(f.services, gid, path{status: "failed", reason: "no money",
		calls: f.lines("01 action TransOut", "03 action TransIn", "01 rollback TransOutUndo")})
}

func (f *flows) calledBack() (string, error) {
	gid := f.gid()
	f.answer(gid, "TransIn", ongoing)
	if _, err := f.execute(savings, gid); err == nil {
		return "", errors.New("the starter is told of no error")
	}
	note, err := f.took(f.services, gid, path{status: "succeed", calls: f.lines("01 action TransOut", "03 action TransIn", "03 action TransIn")})
	f.mu.Lock()
	defer f.mu.Unlock()
	return note, errors.Join(err, same("runs of the local step", fmt.Sprint(f.ran[gid]), "1"))
}

func (f *flows) failsLater() (string, error) {
	gid := f.gid()
	f.answer(gid, "TransIn", broken, failure)
	if _, err := f.execute(savings, gid); err == nil {
		return "", errors.New("the starter is told of no error")
	}
	return f.took(f.services, gid, path{status: "failed", reason: "no money",
		calls: f.lines("01 action TransOut", "03 action TransIn", "03 action TransIn", "01 rollback TransOutUndo")})
}

func (f *flows) confirms() (string, error) {
	gid := f.gid()
	if _, err := f.execute(booking, gid); err != nil {
		return "", err
	}
	return f.took(f.services, gid, path{status: "succeed",
		calls: f.lines("01 action Flight", "02 action Hotel", "02 commit HotelConfirm", "01 commit FlightConfirm")})
}

func (f *flows) cancels() (string, error) {
	gid := f.gid()
	f.answer(gid, "Hotel", failure)
	if _, err := f.execute(booking, gid); !errors.Is(err, dtmcli.ErrFailure) {
		return "", fmt.Errorf("the starter is told %v", err)
	}
	return f.took(f.services, gid, path{status: "failed",
		calls: f.lines("01 action Flight", "02 action Hotel", "01 rollback FlightCancel")})
}
