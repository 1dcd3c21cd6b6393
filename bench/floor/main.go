// Command floor is the least a durable gRPC key-value server can do. It decodes, puts the request in a group, writes the group to one file
// with one fdatasync, and answers. It speaks enough of etcd's KV service for etcd's load tool and shows what the client and grpc-go leave
// possible on a machine. It is not a database, and must never be compared as one. It has no log to replay, no recovery and no revisions
// worth the name.
//
//	floor -listen 127.0.0.1:0 -dir DIR
//
// It prints "ready ADDRESS" on standard output once it listens.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve gRPC on")
	dir := flag.String("dir", "", "directory for the one file (required)")
	flag.Parse()
	if err := run(*listen, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(listen, dir string) error {
	if dir == "" {
		return errors.New("-dir is required")
	}
	f, err := openFile(filepath.Join(dir, "floor.log"))
	if err != nil {
		return err
	}
	defer f.Close()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	kv := &server{file: f, queue: make(chan *put, maxQueued), values: make(map[string]*mvccpb.KeyValue)}
	go kv.commitLoop()
	s := grpc.NewServer()
	pb.RegisterKVServer(s, kv)

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() { <-stop; s.Stop() }()
	fmt.Println("ready", l.Addr())
	return s.Serve(l)
}

const (
	// fileBytes is written once at start and then overwritten in a circle. fdatasync of preallocated space needs no metadata, as in any log
	// worth comparing with.
	fileBytes = 64 << 20
	maxQueued = 4096
	maxGroup  = 1 << 20 // bytes per fdatasync, and one request more
	// maxRequest is etcd's own limit, and the most that the length in a record can hold.
	maxRequest = 1536 << 10
)

func openFile(name string) (*os.File, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	zero := make([]byte, 1<<20)
	for off := int64(0); off < fileBytes; off += int64(len(zero)) {
		if _, err := f.WriteAt(zero, off); err != nil {
			return nil, err
		}
	}
	return f, f.Sync()
}

// put is one request waiting for its group's fdatasync; done has room for the answer so that the loop never blocks.
type put struct {
	key, value []byte
	done       chan int64 // the revision it got
}

type server struct {
	pb.UnimplementedKVServer
	file  *os.File
	queue chan *put

	mu       sync.RWMutex // guards values and revision
	values   map[string]*mvccpb.KeyValue
	revision int64
}

// commitLoop takes everything that queued while the last fdatasync ran and makes it durable with one more. It is the only
// writer of the file and of the map. A failed write or sync ends the process: an answer could no longer be true.
func (s *server) commitLoop() {
	var off int64
	var group []*put
	buf := make([]byte, 0, maxGroup+64<<10)
	for first := range s.queue {
		group, buf = append(group[:0], first), appendRecord(buf[:0], first)
	gather:
		for len(buf) < maxGroup {
			select {
			case p := <-s.queue:
				group, buf = append(group, p), appendRecord(buf, p)
			default:
				break gather
			}
		}
		if off+int64(len(buf)) > fileBytes {
			off = 0
		}
		if _, err := s.file.WriteAt(buf, off); err != nil {
			fail("write", err)
		}
		if err := syscall.Fdatasync(int(s.file.Fd())); err != nil {
			fail("fdatasync", err)
		}
		off += int64(len(buf))

		s.mu.Lock()
		base := s.revision
		for _, p := range group {
			s.revision++
			s.values[string(p.key)] = &mvccpb.KeyValue{Key: p.key, Value: p.value,
				CreateRevision: s.revision, ModRevision: s.revision, Version: 1}
		}
		s.mu.Unlock()
		for i, p := range group {
			p.done <- base + int64(i) + 1
		}
	}
}

func appendRecord(buf []byte, p *put) []byte {
	buf = append(buf, byte(len(p.key)), byte(len(p.key)>>8), byte(len(p.value)), byte(len(p.value)>>8), byte(len(p.value)>>16))
	buf = append(buf, p.key...)
	return append(buf, p.value...)
}

func fail(verb string, err error) {
	fmt.Fprintf(os.Stderr, "floor: %s: %v\n", verb, err)
	os.Exit(1)
}

// Put answers after the fdatasync of the group the request was in.
func (s *server) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	if len(r.Key)+len(r.Value) > maxRequest {
		return nil, status.Error(codes.InvalidArgument, "floor: request too large")
	}
	p := &put{key: r.Key, value: r.Value, done: make(chan int64, 1)}
	select {
	case s.queue <- p:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	select {
	case rev := <-p.done:
		return &pb.PutResponse{Header: header(rev)}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// Range answers one key from the map; ranges are refused.
func (s *server) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if len(r.RangeEnd) != 0 {
		return nil, status.Error(codes.Unimplemented, "floor: only single keys")
	}
	s.mu.RLock()
	kv, rev := s.values[string(r.Key)], s.revision
	s.mu.RUnlock()
	res := &pb.RangeResponse{Header: header(rev)}
	if kv != nil {
		res.Kvs, res.Count = []*mvccpb.KeyValue{kv}, 1
	}
	return res, nil
}

func header(rev int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 1, MemberId: 1, Revision: rev, RaftTerm: 1}
}
