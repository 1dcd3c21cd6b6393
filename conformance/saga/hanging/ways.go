package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
)

// way is one way for services to hang.
type way struct {
	Name      string
	Addresses int   // of the services
	Timeout   int64 // request_timeout of the transactions, in seconds; 0: they say none
	How       string
}

const years = 316224000 // seconds: ten of them

// How a service hangs.
const (
	mute       = "mute"       // it takes the request and sends nothing
	half       = "half"       // it sends the head of an answer and half of the body
	drip       = "drip"       // it goes on after that, a byte a second
	unaccepted = "unaccepted" // it listens and accepts no connection, so that dialling hangs
	grpcMute   = "grpc mute"  // a connection for gRPC is accepted, and nothing is sent
	grpcCall   = "grpc call"  // the call is taken, and hangs
)

var ways = []*way{
	{Name: "no answer, 20 addresses, the default request_timeout", Addresses: 20, How: mute},
	{Name: "no answer, 20 addresses, a request_timeout of years", Addresses: 20, How: mute, Timeout: years},
	{Name: "no answer, one address, the default request_timeout", Addresses: 1, How: mute},
	{Name: "no answer, one address, a request_timeout of years", Addresses: 1, How: mute, Timeout: years},
	{Name: "no answer, 10,000 addresses, the default request_timeout", Addresses: 10_000, How: mute},
	{Name: "no answer, 10,000 addresses, a request_timeout of years", Addresses: 10_000, How: mute, Timeout: years},
	{Name: "half an answer, 20 addresses, the default request_timeout", Addresses: 20, How: half},
	{Name: "half an answer, 20 addresses, a request_timeout of years", Addresses: 20, How: half, Timeout: years},
	{Name: "an answer of a byte a second, 1,000 addresses, a request_timeout of years", Addresses: 1000, How: drip, Timeout: years},
	{Name: "connections that nobody accepts, 20 addresses, a request_timeout of years", Addresses: 20, How: unaccepted, Timeout: years},
	{Name: "gRPC without a word, 1,000 addresses, a request_timeout of years", Addresses: 1000, How: grpcMute, Timeout: years},
	{Name: "gRPC calls that hang, 20 addresses, a request_timeout of years", Addresses: 20, How: grpcCall, Timeout: years},
}

// address is where the i-th service is: all have one port.
func address(i, port int) string { return fmt.Sprintf("127.78.%d.%d:%d", i/250, 1+i%250, port) }

// transaction is the body of a submit.
func (w *way) transaction(i int, at string) string {
	protocol, url := "http", "http://"+at+"/hang"
	if w.How == grpcMute || w.How == grpcCall {
		protocol, url = "grpc", at+"/hanging.Service/Hang"
	}
	timeout := ""
	if w.Timeout > 0 {
		timeout = fmt.Sprintf(`,"request_timeout":%d`, w.Timeout)
	}
	return fmt.Sprintf(`{"gid":"hanging-%d","trans_type":"saga","protocol":%q,"steps":[{"action":%q,"compensate":%q}],"payloads":["{}"]%s}`,
		i, protocol, url, url, timeout)
}

// open has the services listen until ctx ends, and returns where they are.
func (w *way) open(ctx context.Context) (at []string, err error) {
	// One socket listens at every address of loopback.
	var port int
	if w.How == unaccepted {
		port, err = listenUnaccepted(ctx)
	} else {
		var l net.Listener
		if l, err = net.Listen("tcp4", "0.0.0.0:0"); err == nil {
			port = l.Addr().(*net.TCPAddr).Port
			context.AfterFunc(ctx, func() { l.Close() })
			go w.serve(ctx, l)
		}
	}
	if err != nil {
		return nil, err
	}
	for i := range w.Addresses {
		at = append(at, address(i, port))
	}
	return at, nil
}

func (w *way) serve(ctx context.Context, l net.Listener) {
	if w.How == grpcCall {
		s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, call grpc.ServerStream) error {
			<-call.Context().Done()
			return call.Context().Err()
		}))
		context.AfterFunc(ctx, s.Stop)
		_ = s.Serve(l)
		return
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go w.hang(c)
	}
}

// hang takes requests of one connection until the caller has closed it.
func (w *way) hang(c net.Conn) {
	defer c.Close()
	if w.How == mute || w.How == grpcMute {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	if _, err := c.Read(make([]byte, 4<<10)); err != nil {
		return
	}
	if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{\"dtm_result\":")); err != nil {
		return
	}
	if w.How == half {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	for {
		time.Sleep(time.Second)
		if _, err := c.Write([]byte(" ")); err != nil {
			return
		}
	}
}

// listenUnaccepted listens at a port of every address and takes no connection: the kernel drops what comes once a connection waits there.
func listenUnaccepted(ctx context.Context) (port int, err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{}); err != nil {
		return 0, err
	}
	if err := syscall.Listen(fd, 0); err != nil {
		return 0, err
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	port = name.(*syscall.SockaddrInet4).Port
	for range 2 { // until one does not come through
		c, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", port), 200*time.Millisecond)
		if err != nil {
			if strings.Contains(err.Error(), "timeout") {
				return port, nil
			}
			return 0, err
		}
		context.AfterFunc(ctx, func() { c.Close() })
	}
	return port, nil
}
