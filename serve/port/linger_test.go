package port

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestClientsThatAreReadAwayTakeTurns: however many they are, all together are read away at the pace of one. A client that has little left to send hears
// its answer at once.
func TestClientsThatAreReadAwayTakeTurns(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pair := func() (server, client net.Conn) {
		t.Helper()
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		server, err = l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close(); server.Close() })
		return server, client
	}
	const clients, pieces = 4, 8
	began := time.Now()
	read := make(chan int64, clients)
	for range clients {
		server, client := pair()
		go func() {
			_, _ = client.Write(make([]byte, pieces*lingerPiece))
			client.Close()
		}()
		go func() {
			linger(server)
			n, _ := io.Copy(io.Discard, server)
			read <- n
		}()
	}
	for range clients {
		if left := <-read; left != 0 {
			t.Errorf("%d bytes were left", left)
		}
	}
	if took := time.Since(began); took < (clients*pieces-clients)*lingerPause {
		t.Errorf("%d pieces were read away in %v", clients*pieces, took)
	}
	turns.mu.Lock()
	turns.next = time.Now().Add(time.Hour) // thousands are before it
	turns.mu.Unlock()
	defer func() { turns.next = time.Time{} }()
	server, client := pair()
	go linger(server)
	_, _ = client.Write(make([]byte, lingerPiece/2))
	client.SetDeadline(time.Now().Add(wait.Limit(t)))
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the end of what the server sends: %v", err)
	}
}
