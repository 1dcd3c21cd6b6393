package main

import (
	"bytes"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// stableLimit is the length up to which the original's sort keeps the order of equal elements.
const stableLimit = 12

// untied reports whether two answers are the same except for the order of equals in a sort by something else than the key.
func untied(req proto.Message, a, b *answer) bool {
	if a.message == nil || b.message == nil {
		return false
	}
	x, y := proto.Clone(a.message), proto.Clone(b.message)
	return untie(req, x) && untie(req, y) && a.in.text(x) == b.in.text(y)
}

// untie orders equals by key and reports whether there was a place for that. Where a limit cuts through equals, either may have
// kept others than the other: how many must do.
func untie(req, res proto.Message) bool {
	switch r := req.(type) {
	case *pb.RangeRequest:
		res, ok := res.(*pb.RangeResponse)
		if !ok || r.SortTarget == pb.RangeRequest_KEY || res.Count <= stableLimit {
			return false
		}
		from := 0
		for i := range res.Kvs {
			if last := i == len(res.Kvs)-1; last || sortedBy(r, res.Kvs[i]) != sortedBy(r, res.Kvs[i+1]) {
				group := res.Kvs[from : i+1]
				slices.SortFunc(group, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
				if last && res.More {
					for j := range group {
						group[j] = &mvccpb.KeyValue{Key: []byte("one of several equals")}
					}
				}
				from = i + 1
			}
		}
		return true
	case *pb.TxnRequest:
		res, ok := res.(*pb.TxnResponse)
		if !ok {
			return false
		}
		ops := r.Success
		if !res.Succeeded {
			ops = r.Failure
		}
		found := false
		for i := range min(len(ops), len(res.Responses)) {
			if in := ops[i].GetRequestRange(); in != nil {
				found = untie(in, res.Responses[i].GetResponseRange()) || found
			} else if in := ops[i].GetRequestTxn(); in != nil {
				found = untie(in, res.Responses[i].GetResponseTxn()) || found
			}
		}
		return found
	}
	return false
}

// sortedBy is what a Range sorts by, of one key. A value that was left out of the answer makes all equal.
func sortedBy(r *pb.RangeRequest, kv *mvccpb.KeyValue) string {
	switch r.SortTarget {
	case pb.RangeRequest_VERSION:
		return fmt.Sprint(kv.Version)
	case pb.RangeRequest_CREATE:
		return fmt.Sprint(kv.CreateRevision)
	case pb.RangeRequest_MOD:
		return fmt.Sprint(kv.ModRevision)
	case pb.RangeRequest_VALUE:
		return string(kv.Value)
	}
	return string(kv.Key)
}
