package kv

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
)

// clusterServer is etcdserverpb.Cluster: membership as etcdctl knows it.
type clusterServer struct {
	pb.UnimplementedClusterServer
	d *Door
}

// header carries no revision, as in etcd.
func (s *clusterServer) header() *pb.ResponseHeader {
	st := s.d.node.Status()
	return &pb.ResponseHeader{ClusterId: st.ClusterID, MemberId: st.MemberID, RaftTerm: st.Term}
}

func pbMember(m *node.Member) *pb.Member {
	return &pb.Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, IsLearner: m.Learner}
}

// members lists all members by id.
func (s *clusterServer) members() []*pb.Member {
	var all []*pb.Member
	for _, m := range s.d.node.Members() {
		all = append(all, pbMember(&m))
	}
	slices.SortFunc(all, func(a, b *pb.Member) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return all
}

// after lists the members once this member knows the change that the leader has answered. If that takes too long it lists them as they are,
// because this member may be the removed one.
func (s *clusterServer) after(ctx context.Context) []*pb.Member {
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = s.d.node.Linearize(short)
	return s.members()
}

// peerURLs checks what a client gives as a member's addresses, by etcd's rules, and returns them sorted.
func peerURLs(given []string) ([]string, error) {
	var urls []string
	for _, g := range given {
		u, err := url.Parse(strings.TrimSpace(g))
		if err != nil {
			return nil, rpctypes.ErrGRPCMemberBadURLs
		}
		switch u.Scheme {
		case "http", "https":
			if _, _, err := net.SplitHostPort(u.Host); err != nil || u.Path != "" {
				return nil, rpctypes.ErrGRPCMemberBadURLs
			}
		case "unix", "unixs":
		default:
			return nil, rpctypes.ErrGRPCMemberBadURLs
		}
		urls = append(urls, u.String())
	}
	if len(urls) == 0 {
		return nil, rpctypes.ErrGRPCMemberBadURLs
	}
	slices.Sort(urls)
	return urls, nil
}

func (s *clusterServer) MemberAdd(ctx context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	urls, err := peerURLs(r.PeerURLs)
	if err != nil {
		return nil, err
	}
	if err := s.d.users.MayAdminister(ctx); err != nil {
		return nil, err
	}
	m, err := s.d.node.AddMember(s.d.bounded(ctx), urls, r.IsLearner)
	if err != nil {
		return nil, etcderr.Of(err)
	}
	return &pb.MemberAddResponse{Header: s.header(), Member: pbMember(&m), Members: s.after(ctx)}, nil
}

func (s *clusterServer) MemberRemove(ctx context.Context, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	if err := s.d.users.MayAdminister(ctx); err != nil {
		return nil, err
	}
	if err := s.d.node.RemoveMember(s.d.bounded(ctx), r.ID); err != nil {
		return nil, etcderr.Of(err)
	}
	return &pb.MemberRemoveResponse{Header: s.header(), Members: s.after(ctx)}, nil
}

func (s *clusterServer) MemberUpdate(ctx context.Context, r *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	urls, err := peerURLs(r.PeerURLs)
	if err != nil {
		return nil, err
	}
	if err := s.d.users.MayAdminister(ctx); err != nil {
		return nil, err
	}
	if err := s.d.node.UpdateMember(s.d.bounded(ctx), r.ID, urls); err != nil {
		return nil, etcderr.Of(err)
	}
	return &pb.MemberUpdateResponse{Header: s.header(), Members: s.after(ctx)}, nil
}

func (s *clusterServer) MemberPromote(ctx context.Context, r *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	if err := s.d.users.MayAdminister(ctx); err != nil {
		return nil, err
	}
	if err := s.d.node.PromoteMember(s.d.bounded(ctx), r.ID); err != nil {
		return nil, etcderr.Of(err)
	}
	s.d.counts.Promoted.Inc()
	return &pb.MemberPromoteResponse{Header: s.header(), Members: s.after(ctx)}, nil
}

func (s *clusterServer) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if r.Linearizable {
		if err := s.d.node.Linearize(s.d.bounded(ctx)); err != nil {
			return nil, etcderr.Of(err)
		}
	}
	if err := s.d.users.MayAsk(ctx); err != nil {
		return nil, err
	}
	return &pb.MemberListResponse{Header: s.header(), Members: s.members()}, nil
}
