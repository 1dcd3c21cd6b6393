package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// PrintJSON prints v with indents.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// ProgressLine prints how much is done, at most twice a second and not at all if the work takes less.
type ProgressLine struct {
	w     io.Writer
	verb  string
	n     int64
	next  time.Time
	wrote bool
}

// NewProgress begins a line on w: "saved 12 MiB".
func NewProgress(w io.Writer, verb string) *ProgressLine {
	return &ProgressLine{w: w, verb: verb, next: time.Now().Add(time.Second)}
}

// Write counts p.
func (p *ProgressLine) Write(b []byte) (int, error) {
	p.n += int64(len(b))
	if now := time.Now(); now.After(p.next) {
		p.next, p.wrote = now.Add(500*time.Millisecond), true
		fmt.Fprintf(p.w, "\r%s %s   ", p.verb, SizeString(p.n))
	}
	return len(b), nil
}

func (p *ProgressLine) End() {
	if p.wrote {
		fmt.Fprintln(p.w)
	}
}

// IsTerminal reports whether standard error is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// NewBuffered and NewBufferedWriter are for files that are read or written from end to end.
func NewBuffered(r io.Reader) *bufio.Reader       { return bufio.NewReaderSize(r, 256<<10) }
func NewBufferedWriter(w io.Writer) *bufio.Writer { return bufio.NewWriterSize(w, 64<<10) }
