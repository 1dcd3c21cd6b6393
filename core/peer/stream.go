package peer

import (
	"bufio"
	"errors"
	"io"
)

// streamChunk is how many bytes a stream frame carries.
const streamChunk = 256 << 10

// streamWriter cuts a stream into frames; an empty frame ends it.
type streamWriter struct {
	w   *bufio.Writer
	buf []byte
}

func (s *streamWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		k := min(len(p), streamChunk-len(s.buf))
		s.buf = append(s.buf, p[:k]...)
		p = p[k:]
		if len(s.buf) == streamChunk {
			if err := s.flush(); err != nil {
				return n - len(p), err
			}
		}
	}
	return n, nil
}

func (s *streamWriter) flush() error {
	if len(s.buf) == 0 {
		return nil
	}
	err := writeFrame(s.w, s.buf)
	s.buf = s.buf[:0]
	return err
}

// finish sends what is left and the end mark.
func (s *streamWriter) finish() error {
	if err := s.flush(); err != nil {
		return err
	}
	if err := writeFrame(s.w, nil); err != nil {
		return err
	}
	return s.w.Flush()
}

func writeFrame(w *bufio.Writer, payload []byte) error {
	var h [frameHeaderLen]byte
	putFrameHeader(h[:], payload)
	if _, err := w.Write(h[:]); err != nil {
		return err
	}
	_, err := w.Write(payload)
	return err
}

// streamReader joins frames to a stream again. It returns io.EOF only after the end mark, so a broken connection is
// never taken for a complete stream.
type streamReader struct {
	r       *bufio.Reader
	buf     []byte
	done    bool
	traffic *Traffic // nil: not counted
	waits   func()   // called before each frame is waited for; nil: nothing
}

func (s *streamReader) Read(p []byte) (int, error) {
	for len(s.buf) == 0 {
		if s.done {
			return 0, io.EOF
		}
		if s.waits != nil {
			s.waits()
		}
		b, err := readFrame(s.r, 2*streamChunk)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		s.traffic.heard(b)
		if len(b) == 0 {
			s.done = true
			return 0, io.EOF
		}
		s.buf = b
	}
	n := copy(p, s.buf)
	s.buf = s.buf[n:]
	return n, nil
}
