package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	rpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// bytesCodec sends bytes as they are: a client of no library.
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

// typed makes a message of the service from JSON, by the description that reflection gives of it.
func typed(t *testing.T, name, doc string) *dynamicpb.Message {
	t.Helper()
	m := empty1(t, name)
	if err := protojson.Unmarshal([]byte(doc), m); err != nil {
		t.Fatal(name, doc, err)
	}
	return m
}

func empty1(t *testing.T, name string) *dynamicpb.Message {
	t.Helper()
	files, err := newDescribed()
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.FindDescriptorByName(protoreflect.FullName("dtmgimp." + name))
	if err != nil {
		t.Fatal(err)
	}
	return dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
}

// call calls a method with a message of the service and returns what comes as JSON.
func (s *served) call(method, message, doc, answer string) (string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(s.t))
	defer cancel()
	b, err := proto.Marshal(typed(s.t, message, doc))
	if err != nil {
		s.t.Fatal(err)
	}
	var back []byte
	if err := s.conn.Invoke(ctx, "/dtmgimp.Dtm/"+method, &b, &back, grpc.ForceCodecV2(bytesCodec{})); err != nil {
		return "", err
	}
	if answer == "" {
		if len(back) > 0 {
			s.t.Errorf("%s: an answer of %d bytes where nothing is due", method, len(back))
		}
		return "", nil
	}
	m := empty1(s.t, answer)
	if err := proto.Unmarshal(back, m); err != nil {
		s.t.Fatal(err)
	}
	out, err := json.Marshal(json.RawMessage(protojson.Format(m))) // without the blanks that protojson varies
	if err != nil {
		s.t.Fatal(err)
	}
	return string(out), nil
}

// TestGRPC walks through every method with a client that has nothing of ours.
func TestGRPC(t *testing.T) {
	s := serve(t, Options{})
	expect := func(code codes.Code, says, method, message, doc string) {
		t.Helper()
		if _, err := s.call(method, message, doc, ""); status.Code(err) != code || err != nil && !strings.Contains(status.Convert(err).Message(), says) {
			t.Errorf("%s %s: %v, want %s with %q", method, doc, err, code, says)
		}
	}
	steps := func(actions ...string) string {
		var all []string
		for _, a := range actions {
			all = append(all, fmt.Sprintf(`{"action":"busi:80/%s","compensate":"busi:80/ok"}`, a))
		}
		return strings.ReplaceAll("["+strings.Join(all, ",")+"]", `"`, `\"`)
	}
	gid, err := s.call("NewGid", "DtmGidReply", `{}`, "DtmGidReply")
	if err != nil || !strings.HasPrefix(gid, `{"Gid":"`) || len(gid) != len(`{"Gid":""}`)+gidLength {
		t.Fatal(gid, err)
	}

	expect(codes.OK, "", "Submit", "DtmRequest", `{"Gid":"s1","TransType":"saga","Steps":"`+steps("ok", "ok")+`","BinPayloads":["AAE=","/w=="],"TransOptions":{"WaitResult":true,
		"TimeoutToFail":"60","RetryInterval":"7","RequestTimeout":"8","RetryLimit":"2","BranchHeaders":{"X-A":"b"}},"CustomedData":"{}"}`)
	saga := s.find("s1")
	if saga.Status != sagapart.Succeed || saga.Protocol != "grpc" || len(saga.Branches) != 4 || string(saga.Branches[1].Payload) != "\x00\x01" ||
		saga.Options != (sagapart.Options{WaitResult: true, TimeoutMs: 60_000, RequestTimeoutMs: 8000, RetryIntervalMs: 7000, RetryLimit: 2}) ||
		!slices.Equal(saga.Headers, []sagapart.Header{{Name: "X-A", Value: "b"}}) {
		t.Errorf("%+v", saga)
	}
	expect(codes.OK, "", "Submit", "DtmRequest", `{"Gid":"s1","TransType":"saga"}`) // once more
	expect(codes.Aborted, "current status 'succeed', cannot sumbmit: another transaction has this gid", "Submit", "DtmRequest", `{"Gid":"s1","TransType":"saga","Steps":"`+steps("fail")+`","BinPayloads":[""]}`)
	expect(codes.Aborted, "no money FAILURE", "Submit", "DtmRequest", `{"Gid":"s2","TransType":"saga","Steps":"`+steps("fail")+`","BinPayloads":[""],"TransOptions":{"WaitResult":true}}`)
	expect(codes.Internal, "Steps: ", "Submit", "DtmRequest", `{"Gid":"s3","TransType":"saga","Steps":"["}`)
	expect(codes.Internal, "no gid", "Submit", "DtmRequest", `{}`)
	expect(codes.OK, "", "Submit", "DtmRequest", `{"Gid":"s4","TransType":"saga","Steps":"null"}`)
	expect(codes.InvalidArgument, "gid", "Submit", "DtmRequest", `{"Gid":"`+strings.Repeat("g", 129)+`","TransType":"saga"}`)

	expect(codes.OK, "", "Prepare", "DtmRequest", `{"Gid":"t1","TransType":"tcc","TransOptions":{"WaitResult":true}}`)
	expect(codes.OK, "", "RegisterBranch", "DtmBranchRequest", `{"Gid":"t1","TransType":"tcc","BranchID":"01","BusiPayload":"AA==","Data":{"confirm":"busi:80/ok","cancel":"busi:80/ongoing"}}`)
	expect(codes.Aborted, "status: prepared found", "RegisterBranch", "DtmBranchRequest", `{"Gid":"t0","TransType":"tcc"}`)
	expect(codes.FailedPrecondition, wordOngoing, "Abort", "DtmRequest", `{"Gid":"t1","TransType":"tcc","RollbackReason":"no"}`)
	if tcc := s.find("t1"); tcc.Status != sagapart.Aborting || tcc.Reason != "no" || tcc.Branches[0].URL != "busi:80/ongoing" || tcc.Branches[0].Op != sagapart.OpCancel {
		t.Errorf("%+v", tcc)
	}
	expect(codes.Internal, "no TransGlobal with gid: t9 found", "Abort", "DtmRequest", `{"Gid":"t9","TransType":"tcc"}`)

	expect(codes.OK, "", "Subscribe", "DtmTopicRequest", `{"Topic":"paid","URL":"busi:80/ok","Remark":"r"}`)
	expect(codes.Internal, "this url exists", "Subscribe", "DtmTopicRequest", `{"Topic":"paid","URL":"busi:80/ok"}`)
	expect(codes.OK, "", "Unsubscribe", "DtmTopicRequest", `{"Topic":"paid","URL":"busi:80/ok"}`)
	expect(codes.OK, "", "DeleteTopic", "DtmTopicRequest", `{"Topic":"paid"}`)
	expect(codes.Internal, "storage: NotFound", "DeleteTopic", "DtmTopicRequest", `{"Topic":"paid"}`)
}

// TestAFinishedWorkflowHasItsResult: over gRPC too, where DTM's own server leaves it out and the client replays for nothing.
func TestAFinishedWorkflowHasItsResult(t *testing.T) {
	s := serve(t, Options{})
	const prepare = `{"Gid":"w","TransType":"workflow","CustomedData":"{\"name\":\"pay\"}","QueryPrepared":"busi:80/workflow"}`
	if got, err := s.call("PrepareWorkflow", "DtmRequest", prepare, "DtmProgressesReply"); err != nil || got != `{"transaction":{"gid":"w","status":"prepared"}}` {
		t.Fatal(got, err)
	}
	if _, err := s.call("RegisterBranch", "DtmBranchRequest", `{"Gid":"w","TransType":"workflow","BranchID":"01","BusiPayload":"AAE=","Data":{"op":"action","status":"succeed"}}`, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.call("Submit", "DtmRequest", `{"Gid":"w","TransType":"workflow","ReqExtra":{"status":"succeed","result":"cmVzdWx0"}}`, ""); err != nil {
		t.Fatal(err)
	}
	want := `{"transaction":{"gid":"w","status":"succeed","result":"cmVzdWx0"},"progresses":[{"status":"succeed","bin_data":"AAE=","branch_id":"01","op":"action"}]}`
	if got, err := s.call("PrepareWorkflow", "DtmRequest", prepare, "DtmProgressesReply"); err != nil || got != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
}

// TestMessagesAreWhatReflectionSays: every field that the description has is one that the readers take, under its number.
func TestMessagesAreWhatReflectionSays(t *testing.T) {
	b, err := proto.Marshal(typed(t, "DtmRequest", `{"Gid":"1","TransType":"saga","TransOptions":{"WaitResult":true,"TimeoutToFail":"2","RetryInterval":"3","BranchHeaders":{"a":"b"},
		"RequestTimeout":"6","RetryLimit":"7"},"CustomedData":"4","BinPayloads":["NQ=="],"QueryPrepared":"6","Steps":"[{\"action\":\"7\"}]","ReqExtra":{"status":"8","result":"r","rollback_reason":"w"},
		"RollbackReason":"9"}`))
	if err != nil {
		t.Fatal(err)
	}
	var r dtmRequest
	if err := r.decode(b); err != nil {
		t.Fatal(err)
	}
	r.named = nil
	got := fmt.Sprintf("%+v", r)
	want := fmt.Sprintf("%+v", dtmRequest{request{Definition: sagapart.Definition{Gid: "1", Protocol: "grpc", QueryPrepared: "6", CustomData: "4",
		Options: sagapart.Options{WaitResult: true, TimeoutMs: 2000, RequestTimeoutMs: 6000, RetryIntervalMs: 3000, RetryLimit: 7},
		Headers: []sagapart.Header{{Name: "a", Value: "b"}}}, mode: "saga", steps: []step{{action: "7"}}, payloads: [][]byte{[]byte("5")}, reason: "9",
		status: "8", outcome: "r", why: "w"}})
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	for n := range b {
		var torn dtmRequest
		_ = torn.decode(b[:n])
	}
}

// TestReflection: grpcurl and the like find the service in both versions of reflection, and its messages.
func TestReflection(t *testing.T) {
	s := serve(t, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	stream, err := rpb.NewServerReflectionClient(s.conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *rpb.ServerReflectionRequest) *rpb.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		res, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	var names []string
	for _, one := range ask(&rpb.ServerReflectionRequest{MessageRequest: &rpb.ServerReflectionRequest_ListServices{}}).GetListServicesResponse().GetService() {
		names = append(names, one.Name)
	}
	if !slices.Contains(names, service) {
		t.Errorf("services %v", names)
	}
	files := ask(&rpb.ServerReflectionRequest{MessageRequest: &rpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service}}).GetFileDescriptorResponse().GetFileDescriptorProto()
	var methods int
	for _, b := range files {
		var f descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		if f.GetName() == descriptorName {
			methods = len(f.Service[0].Method)
		}
	}
	if methods != 9 {
		t.Errorf("%d methods in %d files", methods, len(files))
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Error(err)
	}
}
