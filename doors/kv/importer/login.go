package importer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// login is a user's token at one side. It is requested when there is none, and again when a member refuses it. It has expired, or users
// changed, or the member restarted and had it in memory only. The client library with a password would not do for days of following. It
// asks with every stream, of which each renewed lease is one, and checking a password is expensive by design. It also shows the old token
// when it asks for a new one. An etcd 3.4 that has forgotten that token refuses it, so the library asks for ever.
//
// Safe for concurrent use.
type login struct {
	user, password string

	asking sync.Mutex             // held while a token is asked for
	token  atomic.Pointer[string] // nil: to be requested; "": not needed
}

// options make a connection show the token.
func (l *login) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithPerRPCCredentials(l), grpc.WithChainUnaryInterceptor(l.call), grpc.WithChainStreamInterceptor(l.stream)}
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (l *login) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	info, _ := credentials.RequestInfoFromContext(ctx)
	token := l.token.Load()
	if token == nil || *token == "" || info.Method == etcdserverpb.Auth_Authenticate_FullMethodName {
		return nil, nil
	}
	return map[string]string{rpctypes.TokenFieldNameGRPC: *token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: whether there is TLS is for the user to say.
func (l *login) RequireTransportSecurity() bool { return false }

// ask returns a token other than was, which was refused, and requests one if necessary.
func (l *login) ask(ctx context.Context, cc grpc.ClientConnInterface, was *string) (*string, error) {
	l.asking.Lock()
	defer l.asking.Unlock()
	if now := l.token.Load(); now != nil && now != was {
		return now, nil
	}
	r, err := etcdserverpb.NewAuthClient(cc).Authenticate(ctx, &etcdserverpb.AuthenticateRequest{Name: l.user, Password: l.password})
	if err = rpctypes.Error(err); err != nil && !errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		return nil, err
	}
	token := r.GetToken()
	l.token.Store(&token)
	return &token, nil
}

// forget gives up a token that was refused, unless there is another one already.
func (l *login) forget(token *string) { l.token.CompareAndSwap(token, nil) }

// call asks for a token before a single call if there is none, and once more if it is refused.
func (l *login) call(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method == etcdserverpb.Auth_Authenticate_FullMethodName {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	token, err := l.ask(ctx, cc, nil)
	if err != nil {
		return err
	}
	err = invoke(ctx, method, req, reply, cc, opts...)
	if !refusedToken(err) {
		return err
	}
	if _, err := l.ask(ctx, cc, token); err != nil {
		return err
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// stream does so for streams, where it is their reader who opens another one.
func (l *login) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	token, err := l.ask(ctx, cc, nil)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, desc, cc, method, opts...)
	return &loginStream{s, l, token}, err
}

// loginStream notices that its token was refused.
type loginStream struct {
	grpc.ClientStream
	login *login
	token *string
}

// RecvMsg implements grpc.ClientStream.
func (s *loginStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if r, ok := m.(*etcdserverpb.WatchResponse); refusedToken(err) || ok && err == nil && r.Canceled && r.CompactRevision == 0 {
		s.login.forget(s.token) // a watch is refused by an answer that does not always say why
	}
	return err
}

// refusedToken tells errors that another token may heal. A wrong password is another error.
func refusedToken(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) || errors.Is(err, rpctypes.ErrUserEmpty)
}
