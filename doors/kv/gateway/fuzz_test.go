package gateway

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// echo answers what it is asked, so that a test sees what the gateway made of a request.
type echo struct {
	pb.UnimplementedKVServer
	pb.UnimplementedWatchServer
}

func (echo) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if string(r.Key) == "refused" {
		return nil, status.Error(codes.InvalidArgument, "etcdserver: refused")
	}
	md, _ := metadata.FromIncomingContext(ctx)
	return &pb.RangeResponse{Count: r.Limit, Kvs: kvs(string(r.Key), strings.Join(md.Get("authorization"), ","))}, nil
}

func (echo) Watch(s pb.Watch_WatchServer) error {
	for {
		r, err := s.Recv()
		if err != nil {
			return nil // the request has ended
		}
		if err := s.Send(&pb.WatchResponse{WatchId: r.GetCreateRequest().GetWatchId(), Created: true}); err != nil {
			return err
		}
	}
}

// mostValues is as at the default of --max-txn-ops.
const mostValues = 8 * 1024

// start returns a gateway in front of echo.
func start(t testing.TB) *Gateway {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterKVServer(s, echo{})
	pb.RegisterWatchServer(s, echo{})
	go s.Serve(l)
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	g, err := New(conn, mostValues)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// paths are the ways into the gateway that a fuzzed body is sent to.
var paths = []string{"/v3/kv/range", "/v3beta/kv/range", "/v3/kv/put", "/v3/kv/txn", "/v3/watch", "/v3/lease/grant", "/v3/lease/keepalive",
	"/v3/maintenance/snapshot", "/v3/auth/authenticate", "/v3/election/observe", "/v3/lock/lock", "/v3/cluster/member/list"}

// FuzzGateway sends bodies. Every answer is a status HTTP knows and JSON documents, an error has a code and a message, and
// nothing hangs.
func FuzzGateway(f *testing.F) {
	for i, body := range []string{
		`{}`, `{"key":"Zm9v"}`, `{"key":"Zm9v","range_end":"Zm9w","limit":"5","sort_order":"DESCEND"}`, `{"key":"Zm9v","value":"YmFy","lease":"1"}`,
		`{"compare":[{"key":"YQ==","target":"VALUE","value":"Yg=="}],"success":[{"requestTxn":{"success":[{"request_put":{"key":"YQ=="}}]}}]}`,
		`{"create_request":{"key":"YQ==","watch_id":"5"}} {"cancel_request":{"watch_id":5}}`, `{"TTL":1e2,"ID":-1}`,
		`[`, `{"a":{"a":{"a":[[[[{}]]]]}}}`, "\x00", `{"key":"\ud800"}`, `{"limit":"99999999999999999999"}`, `null`, ``,
	} {
		f.Add(i%len(paths), []byte(body))
	}
	g := start(f)
	f.Fuzz(func(t *testing.T, path int, body []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
		defer cancel()
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, paths[uint(path)%uint(len(paths))], strings.NewReader(string(body)))
		g.ServeHTTP(w, r)
		if ctx.Err() != nil {
			t.Fatal("no end")
		}
		if http.StatusText(w.Code) == "" {
			t.Fatalf("status %d", w.Code)
		}
		d := json.NewDecoder(w.Body)
		for d.More() {
			var v struct {
				Code  int
				Error struct{ Code int } // of a stream
			}
			if err := d.Decode(&v); err != nil {
				t.Fatalf("the answer is no JSON: %v", err)
			}
			if w.Code != http.StatusOK && v.Code+v.Error.Code == 0 {
				t.Fatalf("status %d without a code", w.Code)
			}
		}
	})
}
