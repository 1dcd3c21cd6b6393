package crash

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// sagaFlags turn the saga door on.
var sagaFlags = []string{"--saga", "{saga}"}

// startSagas starts a cluster with a saga door and waits until every member takes transactions.
func startSagas(t *testing.T, n int) *proctest.Cluster {
	t.Helper()
	c := start(t, n, sagaFlags...)
	for _, node := range c.Nodes {
		if !eventually(t, func() bool { return levelOf(t, node) == newest }) {
			t.Fatalf("%s stays at level %d", node.Name, levelOf(t, node))
		}
	}
	return c
}

// service takes every call and remembers when which gid came first.
type service struct {
	*httptest.Server
	mu    sync.Mutex
	first map[string]time.Time // guarded by mu, by gid
	calls int                  // guarded by mu
}

func serveSteps(t *testing.T) *service {
	s := &service{first: map[string]time.Time{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now, gid := time.Now(), r.URL.Query().Get("gid")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls++
		if _, known := s.first[gid]; !known {
			s.first[gid] = now
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// called returns when the service was called for a gid first.
func (s *service) called(gid string) (at time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok = s.first[gid]
	return at, ok
}

// sagaClient speaks DTM's protocol over connections of its own: the members on their other ends die.
type sagaClient struct{ http http.Client }

func newSagaClient() *sagaClient {
	return &sagaClient{http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
}

// post returns the status, the body and the answer's header; an error says that there was no whole answer. Nothing is sent twice.
func (c *sagaClient) post(node *proctest.Node, path, body string) (code int, answer string, head http.Header, err error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+node.Addr("saga")+path, strings.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	req.GetBody = nil // else net/http sends it again by itself where a kept connection has broken
	res, err := c.http.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), res.Header, err
}

// status is what a member says of a transaction, "" if it knows none.
func (c *sagaClient) status(node *proctest.Node, gid string) (string, error) {
	res, err := c.http.Get("http://" + node.Addr("saga") + "/api/dtmsvr/query?gid=" + gid)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, b)
	}
	var answer struct {
		Transaction *struct{ Status string }
	}
	if err == nil {
		err = json.Unmarshal(b, &answer)
	}
	if err != nil || answer.Transaction == nil {
		return "", err
	}
	return answer.Transaction.Status, nil
}

// ends waits until a transaction has a status it stays in, or there is none, and returns that.
func (c *sagaClient) ends(t *testing.T, node *proctest.Node, gid string) (status string) {
	t.Helper()
	var err error
	if !eventually(t, func() bool {
		status, err = c.status(node, gid)
		return err == nil && (status == "" || status == "succeed" || status == "failed")
	}) {
		t.Fatalf("%s: %s does not end: %q, %v", node.Name, gid, status, err)
	}
	return status
}

// pairs is writers that submit a saga and put a key beside it, in one commit, and remember what they were told.
type pairs struct {
	c     *proctest.Cluster
	cli   *sagaClient
	url   string // of the sagas' only step
	stop  atomic.Bool
	acked atomic.Int64

	mu     sync.Mutex
	revs   map[string]int64 // guarded by mu, by gid: revisions of those that were acknowledged
	open   map[string]bool  // guarded by mu: no answer, or one that says so
	undone map[string]bool  // guarded by mu: 503, which says that nothing was done
	again  int              // guarded by mu: sent once more after no answer
	faults []string         // guarded by mu
}

func (p *pairs) write(writer int, r *rand.Rand) {
	for n := 0; !p.stop.Load(); n++ {
		if !long { // each is looked for on every member afterwards
			time.Sleep(10 * time.Millisecond)
		}
		gid := fmt.Sprintf("pair-%02d-%06d", writer, n)
		key := base64.StdEncoding.EncodeToString([]byte("w/" + gid))
		body := fmt.Sprintf(`{"gid":%q,"trans_type":"saga","retry_interval":1,"steps":[{"action":%q}],"payloads":["{}"],
			"kv":{"success":[{"request_put":{"key":%q,"value":%q}}]}}`, gid, p.url, key, base64.StdEncoding.EncodeToString([]byte(gid)))
		for try := 0; ; try++ {
			code, answer, _, err := p.cli.post(p.c.Nodes[r.IntN(len(p.c.Nodes))], "/api/holdfast/submit", body)
			if p.told(gid, try > 0, code, answer, err) || r.IntN(2) == 0 || p.stop.Load() {
				break
			}
			p.mu.Lock()
			p.again++ // its gid tells whether the first has taken effect
			p.mu.Unlock()
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// told notes an answer and reports whether it says what has happened.
func (p *pairs) told(gid string, again bool, code int, answer string, err error) bool {
	var said struct {
		Result   string `json:"dtm_result"`
		Revision int64
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil && strings.Contains(err.Error(), "refused"): // no listener; the earlier outcome stays open
		if !again {
			p.undone[gid] = true
		}
		return false
	case err != nil || code == http.StatusInternalServerError:
		p.open[gid] = true
		delete(p.undone, gid)
		return false
	case code == http.StatusServiceUnavailable:
		if !p.open[gid] {
			p.undone[gid] = true
		}
		return false
	case code == http.StatusConflict && p.open[gid] && strings.Contains(answer, "the gid exists already"):
		p.revs[gid] = 0 // it was done the first time, under a revision that no client was told
	case code == http.StatusOK && json.Unmarshal([]byte(answer), &said) == nil && said.Result == "SUCCESS" && said.Revision > 0:
		p.revs[gid] = said.Revision
	default:
		p.faults = append(p.faults, fmt.Sprintf("%s is answered %d %s", gid, code, answer))
		return true
	}
	delete(p.open, gid)
	delete(p.undone, gid)
	p.acked.Add(1)
	return true
}

// TestKeysAndSagasTogether kills members under submits that put a key beside a saga. Where it was acknowledged both are there, and both or neither
// where it was not, on every member.
func TestKeysAndSagasTogether(t *testing.T) {
	processTest(t, false)
	beside(t)
	kills := count("PAIR_KILLS", 2, 50)
	r := rng(t)
	c := startSagas(t, 3)
	steps := serveSteps(t)
	p := &pairs{c: c, cli: newSagaClient(), url: steps.URL, revs: map[string]int64{}, open: map[string]bool{}, undone: map[string]bool{}}
	var wg sync.WaitGroup
	for writer := range 8 {
		own := rand.New(rand.NewPCG(uint64(seed), uint64(writer)))
		wg.Go(func() { p.write(writer, own) })
	}
	k := &killer{r: r, c: c}
	for k.kills < kills {
		time.Sleep(between(r, 50*time.Millisecond, 400*time.Millisecond))
		victims := k.strike(t)
		before := p.acked.Load()
		k.revive(t, victims)
		if err := c.WaitReady(); err != nil {
			t.Fatal(err)
		}
		if !eventually(t, func() bool { return p.acked.Load() > before+10 }) {
			t.Fatalf("nothing was acknowledged in 20 s after kill %d, though all members are ready", k.kills)
		}
	}
	p.stop.Store(true)
	wg.Wait()

	both, neither, half, missing := 0, 0, 0, 0
	fail := func(counter *int, format string, args ...any) {
		if *counter++; *counter <= 5 {
			t.Errorf(format, args...)
		}
	}
	for i, node := range c.Nodes {
		held := stored(t, dial(t, node.KV))
		look := func(gid string) (key, saga bool) {
			status := p.cli.ends(t, node, gid)
			if status == "failed" {
				t.Errorf("%s: %s failed, and nobody said no", node.Name, gid)
			}
			a, ok := held["w/"+gid]
			if rev := p.revs[gid]; ok && (a.value != gid || rev != 0 && a.rev != rev) {
				t.Errorf("%s: acknowledged %s at revision %d; held: %+v", node.Name, gid, rev, a)
			}
			if _, called := steps.called(gid); called != (status != "") {
				t.Errorf("%s: %s is %q, and whether its service was called: %t", node.Name, gid, status, called)
			}
			return ok, status != ""
		}
		for gid := range p.revs { // any order: each is judged by itself, as below
			if key, saga := look(gid); !key || !saga {
				fail(&missing, "%s: acknowledged %s; there is the key: %t, the saga: %t", node.Name, gid, key, saga)
			}
		}
		for gid := range p.undone {
			if key, saga := look(gid); key || saga {
				fail(&half, "%s: %s was not done, by its answer; there is the key: %t, the saga: %t", node.Name, gid, key, saga)
			}
		}
		for gid := range p.open {
			key, saga := look(gid)
			switch {
			case key != saga:
				fail(&half, "%s: %s had no answer; there is the key: %t, the saga: %t", node.Name, gid, key, saga)
			case i > 0:
			case key:
				both++
			default:
				neither++
			}
		}
	}
	for _, f := range p.faults {
		t.Error(f)
	}
	hashes(t, c)
	summary(t, "keys and sagas in one commit: %d kills (%d of the leader), 3 members, %s acknowledged, %d missing, %d without an answer (%d there, "+
		"%d not), %d refused, %d sent again, %d half", k.kills, k.leaders, grouped(len(p.revs)), missing, len(p.open), both, neither, len(p.undone), p.again, half)
}

// envelope is the least that an answer of DTM's is.
type envelope struct {
	Result  string `json:"dtm_result"`
	Message string `json:"message"`
}

func readEnvelope(t *testing.T, text string) (e envelope) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		t.Errorf("%s is not in the protocol's form: %v", text, err)
	}
	return e
}
