package saga

import (
	"encoding/base64"
	"errors"
	"io"
	"runtime"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/serve/port"
)

// A transaction may hold 8 MiB, and a list a thousand of them. An answer that shows them is written in pages. Each page reads its
// transactions again, and drops them before the client is given the page. So a client that takes nothing holds one page, for any request.
const (
	// smallPage is the page size of an answer of at most largeAnswer bytes in the store. An answer of one such page is sent whole.
	smallPage = 64 << 10
	// largePage is the page size of a larger answer: there are fewer pages, because each reads all of it again.
	largePage = 256 << 10
	// largeAnswer is the size from which an answer is read by largeReaders at a time. Smaller ones are read by smallReaders.
	largeAnswer  = 1 << 20
	smallReaders = 8
)

// largeReaders leaves half of the processors to all else. A page of a large answer is milliseconds of work, and a hundred clients may ask
// at once.
func largeReaders() int { return min(max(1, runtime.NumCPU()/2), 2) }

// parts is an answer in parts. A part is the same bytes each time it is written, so that a page can go on within it.
type parts interface {
	// read reads what the next page needs. drop forgets it.
	read() error
	drop()
	// bytes is about how much read reads.
	bytes() int64
	// next writes the next part, and returns false if there is none. again: the part before has not fitted; it is written from its beginning.
	next(w *writer, again bool) (more bool, err error)
}

// writer takes JSON in the form of encoding/json, as much as fits in a page.
type writer struct {
	b    []byte
	most int   // bytes of b
	skip int64 // bytes to drop first: earlier pages have them
	full bool  // there was more than fitted
	last byte  // of the written bytes, dropped or not
}

func (w *writer) raw(s string) {
	if len(s) > 0 {
		w.last = s[len(s)-1]
	}
	if n := min(int64(len(s)), w.skip); n > 0 {
		w.skip -= n
		s = s[n:]
	}
	if fits := w.most - len(w.b); len(s) > fits {
		s, w.full = s[:max(fits, 0)], true
	}
	w.b = append(w.b, s...)
}

// name begins a member of an object.
func (w *writer) name(s string) {
	if w.last != '{' {
		w.raw(",")
	}
	w.raw(`"` + s + `":`)
}

// block is how much of a long text is escaped or encoded at a time. base64 makes four letters of three bytes.
const block = 3 << 10

// text writes a string.
func (w *writer) text(s string) {
	w.raw(`"`)
	var buf []byte
	for len(s) > 0 && !w.full {
		n := min(len(s), block)
		for back := 0; n < len(s) && back < utf8.UTFMax && !utf8.RuneStart(s[n]); back++ {
			n--
		}
		buf = appendEscaped(buf[:0], s[:n])
		w.raw(string(buf))
		s = s[n:]
	}
	w.raw(`"`)
}

// base64 writes bytes as encoding/json does.
func (w *writer) base64(p []byte) {
	w.raw(`"`)
	if whole := min(w.skip/4, int64(len(p)/3)); whole > 0 { // it is not sent
		w.skip -= whole * 4
		p = p[whole*3:]
	}
	var buf [block / 3 * 4]byte
	for len(p) > 0 && !w.full {
		n := min(len(p), block)
		base64.StdEncoding.Encode(buf[:], p[:n])
		w.raw(string(buf[:base64.StdEncoding.EncodedLen(n)]))
		p = p[n:]
	}
	w.raw(`"`)
}

const hex = "0123456789abcdef"

// appendEscaped escapes a text as encoding/json does.
func appendEscaped(b []byte, s string) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			i++
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\b':
				b = append(b, `\b`...)
			case '\f':
				b = append(b, `\f`...)
			case '\n':
				b = append(b, `\n`...)
			case '\r':
				b = append(b, `\r`...)
			case '\t':
				b = append(b, `\t`...)
			default:
				if c < ' ' || c == '<' || c == '>' || c == '&' {
					b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
				} else {
					b = append(b, c)
				}
			}
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b = append(b, `\ufffd`...)
		case r == '\u2028' || r == '\u2029':
			b = append(b, '\\', 'u', '2', '0', '2', hex[r&15])
		default:
			b = append(b, s[i:i+n]...)
		}
		i += n
	}
	return b
}

// pageStream is an answer in pages. The goroutine that writes it owns it.
type pageStream struct {
	d     *Door
	q     *ask
	parts parts
	buf   []byte // of every page
	page  []byte // the part not taken yet
	sent  int64  // bytes of the part that has not fitted, on this page and those before
	again bool   // a part has not fitted
	ended bool   // no page follows
}

var errGone = errors.New("the transaction has changed or was forgotten while its client took what it asked for")

// paged makes the first page of an answer.
func (d *Door) paged(q *ask, p parts) (*pageStream, error) {
	s := &pageStream{d: d, q: q, parts: p}
	if err := d.place(d.slots(p)); err != nil {
		return nil, err
	}
	return s, s.fill()
}

// place waits for a place among readers, up to the request's deadline. The caller gives it back.
func (d *Door) place(slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-d.bounded().Done():
		return later("too many large answers are being made")
	}
}

// reading reads with a place among readers.
func (d *Door) reading(slots chan struct{}, read func() error) error {
	if err := d.place(slots); err != nil {
		return err
	}
	defer func() { <-slots }()
	return read()
}

// slots is where a reader of the next page takes its place.
func (d *Door) slots(p parts) chan struct{} {
	if p.bytes() > largeAnswer {
		return d.large
	}
	return d.small
}

// fill makes the next page. The caller has taken a place, which is given back.
func (s *pageStream) fill() error {
	slots := s.d.slots(s.parts)
	defer func() { <-slots }()
	defer s.parts.drop()
	if err := s.parts.read(); err != nil {
		return err
	}
	began := s.d.opts.Steps.Reply.Begin()
	defer s.d.opts.Steps.Reply.End(began)
	w := writer{b: s.buf[:0], most: smallPage}
	if s.parts.bytes() > largeAnswer {
		w.most = largePage
	}
	for !w.full {
		before, sent := len(w.b), s.sent
		w.skip = sent
		more, err := s.parts.next(&w, s.again)
		if err != nil {
			return err
		}
		if !more {
			s.ended = true
			break
		}
		s.again, s.sent = w.full, 0
		if w.full {
			s.sent = sent + int64(len(w.b)-before)
		}
	}
	s.buf, s.page = w.b, w.b
	return nil
}

// Read implements io.Reader: the server asks for more when the client has taken what was read before.
func (s *pageStream) Read(p []byte) (int, error) {
	if len(s.page) == 0 {
		if s.ended {
			return 0, io.EOF
		}
		select {
		case s.d.slots(s.parts) <- struct{}{}:
		case <-s.d.node.StoppedC():
			return 0, errGone
		}
		if err := s.fill(); err != nil {
			return 0, err
		}
		if s.q.session.Waits() { // the page may tell what the answer's beginning did not
			if err := s.q.session.Hold(s.d.bounded(), s.d.node, s.d.node.ReadIndex()); err != nil {
				return 0, err
			}
		}
	}
	n := copy(p, s.page)
	s.page = s.page[n:]
	return n, nil
}

// send answers with it.
func (s *pageStream) send(ctx *fasthttp.RequestCtx) error {
	if s.ended {
		document(ctx, 200, s.page)
		return nil
	}
	if !port.HoldAnswer(ctx, int64(cap(s.buf))) {
		return later("too many answers that nobody takes")
	}
	if ctx.Request.Header.IsHTTP11() {
		ctx.SetStatusCode(200)
		ctx.SetContentType("application/json; charset=utf-8")
		ctx.Response.SetBodyStream(s, -1)
		return nil
	}
	var all []byte // HTTP/1.0 has no pages
	for piece := make([]byte, smallPage); ; {
		n, err := s.Read(piece)
		all = append(all, piece[:n]...)
		switch {
		case err == io.EOF:
			document(ctx, 200, all)
			return nil
		case err != nil:
			return err
		case !port.HoldAnswer(ctx, int64(n)):
			return later("too many answers that nobody takes; over HTTP/1.1 this one needs less room")
		}
	}
}
