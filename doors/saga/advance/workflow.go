package advance

import (
	"encoding/binary"

	"github.com/holdfastdb/holdfast/doors/saga/outcall"
)

// decideWorkflow calls the client's callback each time the workflow is due. The client goes on from the progress it has registered and
// says itself, by a submit of its own, how the workflow has ended.
func decideWorkflow(v *view) step {
	switch q := &v.query; {
	case q.state == uncalled:
		return step{calls: []int{queryCall}}
	case q.state == running:
		return step{}
	case !v.queried: // most often it has ended while the callback ran
		return step{reread: true}
	}
	return v.later()
}

// workflowBody is the callback's body: the data, over gRPC in field 1 of a WorkflowData message.
func (v *view) workflowBody() []byte {
	data := v.plan.data
	if v.tx.Protocol != outcall.GRPC || len(data) == 0 {
		return data
	}
	body := binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(data)))
	return append(body, data...)
}
