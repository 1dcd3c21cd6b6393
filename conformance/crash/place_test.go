package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// errRefused is an answer of v2 that is neither a key nor its absence.
var errRefused = errors.New("refused")

// place is where registers send requests: a member, and a connection to it for each API.
type place struct {
	node *proctest.Node
	cc   *grpc.ClientConn
	http *http.Client
}

// openPlace dials eagerly: see dialEager.
func openPlace(n *proctest.Node) (*place, error) {
	cc, err := grpc.NewClient(n.KV, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 200 * time.Millisecond}}))
	if err != nil {
		return nil, err
	}
	return &place{node: n, cc: cc, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}, nil
}

func (p *place) close() {
	p.cc.Close()
	p.http.CloseIdleConnections()
}

// v2 carries out one request; the index is that of the key's last change, 0 if there is no such key.
func (p *place) v2(ctx context.Context, method, key, query string, form url.Values) (index int64, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.node.KV+"/v2/keys/"+key+query, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := p.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var a v2Answer
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
		return 0, fmt.Errorf("%w: %s", errRefused, res.Status)
	}
	switch {
	case method == http.MethodGet && a.Code == 100:
		return 0, nil
	case res.StatusCode >= 300 || a.Code != 0 || a.Node.Modified == 0:
		return 0, fmt.Errorf("%w: %s, code %d", errRefused, res.Status, a.Code)
	}
	return int64(a.Node.Modified), nil
}

// v2Children is what a v2 directory holds, read with quorum.
func v2Children(t *testing.T, n *proctest.Node, dir string) []v2Node {
	t.Helper()
	res, err := http.Get("http://" + n.KV + "/v2/keys/" + dir + "?quorum=true")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var a struct {
		Node struct {
			Nodes []v2Node `json:"nodes"`
		} `json:"node"`
	}
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("v2 directory %s of %s: %s, %v", dir, n.Name, res.Status, err)
	}
	return a.Node.Nodes
}

type v2Node struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Modified uint64 `json:"modifiedIndex"`
}
