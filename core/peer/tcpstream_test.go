package peer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

func TestStream(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	content := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // 3.2 MB
	var got []byte
	br.stream = func(from uint64, r io.Reader) (err error) {
		if from != 1 {
			return fmt.Errorf("from %d", from)
		}
		got, err = io.ReadAll(r)
		return err
	}
	if err := sendStream(a, 2, func(w io.Writer) error { _, err := w.Write(content); return err }); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, content) {
		t.Fatalf("%d bytes arrived of %d", len(got), len(content))
	}
}

// While a stream comes in no other is taken, so one that falls silent is given up.
func TestASilentStreamIsGivenUp(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	b.streamPatience = 100 * time.Millisecond // nothing has come in yet
	connect(t, a, ar, 2, b.Addr())
	received := make(chan error, 1)
	br.stream = func(_ uint64, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		received <- err
		return err
	}
	over := make(chan struct{})
	go func() {
		_ = sendStream(a, 2, func(w io.Writer) error { // its end is the receiver's
			_, err := w.Write(make([]byte, 2*streamChunk))
			<-over
			return err
		})
	}()
	select {
	case err := <-received:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("receiver: %v", err)
		}
	case <-time.After(wait.Limit(t)):
		t.Error("the receiver waits for ever")
	}
	close(over)
}

func sendStream(a *TCP, to uint64, write func(io.Writer) error) error {
	done := make(chan error, 1)
	a.SendStream(to, write, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return errors.New("SendStream never ended")
	}
}

func TestBrokenStreamIsAnErrorOnBothSides(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	received := make(chan error, 1)
	br.stream = func(_ uint64, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		received <- err
		return err
	}
	broken := errors.New("the store went away")
	if err := sendStream(a, 2, func(w io.Writer) error {
		if _, err := w.Write(make([]byte, 2*streamChunk+1)); err != nil {
			return err
		}
		return broken
	}); !errors.Is(err, broken) {
		t.Errorf("sender: %v", err)
	}
	if err := <-received; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("receiver: %v", err)
	}
	// The other way round: the receiver refuses, in the middle or at the end; the sender hears the sentence or at least an error.
	br.stream = func(_ uint64, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return errors.Join(err, errors.New("outdated"))
	}
	if err := sendStream(a, 2, func(w io.Writer) error { _, err := w.Write([]byte("x")); return err }); !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), "outdated") {
		t.Errorf("refused at the end: %v", err)
	}
	br.stream = func(uint64, io.Reader) error { return errors.New("another snapshot is being received") }
	if err := sendStream(a, 2, func(w io.Writer) error { _, err := w.Write(make([]byte, 64<<20)); return err }); err == nil {
		t.Error("refused at the start: the sender heard nothing")
	}
	if err := sendStream(a, 99, func(io.Writer) error { return nil }); err == nil {
		t.Error("a stream to an unknown member ended well")
	}
}

// The receiver's machine dies in the middle of a stream.
func TestStreamToDyingReceiver(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	started := make(chan struct{})
	br.stream = func(_ uint64, r io.Reader) error {
		close(started)
		_, err := io.Copy(io.Discard, r)
		return err
	}
	err := sendStream(a, 2, func(w io.Writer) error {
		for i := 0; ; i++ {
			if _, err := w.Write(make([]byte, streamChunk)); err != nil {
				return err
			}
			if i == 1 {
				<-started
				go b.Close()
			}
		}
	})
	if err == nil {
		t.Fatal("the sender thinks it was taken")
	}
}
