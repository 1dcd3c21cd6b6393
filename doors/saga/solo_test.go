package saga

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/ack/acktest"
	"github.com/holdfastdb/holdfast/serve/port"
)

// solo is a member without a log, which applies proposals at once, with a small coordinator in the place of doors/saga/advance. It makes no
// calls and reads a branch's answer off the end of its URL: "ok", "fail", "ongoing" or "never". A due transaction has one pass, no more.
type solo struct {
	acktest.Fake
	t     *testing.T
	saga  *sagamachine.Machine
	kv    *kvmachine.Machine
	users *mident.Machine

	mu       sync.Mutex
	rig      *machinetest.Rig // guarded by mu
	fail     error            // guarded by mu: Propose answers it
	unread   error            // guarded by mu: Linearize answers it
	commands int              // guarded by mu: those that were applied
	before   func()           // guarded by mu: called before a command is applied, without the lock

	learner atomic.Bool
	level   atomic.Uint32 // of the cluster
	stopped chan struct{}
	passes  sync.WaitGroup
}

func newSolo(t *testing.T) *solo {
	s := &solo{t: t, saga: sagamachine.New(sagamachine.Options{}), kv: kvmachine.New(kvmachine.Options{}), users: mident.New(), stopped: make(chan struct{})}
	s.level.Store(uint32(sagapart.SubmitLevel))
	s.rig = machinetest.Open(t, store.NewMem(), s.users, s.kv, s.saga)
	return s
}

// ReadIndex implements member.
func (s *solo) ReadIndex() uint64 { return s.rig.Applier.Applied() }

// Status implements member.
func (s *solo) Status() node.Status {
	return node.Status{Learner: s.learner.Load(), Level: uint16(s.level.Load())}
}

// StoppedC implements member.
func (s *solo) StoppedC() <-chan struct{} { return s.stopped }

// Tick implements member.
func (s *solo) Tick() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rig.Tick
}

// Linearize implements member.
func (s *solo) Linearize(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unread
}

// Propose implements member.
func (s *solo) Propose(_ context.Context, _ node.Lane, parts ...entry.Part) (*entry.Result, error) {
	s.mu.Lock()
	if before := s.before; before != nil {
		s.before = nil
		s.mu.Unlock()
		before()
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	res, err := s.rig.Try(parts)
	if err != nil {
		return nil, err
	}
	s.commands++
	if st, ok := res[0].Of(sagapart.Machine).(*sagapart.State); ok && st != nil {
		s.passes.Go(func() { s.pass(st.Number) })
	}
	return res[0], nil
}

// apply applies a part that does not come from the door.
func (s *solo) apply(p *sagapart.Part) *entry.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rig.Apply(machinetest.Command(sagapart.Machine, sagapart.Append(nil, p)))[0]
}

func (s *solo) change(c *sagapart.ChangePart) {
	c.Worker = true
	s.apply(&sagapart.Part{Kind: sagapart.Change, Change: c}) // one that is refused comes too late: so does the worker's
}

// pass is one pass over a transaction, if it is due.
func (s *solo) pass(number uint64) {
	t, err := s.saga.FindNumber(number)
	if err != nil {
		s.t.Error(err)
	}
	if t == nil || t.Status.Final() || t.Status == sagapart.Prepared || t.DueTick > s.Tick() || s.saga.Held() {
		return
	}
	c := &sagapart.ChangePart{Gid: t.Gid, Number: number, From: sagapart.Of(t.Status), To: sagapart.Succeed, Pass: true}
	op := map[sagapart.Mode]string{sagapart.Saga: sagapart.OpAction, sagapart.Msg: sagapart.OpAction, sagapart.TCC: sagapart.OpConfirm, sagapart.XA: sagapart.OpCommit}
	if t.Status == sagapart.Aborting {
		c.To = sagapart.Failed
		op = map[sagapart.Mode]string{sagapart.Saga: sagapart.OpCompensate, sagapart.TCC: sagapart.OpCancel, sagapart.XA: sagapart.OpRollback}
	}
	for i := range t.Branches {
		b := &t.Branches[i]
		if b.Op != op[t.Mode] || b.Status != sagapart.Prepared {
			continue
		}
		switch answer := path.Base(b.URL); {
		case answer == "never":
			return
		case answer == "ongoing":
			c.To, c.Timer, c.NextMs, c.IntervalMs = 0, true, t.IntervalMs, t.IntervalMs
			s.change(c)
			return
		case answer == "fail" && t.Status == sagapart.Submitted:
			c.To, c.Pass, c.Reason = sagapart.Aborting, false, "url:"+b.URL+" return failed: no money "+wordFailure
			c.Timer, c.IntervalMs = true, t.IntervalMs
			c.Results = append(c.Results, sagapart.BranchResult{Branch: uint32(i), Status: sagapart.Failed})
			s.change(c)
			s.pass(number)
			return
		}
		c.Results = append(c.Results, sagapart.BranchResult{Branch: uint32(i), Status: sagapart.Succeed})
	}
	s.change(c)
}

// passed waits for the passes over what has been proposed.
func (s *solo) passed() {
	s.Tick() // takes the lock: a command's pass begins before that is given back
	s.passes.Wait()
}

// forward lets time pass, after which what is due has its pass.
func (s *solo) forward(ms int64) {
	s.passes.Wait()
	s.mu.Lock()
	s.rig.Tick += ms
	now := s.rig.Tick
	s.mu.Unlock()
	due, err := s.saga.Due(sagamachine.Timer{}, now, 1000)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, d := range due {
		s.pass(d.Number)
	}
}

// number is the gid's transaction.
func (s *solo) find(gid string) *sagamachine.Transaction {
	s.t.Helper()
	t, err := s.saga.Find(gid)
	if err != nil || t == nil {
		s.t.Fatalf("%s: %v, %v", gid, t, err)
	}
	return t
}

// put writes a key.
func (s *solo) put(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rig.Must(entry.MachineKV, kvpart.Append(nil, &kvpart.Part{Put: &kvpart.Put{Key: []byte(key), Value: []byte(value)}}))
}

// get reads one, "" if it is not there.
func (s *solo) get(key string) string {
	s.t.Helper()
	res, _, err := s.kv.Range(&kvpart.Range{Key: []byte(key)}, 1<<20)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(res.KVs) == 0 {
		return ""
	}
	return string(res.KVs[0].Value)
}

// authenticate switches authentication on, with a user root.
func (s *solo) authenticate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range []*eident.Part{
		{UserAdd: &eident.UserAdd{Name: "root", NoPassword: true}}, {RoleAdd: &eident.RoleAdd{Name: "root"}},
		{UserGrant: &eident.UserGrant{Name: "root", Role: "root"}}, {Enable: &eident.Enable{}},
	} {
		s.rig.Must(entry.MachineIdent, eident.AppendPart(nil, p))
	}
}

// keys is Options.KV without a door to keys.
func keys(_ context.Context, _ *Caller, t *kvpart.Txn) ([]entry.Part, int, string) {
	return machinetest.Command(entry.MachineKV, kvpart.Append(nil, &kvpart.Part{Must: true, Txn: t})), 0, ""
}

// served is a door with its member, at an address for both protocols.
type served struct {
	*solo
	door *Door
	addr string
	conn *grpc.ClientConn
}

// serve serves a member until the test ends.
func serve(t *testing.T, opts Options) *served {
	t.Helper()
	s := &served{solo: newSolo(t)}
	if opts.Now == nil {
		opts.Now = func() time.Time { return time.Unix(0, machinetest.Epoch+s.Tick()*1e6) }
	}
	opts.RequestTimeout = cmp.Or(opts.RequestTimeout, 10*time.Minute) // a machine that is busy answers late
	s.door = newDoor(s.solo, s.saga, s.users, opts)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- s.door.Serve(l, port.Protocols{}) }()
	if s.conn, err = grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.conn.Close()
		client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
		defer cancel()
		if err := s.door.Shutdown(ctx); err != nil {
			t.Error("shutdown:", err)
		}
		if err := <-ended; err != nil {
			t.Error("serve:", err)
		}
		s.passes.Wait()
		wait.GivenBack(t, s.door.Owed)
	})
	return s
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

// do sends a request, with headers as names and values in turn, and returns status, headers and body.
func (s *served) do(method, path, body string, headers ...string) (int, http.Header, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, "http://"+s.addr+path, bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(r)
	if err != nil {
		s.t.Fatal(method, path, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		s.t.Fatal(method, path, err)
	}
	return res.StatusCode, res.Header, string(b)
}

// want sends a request to a path of DTM's and compares status and body.
func (s *served) want(code int, answer, method, path, body string) {
	s.t.Helper()
	if got, _, b := s.do(method, prefix+path, body); got != code || answer != "" && b != answer {
		s.t.Errorf("%s %s %s\n got %d %s\nwant %d %s", method, path, body, got, b, code, answer)
	}
}

const success = `{"dtm_result":"SUCCESS"}`
