package saga

import (
	"fmt"

	"google.golang.org/grpc/reflection"
	rpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	rapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	_ "google.golang.org/protobuf/types/known/emptypb" // described by it
)

// descriptorName is the file in which DTM's service is described; its name is DTM's.
const descriptorName = "dtmgrpc/dtmgpb/dtmgimp.proto"

const emptyProto = "google/protobuf/empty.proto"

// descriptor describes the messages and methods of the service, as messages.go reads and writes them.
func descriptor() *descriptorpb.FileDescriptorProto {
	const text, flag, number, raw = descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_BOOL,
		descriptorpb.FieldDescriptorProto_TYPE_INT64, descriptorpb.FieldDescriptorProto_TYPE_BYTES
	f := &descriptorpb.FileDescriptorProto{Name: proto.String(descriptorName), Package: proto.String("dtmgimp"), Syntax: proto.String("proto3"),
		Dependency: []string{emptyProto}}
	f.MessageType = []*descriptorpb.DescriptorProto{
		message("DtmTransOptions", field("WaitResult", 1, flag), field("TimeoutToFail", 2, number), field("RetryInterval", 3, number),
			textMap("DtmTransOptions", "BranchHeaders", 5), field("RequestTimeout", 6, number), field("RetryLimit", 7, number)),
		message("DtmRequest", field("Gid", 1, text), field("TransType", 2, text), other("TransOptions", 3, "DtmTransOptions"), field("CustomedData", 4, text),
			list(field("BinPayloads", 5, raw)), field("QueryPrepared", 6, text), field("Steps", 7, text), textMap("DtmRequest", "ReqExtra", 8),
			field("RollbackReason", 9, text)),
		message("DtmGidReply", field("Gid", 1, text)),
		message("DtmBranchRequest", field("Gid", 1, text), field("TransType", 2, text), field("BranchID", 3, text), field("Op", 4, text),
			textMap("DtmBranchRequest", "Data", 5), field("BusiPayload", 6, raw)),
		message("DtmProgressesReply", named(other("Transaction", 1, "DtmTransaction"), "transaction"),
			named(list(other("Progresses", 2, "DtmProgress")), "progresses")),
		message("DtmTransaction", named(field("Gid", 1, text), "gid"), named(field("Status", 2, text), "status"),
			named(field("RollbackReason", 3, text), "rollback_reason"), named(field("Result", 4, text), "result")),
		message("DtmProgress", named(field("Status", 1, text), "status"), named(field("BinData", 2, raw), "bin_data"),
			named(field("BranchID", 3, text), "branch_id"), named(field("Op", 4, text), "op")),
		message("DtmTopicRequest", field("Topic", 1, text), field("URL", 2, text), field("Remark", 3, text)),
	}
	const none = ".google.protobuf.Empty"
	s := &descriptorpb.ServiceDescriptorProto{Name: proto.String("Dtm")}
	for _, m := range [][3]string{
		{"NewGid", none, "DtmGidReply"}, {"Submit", "DtmRequest", none}, {"Prepare", "DtmRequest", none}, {"Abort", "DtmRequest", none},
		{"RegisterBranch", "DtmBranchRequest", none}, {"PrepareWorkflow", "DtmRequest", "DtmProgressesReply"},
		{"Subscribe", "DtmTopicRequest", none}, {"Unsubscribe", "DtmTopicRequest", none}, {"DeleteTopic", "DtmTopicRequest", none},
	} {
		s.Method = append(s.Method, &descriptorpb.MethodDescriptorProto{Name: proto.String(m[0]), InputType: full(m[1]), OutputType: full(m[2])})
	}
	f.Service = []*descriptorpb.ServiceDescriptorProto{s}
	return f
}

func full(name string) *string {
	if name[0] != '.' {
		name = ".dtmgimp." + name
	}
	return &name
}

// message makes a message. The entry of a map among its fields is a message inside it.
func message(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
	m := &descriptorpb.DescriptorProto{Name: proto.String(name), Field: fields}
	for _, f := range fields {
		if entry := f.GetName() + "Entry"; f.GetTypeName() == *full(name + "." + entry) {
			m.NestedType = append(m.NestedType, &descriptorpb.DescriptorProto{Name: proto.String(entry),
				Field: []*descriptorpb.FieldDescriptorProto{field("key", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING),
					field("value", 2, descriptorpb.FieldDescriptorProto_TYPE_STRING)},
				Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}})
		}
	}
	return m
}

func field(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{Name: proto.String(name), Number: proto.Int32(number), Type: kind.Enum(),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
}

func other(name string, number int32, of string) *descriptorpb.FieldDescriptorProto {
	f := field(name, number, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE)
	f.TypeName = full(of)
	return f
}

func list(f *descriptorpb.FieldDescriptorProto) *descriptorpb.FieldDescriptorProto {
	f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	return f
}

func textMap(of, name string, number int32) *descriptorpb.FieldDescriptorProto {
	return list(other(name, number, of+"."+name+"Entry"))
}

// named gives a field its name in JSON.
func named(f *descriptorpb.FieldDescriptorProto, name string) *descriptorpb.FieldDescriptorProto {
	f.JsonName = proto.String(name)
	return f
}

// described finds the descriptors of this door, and those of others in the registry of the process. DTM's are not put there: a
// program that links DTM's client as well has its own.
type described struct{ own *protoregistry.Files }

// newDescribed makes the descriptors; an error is a mistake in descriptor.
func newDescribed() (*described, error) {
	file, err := protodesc.NewFile(descriptor(), protoregistry.GlobalFiles)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", service, err)
	}
	own := new(protoregistry.Files)
	return &described{own}, own.RegisterFile(file)
}

// FindFileByPath implements protodesc.Resolver.
func (r *described) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if f, err := r.own.FindFileByPath(path); err == nil {
		return f, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

// FindDescriptorByName implements protodesc.Resolver.
func (r *described) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if f, err := r.own.FindDescriptorByName(name); err == nil {
		return f, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// reflect offers both versions of reflection, for grpcurl and others.
func (d *Door) reflect() {
	files, err := newDescribed()
	if err != nil {
		panic(err) // its arguments are constants
	}
	opts := reflection.ServerOptions{Services: d.server, DescriptorResolver: files}
	rpb.RegisterServerReflectionServer(d.server, reflection.NewServerV1(opts))
	rapb.RegisterServerReflectionServer(d.server, reflection.NewServer(opts))
}
