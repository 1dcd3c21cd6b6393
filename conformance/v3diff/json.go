package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// jsonPaths is where the JSON gateway takes the calls that plain draws.
var jsonPaths = map[string]string{
	rangeCall.path: "/v3/kv/range", putCall.path: "/v3/kv/put", deleteCall.path: "/v3/kv/deleterange", txnCall.path: "/v3/kv/txn",
	revokeCall.path: "/v3/lease/revoke", ttlCall.path: "/v3/lease/timetolive", leasesCall.path: "/v3/lease/leases",
}

// json sends a request to the JSON gateway, as a program does or as a page of some origin. A page that asks first is one of them.
func (s *script) json() error {
	m, req := s.plain()
	switch {
	case s.chance(20):
		m, req = txnCall, s.txn()
	case s.chance(5):
		m, req = leasesCall, &pb.LeaseLeasesRequest{}
	}
	origin := one(s.dice, "", "http://ui.example", "https://other.example:8443", "null")
	verb := http.MethodPost
	if s.chance(10) {
		verb = one(s.dice, http.MethodOptions, http.MethodGet, http.MethodPut)
	}
	what := fmt.Sprintf("%s %s from %q %s", verb, jsonPaths[m.path], origin, (&frame{}).text(req))
	_, err := s.ask("(JSON)", what, req, func(x *side) (*answer, error) { return x.viaJSON(verb, m, req, origin) })
	return err
}

// viaJSON makes one call through the gateway.
func (x *side) viaJSON(verb string, m method, req proto.Message, origin string) (*answer, error) {
	body, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(x.fill(req))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, verb, "http://"+x.cluster.Nodes[x.home].KV+jsonPaths[m.path], strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, x.alive(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	a := &answer{text: fmt.Sprintf("HTTP %d", res.StatusCode), in: x.frame}
	for _, h := range []string{"Content-Type", "Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Content-Encoding"} {
		a.text += fmt.Sprintf(", %s %q", h, res.Header.Values(h))
	}
	message := m.answer()
	switch refused := struct {
		Code    int
		Message string
	}{}; {
	case len(b) == 0:
	case res.StatusCode == http.StatusOK:
		if err := protojson.Unmarshal(b, message); err != nil {
			a.text += fmt.Sprintf(", no answer: %s %q", err, b)
			break
		}
		timeless(message)
		a.text, a.message = a.text+" "+x.text(message), message
		if h, ok := message.(interface{ GetHeader() *pb.ResponseHeader }); ok && h.GetHeader() != nil {
			a.revision = h.GetHeader().Revision - x.first
		}
	case json.Unmarshal(b, &refused) == nil:
		a.code = codes.Code(refused.Code)
		a.text += fmt.Sprintf(" %s: %s", a.code, refused.Message)
	default:
		a.text += fmt.Sprintf(" %q", b)
	}
	return a, nil
}
