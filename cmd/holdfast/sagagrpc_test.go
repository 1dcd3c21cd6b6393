package main

import (
	"crypto/tls"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
)

// bytesCodec sends bytes as they are.
type bytesCodec struct{}

// Name implements encoding.CodecV2.
func (bytesCodec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = bytesCodec{}

// grpcAsk calls a method of DTM's service; conf nil is cleartext.
func grpcAsk(t *testing.T, at string, conf *tls.Config, token, method string, body []byte) (answer []byte, err error) {
	t.Helper()
	creds := insecure.NewCredentials()
	if conf != nil {
		creds = credentials.NewTLS(conf)
	}
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := timely(t)
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	err = conn.Invoke(ctx, "/dtmgimp.Dtm/"+method, &body, &answer, grpc.ForceCodecV2(bytesCodec{}))
	return answer, err
}

// texts is a message whose fields are all strings.
func texts(fields map[protowire.Number]string) (b []byte) {
	for n, v := range fields { // any order: a message is the same in each
		b = protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	return b
}

// due is how long after its beginning a transaction is to be looked at.
func (s *sagaRig) due(gid string) time.Duration {
	s.t.Helper()
	var answer struct {
		Transaction struct {
			Created time.Time `json:"create_time"`
			Next    time.Time `json:"next_cron_time"`
		}
	}
	if err := json.NewDecoder(strings.NewReader(says(s.t, "saga", "show", gid, "--saga", s.at))).Decode(&answer); err != nil {
		s.t.Fatal(err)
	}
	return answer.Transaction.Next.Sub(answer.Transaction.Created)
}
