package tlog

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/ack/acktest"
	"github.com/holdfastdb/holdfast/serve/port"
)

// solo is a member without a log: it applies at once what is proposed, and signs at once what is in a hurry.
type solo struct {
	acktest.Fake
	t    *testing.T
	logs *tlogmachine.Machine

	mu    sync.Mutex
	rig   *machinetest.Rig
	calls int
	fail  error         // Propose answers it
	slow  time.Duration // and takes this long
	mute  bool          // signs nothing

	learner atomic.Bool
}

func (s *solo) ReadIndex() uint64 { return s.rig.Applier.Applied() }

func (s *solo) Status() node.Status { return node.Status{Learner: s.learner.Load()} }

func (s *solo) StoppedC() <-chan struct{} { return nil }

func (s *solo) Propose(_ context.Context, _ node.Lane, parts ...entry.Part) (*entry.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	time.Sleep(s.slow)
	if s.fail != nil {
		return nil, s.fail
	}
	s.calls++
	res, err := s.apply(parts...)
	if err == nil && !s.mute && len(parts[0].Body) > 1 && parts[0].Body[0] == byte(tlogpart.Append) && parts[0].Body[1] == tlogpart.FlagHurry {
		s.sign(s.logs.Logs()...)
	}
	return res, err
}

func (s *solo) apply(parts ...entry.Part) (*entry.Result, error) {
	res, err := s.rig.Try(parts)
	if err != nil {
		return nil, err
	}
	return res[0], nil
}

// do carries out a part, which may be rejected: a log that did not grow gets no second checkpoint of its size.
func (s *solo) do(p *tlogpart.Part) {
	s.t.Helper()
	s.rig.Apply(machinetest.Command(entry.MachineTlog, tlogpart.AppendPart(nil, p)))
}

// sign publishes a checkpoint of each log as it is now.
func (s *solo) sign(logs ...*tlogmachine.Log) {
	for _, l := range logs {
		v := l.View()
		key := s.signer(l.Spec.Name)
		n := &tiles.Note{Text: (&tiles.Checkpoint{Origin: key.Verifier().Name, Size: v.Size, Root: v.Root}).Text()}
		key.Sign(n)
		s.do(&tlogpart.Part{Kind: tlogpart.Checkpoint, Checkpoints: []tlogpart.Signed{{Log: l.Number, Size: v.Size, Root: v.Root, Note: n.Append(nil)}}})
	}
}

func (s *solo) signNow(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sign(s.logs.Find(name))
}

func (s *solo) signer(name string) *tiles.Signer {
	k, err := tiles.NewSigner("log.example/"+name, bytes.Repeat([]byte{byte(len(name))}, 32))
	if err != nil {
		s.t.Fatal(err)
	}
	return k
}

// open serves a member with the logs given, each a name and perhaps "+dedup" or "+index".
func open(t *testing.T, opts Options, logs ...string) (*solo, *Door, string) {
	t.Helper()
	s := &solo{t: t, logs: tlogmachine.New()}
	s.rig = machinetest.Open(t, store.NewMem(), s.logs)
	for _, l := range logs {
		name, option, _ := strings.Cut(l, "+")
		s.do(&tlogpart.Part{Kind: tlogpart.Create, Spec: tlogpart.LogSpec{Name: name, Key: *s.signer(name).Verifier(), Dedup: option == "dedup", Index: option == "index"}})
		s.sign(s.logs.Find(name))
	}
	opts.RequestTimeout = cmp.Or(opts.RequestTimeout, 10*time.Minute) // a machine that is busy answers late
	d := newDoor(s, s.logs, opts)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- d.Serve(l, port.Protocols{}) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
		defer cancel()
		if err := d.Shutdown(ctx); err != nil {
			t.Error("shutdown:", err)
		}
		if err := <-served; err != nil {
			t.Error("serve:", err)
		}
		wait.GivenBack(t, d.Owed)
	})
	return s, d, "http://" + l.Addr().String()
}

func call(t *testing.T, c *http.Client, method, url string, body []byte, headers ...string) (*http.Response, []byte) {
	t.Helper()
	q, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(q)
	if err != nil {
		t.Fatal(method, url, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(method, url, err)
	}
	return res, b
}

// expect asks for something and compares status, and the headers given as "Name: value" ("Name:" for none).
func expect(t *testing.T, c *http.Client, method, url string, code int, headers ...string) []byte {
	t.Helper()
	res, b := call(t, c, method, url, nil)
	if res.StatusCode != code {
		t.Errorf("%s %s: %s, want %d: %s", method, url, res.Status, code, b)
	}
	for _, h := range headers {
		name, want, _ := strings.Cut(h, ": ")
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s %s: %s is %q, want %q", method, url, name, got, want)
		}
	}
	return b
}
