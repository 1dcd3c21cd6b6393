package kv

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfastdb/holdfast/doors/kv/ops"
	"github.com/holdfastdb/holdfast/internal/meter"
)

// TestPutsInPiecesAreSealedAlike: a put that comes in several frames becomes the command that it becomes in one.
func TestPutsInPiecesAreSealedAlike(t *testing.T) {
	long := bytes.Repeat([]byte("v"), 50_000)
	var messages [][]byte
	for _, r := range []*pb.PutRequest{
		{Key: []byte("k"), Value: long}, {Key: []byte("k"), Value: long, Lease: 1 << 40, PrevKv: true}, {Key: long, Value: []byte("v")}, {Key: []byte("k")},
		{Value: long}, {Key: []byte("k"), Value: long, IgnoreValue: true}, {Key: []byte("k"), Value: long, IgnoreLease: true, Lease: 1},
	} {
		b, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, b)
	}
	// Fields in another order, met twice, unknown, cut off.
	swapped := append(append([]byte{0x12, 5}, "value"...), 0x0a, 1, 'k')
	messages = append(messages, swapped, append(bytes.Clone(messages[0]), messages[1]...), append(bytes.Clone(messages[1]), 0x7a, 3, 1, 2, 3), messages[0][:100])
	for i, b := range messages {
		var whole, pieces putCall
		wantErr := whole.decode(bytes.Clone(b))
		parts := mem.BufferSlice{}
		for at := 0; at < len(b); at += 1 + len(b)/3 {
			parts = append(parts, mem.SliceBuffer(b[at:min(at+1+len(b)/3, len(b))]))
		}
		c := codec{new(meter.Steps), new(ops.Counts)}
		gotErr := c.Unmarshal(parts, &pieces)
		if (gotErr == nil) != (wantErr == nil) || !bytes.Equal(pieces.body, whole.body) || pieces.refusal != whole.refusal || pieces.size != whole.size ||
			pieces.cost != whole.cost {
			t.Errorf("message %d: %v, %.40q, %v, %d, %d in pieces; %v, %.40q, %v, %d, %d as a whole", i, gotErr, pieces.body, pieces.refusal, pieces.size,
				pieces.cost, wantErr, whole.body, whole.refusal, whole.size, whole.cost)
		}
	}
}
