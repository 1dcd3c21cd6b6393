package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dtm-labs/client/dtmgrpc/dtmgimp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// services are the services of all cases, over HTTP and gRPC. They answer as a case has told them, and remember what they were asked.
type services struct {
	url    string       // of HTTP, up to the service's name
	host   string       // of gRPC
	server *grpc.Server // of gRPC

	mu      sync.Mutex
	seen    map[string][]call   // by gid
	answers map[string][]string // what gid/service answers next, "" and no more: success
}

// call is one call that a service has got.
type call struct {
	service, branch, op, mode string
	method, payload           string
	header                    string // of X-Tenant
	when                      time.Time
}

// Answers of services beside success.
const (
	failure = "FAILURE" // 409, Aborted
	ongoing = "ONGOING" // 425, FailedPrecondition
	broken  = "ERROR"   // 500, Internal
)

func newServices() *services {
	s := &services{seen: map[string][]call{}, answers: map[string][]string{}}
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fatal(err)
	}
	rpc, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fatal(err)
	}
	s.url, s.host = "http://"+web.Addr().String()+"/busi/", rpc.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("/busi/{service}", s.serve)
	mux.HandleFunc("/workflow/resume", resume)
	// Both serve until the program ends.
	go func() { fatal(http.Serve(web, mux)) }()
	s.server = grpc.NewServer(grpc.UnknownServiceHandler(s.stream))
	go func() {
		time.Sleep(50 * time.Millisecond) // a workflow's service is registered before
		fatal(s.server.Serve(rpc))
	}()
	return s
}

// method is the URL of a service over gRPC.
func (s *services) method(service string) string { return s.host + "/busi.Busi/" + service }

// answer has a service of a transaction answer these, one each, and then success.
func (s *services) answer(gid, service string, answers ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[gid+"/"+service] = answers
}

// take notes a call and returns what to answer.
func (s *services) take(gid string, c call) string {
	c.when = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[gid] = append(s.seen[gid], c)
	key := gid + "/" + c.service
	next := s.answers[key]
	if len(next) == 0 {
		return ""
	}
	s.answers[key] = next[1:]
	return next[0]
}

func (s *services) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := r.URL.Query()
	c := call{service: r.PathValue("service"), branch: q.Get("branch_id"), op: q.Get("op"), mode: q.Get("trans_type"), method: r.Method,
		payload: string(body), header: r.Header.Get("X-Tenant")}
	code, text := http.StatusOK, `{"dtm_result":"SUCCESS"}`
	switch answer := s.take(q.Get("gid"), c); answer {
	case failure:
		code, text = http.StatusConflict, "no money"
	case ongoing:
		code, text = http.StatusTooEarly, "at it"
	case broken:
		code, text = http.StatusInternalServerError, "broken"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text) // the caller has gone
}

// stream answers every method of every service: each takes a text and returns nothing.
func (s *services) stream(_ any, st grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(st)
	var payload wrapperspb.StringValue
	if err := st.RecvMsg(&payload); err != nil {
		return err
	}
	tb := dtmgimp.TransBaseFromGrpc(st.Context())
	md, _ := metadata.FromIncomingContext(st.Context())
	c := call{service: name[strings.LastIndex(name, "/")+1:], branch: tb.BranchID, op: tb.Op, mode: tb.TransType, method: "gRPC", payload: payload.Value,
		header: strings.Join(md.Get("X-Tenant"), ",")}
	switch s.take(tb.Gid, c) {
	case failure:
		return status.Error(codes.Aborted, "no money")
	case ongoing:
		return status.Error(codes.FailedPrecondition, "at it")
	case broken:
		return status.Error(codes.Internal, "broken")
	}
	return st.SendMsg(&emptypb.Empty{})
}

// calls is what the services have seen of a transaction.
func (s *services) calls(gid string) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen[gid])
}

// story is what the services have seen of a transaction, in order.
func (s *services) story(gid string) string {
	var all []string
	for _, c := range s.calls(gid) {
		all = append(all, c.String())
	}
	return strings.Join(all, "; ")
}

// String is a call as the cases write it down: branch, operation and service, how it was called and with what.
func (c call) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", c.branch, c.op, c.service, c.method, c.payload))
}

// hostOf is host and port of a URL of HTTP.
func hostOf(url string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return host
}
