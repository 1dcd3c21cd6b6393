package v2

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/machine"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/kv/v2/expire"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// server is one member with the handler on a fasthttp server of its own, in this process.
type server struct {
	t       testing.TB
	node    *node.Node
	handler *Handler
	addr    string
	client  *http.Client
	level   string // that requests ask for, "": they ask for none
}

// at is the server as clients see it that ask for a level.
func (s *server) at(level string) *server {
	other := *s
	other.level = level
	return &other
}

// serve starts a cluster of one that ends with the test.
func serve(t testing.TB, opts Options) *server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	nodes := v2machine.New(v2machine.Options{})
	n, err := node.Start(ctx, node.Config{Dir: t.TempDir(), Machines: []machine.Machine{nodes}, Lanes: []node.LaneSpec{{Number: lane, Name: "kv"}},
		Archive: opts.Ack.Archiving, Logger: slog.New(slog.DiscardHandler)}, node.StartOptions{Name: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	w := expire.New(n, nodes)
	worked := make(chan struct{})
	go func() { defer close(worked); w.Run() }()
	for !n.Status().Ready {
		time.Sleep(5 * time.Millisecond)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opts.RequestTimeout = cmp.Or(opts.RequestTimeout, 10*time.Minute) // a machine that is busy answers late
	fs := &fasthttp.Server{KeepHijackedConns: true, NoDefaultContentType: true, ReadBufferSize: 16 << 10}
	opts.Resume = func(c net.Conn) { _ = fs.ServeConn(c) }
	// A transport of its own: it dials while it waits for a connection, and may then need the new one for nothing. fasthttp's
	// Shutdown waits for ever for a connection on which nothing was ever sent, so this side has to close it.
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	s := &server{t: t, node: n, handler: New(n, nodes, opts), addr: l.Addr().String(), client: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	fs.Handler = s.handler.Handle
	go fs.Serve(l)
	t.Cleanup(func() {
		s.handler.Close()
		transport.CloseIdleConnections()
		fs.Shutdown()
		wait.GivenBack(t, func() string {
			if n := s.handler.hub.pinned.Load(); n != 0 {
				return fmt.Sprintf("%d bytes of events", n)
			}
			return ""
		})
		n.Stop()
		<-worked
	})
	return s
}

// answer is what came of a request.
type answer struct {
	status int
	body   string
	header http.Header
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, strings.TrimSpace(a.body)) }

// do sends a request given as "METHOD path?query form".
func (s *server) do(line string) answer {
	s.t.Helper()
	res, err := s.try(line)
	if err != nil {
		s.t.Fatalf("%s: %v", line, err)
	}
	return res
}

func (s *server) try(line string) (answer, error) {
	f := strings.SplitN(line, " ", 3)
	var body io.Reader
	if len(f) == 3 {
		body = strings.NewReader(f[2])
	}
	req, err := http.NewRequest(f[0], "http://"+s.addr+f[1], body)
	if err != nil {
		return answer{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", formType)
	}
	if s.level != "" {
		req.Header.Set("Holdfast-Ack", s.level)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, string(b), res.Header}, err
}

// want compares an answer with status and body.
func (s *server) want(line, want string) answer {
	s.t.Helper()
	got := s.do(line)
	if got.String() != want {
		s.t.Errorf("%s\n got %s\nwant %s", line, got, want)
	}
	return got
}

func TestKeys(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	s.want("GET /v2/keys", `200 {"action":"get","node":{"dir":true}}`)
	a := s.want("PUT /v2/keys/foo value=bar", `201 {"action":"set","node":{"key":"/foo","value":"bar","modifiedIndex":4,"createdIndex":4}}`)
	for k, want := range map[string]string{"Content-Type": "application/json", "X-Etcd-Index": "4", "X-Raft-Term": "1",
		"X-Etcd-Cluster-Id": fmt.Sprintf("%x", s.node.Status().ClusterID)} {
		if got := a.header.Get(k); got != want && k != "X-Raft-Term" {
			t.Errorf("header %s is %q, want %q", k, got, want)
		}
	}
	if a.header.Get("X-Raft-Index") == "" || a.header.Get("X-Raft-Term") == "" {
		t.Errorf("raft headers are missing: %v", a.header)
	}
	s.want("GET /v2/keys/foo?quorum=true", `200 {"action":"get","node":{"key":"/foo","value":"bar","modifiedIndex":4,"createdIndex":4}}`)
	a = s.want("GET /v2/keys/none", `404 {"errorCode":100,"message":"Key not found","cause":"/none","index":4}`)
	if a.header.Get("X-Etcd-Index") != "4" || a.header.Get("X-Raft-Index") != "" {
		t.Errorf("headers of an error: %v", a.header)
	}
	if a := s.do("HEAD /v2/keys/foo"); a.status != 200 || a.body != "" || a.header.Get("Content-Length") != "88" {
		t.Errorf("HEAD: %v, %v", a, a.header)
	}
	if a := s.do("PATCH /v2/keys/foo"); a.String() != "405 Method Not Allowed" || a.header.Get("Allow") != "HEAD,GET,PUT,POST,DELETE" {
		t.Errorf("PATCH: %v, %v", a, a.header)
	}
	if a := s.do("GET /v2/keys/a//b/../c?x=1"); a.status != 301 || a.header.Get("Location") != "/v2/keys/a/c?x=1" {
		t.Errorf("an unclean path: %v, %v", a, a.header)
	}
	s.want("PUT /v2/keys/t value=x&ttl=", `201 {"action":"set","node":{"key":"/t","value":"x","modifiedIndex":5,"createdIndex":5}}`)
	s.want("PUT /v2/keys/t?noValueOnSuccess=true&value=y", `200 {"action":"set"}`)
	s.want("PUT /v2/keys/t?value=q value=body&prevExist=true", `200 {"action":"update","node":{"key":"/t","value":"body",`+
		`"modifiedIndex":7,"createdIndex":6},"prevNode":{"key":"/t","value":"y","modifiedIndex":6,"createdIndex":6}}`)
	s.want("PUT /v2/keys/t value=%3C%3E%26%22%5C%FF%E2%80%A8%01%0A+", `200 {"action":"set","node":{"key":"/t",`+
		`"value":"\u003c\u003e\u0026\"\\\ufffd\u2028\u0001\n ","modifiedIndex":8,"createdIndex":8},`+
		`"prevNode":{"key":"/t","value":"body","modifiedIndex":7,"createdIndex":6}}`)
	s.want("GET /v2/keys/t?dir=", `400 {"errorCode":209,"message":"Invalid field","cause":"invalid value for \"dir\"","index":0}`)
	s.want("GET /v2/keys/t?a;b=c", `400 {"errorCode":210,"message":"Invalid POST form","cause":"invalid semicolon separator in query","index":0}`)
	s.want("DELETE /v2/keys/t?prevIndex=1", `412 {"errorCode":101,"message":"Compare failed","cause":"[1 != 8]","index":8}`)
	s.want("DELETE /v2/keys/?prevIndex=1", `403 {"errorCode":102,"message":"Not a file","index":8}`)
	s.want("POST /v2/keys/q value=1", `201 {"action":"create","node":{"key":"/q/00000000000000000009","value":"1","modifiedIndex":9,"createdIndex":9}}`)
	s.want("PUT /v2/keys/q/_h/x value=1", `201 {"action":"set","node":{"key":"/q/_h/x","value":"1","modifiedIndex":10,"createdIndex":10}}`)
	s.want("PUT /v2/keys/q/d/x value=1", `201 {"action":"set","node":{"key":"/q/d/x","value":"1","modifiedIndex":11,"createdIndex":11}}`)
	s.want("GET /v2/keys/q", `200 {"action":"get","node":{"key":"/q","dir":true,"nodes":[{"key":"/q/00000000000000000009","value":"1",`+
		`"modifiedIndex":9,"createdIndex":9},{"key":"/q/d","dir":true,"modifiedIndex":11,"createdIndex":11}],"modifiedIndex":9,"createdIndex":9}}`)
	s.want("GET /v2/keys/q?recursive=true", `200 {"action":"get","node":{"key":"/q","dir":true,"nodes":[{"key":"/q/00000000000000000009","value":"1",`+
		`"modifiedIndex":9,"createdIndex":9},{"key":"/q/d","dir":true,"nodes":[{"key":"/q/d/x","value":"1","modifiedIndex":11,"createdIndex":11}],`+
		`"modifiedIndex":11,"createdIndex":11}],"modifiedIndex":9,"createdIndex":9}}`)
	s.want("GET /v2/foo", "404 404 page not found")
	s.want("GET /v2/machines", "200 ")
	if a := s.do("GET /v2/auth/enable"); a.status != 501 || !strings.Contains(a.body, "not offered") {
		t.Errorf("v2 auth: %v", a)
	}
}

func TestExpires(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	watch := s.long("/v2/keys/d?wait=true&recursive=true")
	s.do("PUT /v2/keys/d/x?ttl=1&value=v")
	if a := s.do("GET /v2/keys/d/x"); !strings.Contains(a.body, `"ttl":1,`) {
		t.Errorf("a key with a second to live: %s", a)
	}
	watch.want(`"action":"set"`)
	gone := s.long("/v2/keys/d?wait=true&recursive=true")
	gone.want(`{"action":"expire","node":{"key":"/d/x","modifiedIndex":5,"createdIndex":4},"prevNode":{"key":"/d/x","value":"v","expiration":`)
	s.want("GET /v2/keys/d/x", `404 {"errorCode":100,"message":"Key not found","cause":"/d/x","index":5}`)
}

func TestUsers(t *testing.T) {
	t.Parallel()
	on := false
	s := serve(t, Options{Catalogue: func() (bool, uint64) { return on, 1 },
		RootBasic: func(_, u, p string) (uint64, bool) { return 1, u == "root" && p == "a:b" }})
	s.do("PUT /v2/keys/k value=v")
	on = true
	s.want("GET /v2/keys/k", `401 {"errorCode":110,"message":"The request requires user authentication","cause":"Insufficient credentials","index":0}`)
	s.want("GET /v2/members", `401 {"message":"Insufficient credentials"}`)
	req, _ := http.NewRequest("GET", "http://"+s.addr+"/v2/keys/k", nil)
	for _, c := range []struct {
		user, password string
		status         int
	}{{"root", "a:b", 200}, {"root", "x", 401}, {"other", "a:b", 401}} {
		req.SetBasicAuth(c.user, c.password)
		res, err := s.client.Do(req)
		if err != nil || res.StatusCode != c.status {
			t.Errorf("%s: %v, %v", c.user, res.StatusCode, err)
		}
		res.Body.Close()
	}
}

// A member may not have heard of "auth enable" yet, or of a change of users. It lets nothing through that the present catalogue has not
// judged: the log knows, and once it has refused a write this member knows too.
func TestAMemberThatHasNotHeard(t *testing.T) {
	t.Parallel()
	var s *server
	var behind atomic.Int32 // how many more answers of the catalogue are from before the last change
	var before mident.State
	catalogue := func() (bool, uint64) {
		if behind.Add(-1) >= 0 {
			return before.Enabled, before.Revision
		}
		st := s.node.Ident().State()
		return st.Enabled, st.Revision
	}
	s = serve(t, Options{Catalogue: catalogue, RootBasic: func(_, u, p string) (uint64, bool) {
		_, revision := catalogue()
		return revision, u == "root"
	}})
	admin := func(p eident.Part) {
		t.Helper()
		p.Actor = eident.Root
		st := s.node.Ident().State()
		before = mident.State{Enabled: st.Enabled, Revision: st.Revision}
		res, err := s.node.Propose(t.Context(), node.LaneSystem, entry.Part{Machine: entry.MachineIdent, Body: eident.AppendPart(nil, &p)})
		if err != nil || res.Rejection != nil {
			t.Fatalf("%s: %v, %v", &p, res, err)
		}
	}
	as := func(user, line string) answer {
		t.Helper()
		f := strings.SplitN(line, " ", 3)
		req, _ := http.NewRequest(f[0], "http://"+s.addr+f[1], strings.NewReader(f[2]))
		req.Header.Set("Content-Type", formType)
		req.SetBasicAuth(user, "x")
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return answer{res.StatusCode, string(b), res.Header}
	}
	const refused = `401 {"errorCode":110,"message":"The request requires user authentication","cause":"Insufficient credentials","index":0}`
	admin(eident.Part{UserAdd: &eident.UserAdd{Name: eident.Root, NoPassword: true}})
	admin(eident.Part{UserGrant: &eident.UserGrant{Name: eident.Root, Role: eident.Root}})
	s.do("PUT /v2/keys/k value=before&ttl=1")
	admin(eident.Part{Enable: &eident.Enable{}})
	for _, line := range []string{"PUT /v2/keys/k value=after", "PUT /v2/keys/k value=after&prevValue=before", "POST /v2/keys/q value=after",
		"DELETE /v2/keys/k", "DELETE /v2/keys/k?prevValue=before", "GET /v2/keys/k", "GET /v2/keys/none", "GET /v2/keys/k?quorum=true",
		"GET /v2/keys/k?wait=true&waitIndex=1", "GET /v2/keys/k?wait=true", "GET /v2/keys/k?wait=true&stream=true&waitIndex=1"} {
		behind.Store(1)
		s.want(line, refused)
	}
	if s.handler.hub.waiting() != 0 {
		t.Error("a watch that was not let in waits")
	}
	// Root's own requests are judged anew until they are judged by the present catalogue; the client does not notice.
	admin(eident.Part{RoleAdd: &eident.RoleAdd{Name: "r"}})
	for i, line := range []string{"PUT /v2/keys/r value=v", "GET /v2/keys/r ", "POST /v2/keys/q value=v", "DELETE /v2/keys/r "} {
		behind.Store(int32(2 + i))
		if a := as(eident.Root, line); a.status/100 != 2 {
			t.Errorf("root, %s: %s", line, a)
		}
	}
	// Removals by the leader's worker need no user's permission.
	for end := time.Now().Add(wait.Limit(t)); as(eident.Root, "GET /v2/keys/k ").status != 404; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a key with a TTL does not expire while authentication is on")
		}
	}
	admin(eident.Part{Disable: &eident.Disable{}})
	behind.Store(1)
	s.want("PUT /v2/keys/k value=open", refused) // by what this member knew
	if a := s.do("PUT /v2/keys/k value=open"); a.status != 201 {
		t.Errorf("after it was switched off: %s", a)
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	id := fmt.Sprintf("%x", s.node.Status().MemberID)
	s.want("GET /v2/members", fmt.Sprintf(`200 {"members":[{"id":"%s","name":"n1","peerURLs":[],"clientURLs":[]}]}`, id))
	s.want("GET /v2/members/leader", fmt.Sprintf(`200 {"id":"%s","name":"n1","peerURLs":[],"clientURLs":[]}`, id))
	s.want("GET /v2/members/xyz", `404 {"message":"Not found"}`)
	s.want("DELETE /v2/members/12", `404 {"message":"No such member: 12"}`)
	s.want("POST /v2/members {}", `415 {"message":"Bad Content-Type application/x-www-form-urlencoded, accept application/json"}`)
	post := func(method, path, body string) string {
		req, _ := http.NewRequest(method, "http://"+s.addr+path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return fmt.Sprintf("%d %s", res.StatusCode, b)
	}
	if got := post("POST", "/v2/members", `{"peerURLs":["foo"]}`); got != "400 {\"message\":\"URL scheme must be http, https, unix, or unixs: foo\"}\n" {
		t.Errorf("a bad URL: %s", got)
	}
	if got := post("PUT", "/v2/members/"+id, `{"peerURLs":["http://127.0.0.1:1"]}`); got != "204 " {
		t.Errorf("new addresses: %s", got)
	}
	s.want("GET /v2/members", fmt.Sprintf(`200 {"members":[{"id":"%s","name":"n1","peerURLs":["http://127.0.0.1:1"],"clientURLs":[]}]}`, id))
	learner, err := s.node.AddMember(t.Context(), []string{"http://127.0.0.1:3"}, true)
	if err != nil {
		t.Fatal(err)
	}
	gone := fmt.Sprintf("%x", learner.ID)
	s.want("DELETE /v2/members/"+gone, "204 ")
	s.want("DELETE /v2/members/"+gone, `410 {"message":"Member permanently removed: `+gone+`"}`)
	if got := post("POST", "/v2/members", `{"peerURLs":["http://127.0.0.1:2"]}`); !strings.HasPrefix(got, "201 ") {
		t.Errorf("another member: %s", got)
	}
	// The other one, which does not answer, is a follower once it has been dialled.
	if a := s.do("GET /v2/stats/leader"); a.status != 200 || !strings.HasPrefix(a.body, `{"leader":"`+id+`","followers":{`) || strings.Contains(a.body, gone) {
		t.Errorf("the leader: %s", a)
	}
	if a := s.do("GET /v2/stats/self"); !strings.HasPrefix(a.body, `{"name":"n1","id":"`+id+`","state":"StateLeader"`) {
		t.Errorf("self: %s", a)
	}
}

func TestLatencyInJSON(t *testing.T) {
	l := node.Latency{Count: 3, Failed: 1, Current: 1500 * time.Microsecond, Min: time.Millisecond, Max: 2 * time.Second}
	want := `{"latency":{"current":1.5,"average":0,"standardDeviation":0,"minimum":1,"maximum":2000},"counts":{"fail":1,"success":3}}`
	if got := string(appendLatency(nil, &l)); got != want {
		t.Errorf("%s", got)
	}
}

func TestStoreStats(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	s.do("PUT /v2/keys/k value=v")
	s.do("GET /v2/keys/k")
	s.do("GET /v2/keys/none")
	s.want("GET /v2/stats/store", `200 {"getsSuccess":1,"getsFail":1,"setsSuccess":1,"setsFail":0,"deleteSuccess":0,"deleteFail":0,"updateSuccess":0,`+
		`"updateFail":0,"createSuccess":0,"createFail":0,"compareAndSwapSuccess":0,"compareAndSwapFail":0,"compareAndDeleteSuccess":0,`+
		`"compareAndDeleteFail":0,"expireCount":0,"watchers":0}`)
}
