package restore

import (
	"fmt"
	"io"
	"time"

	archiverestore "github.com/holdfastdb/holdfast/archive/restore"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// progress is a line that shows the progress of work, at most twice a second, and not at all for work shorter than that.
type progress struct {
	w           io.Writer
	verb        string
	began, next time.Time
	wrote       bool
}

func newProgress(w io.Writer, verb string) *progress {
	now := time.Now()
	return &progress{w: w, verb: verb, began: now, next: now.Add(time.Second)}
}

func (p *progress) show(at archiverestore.Progress) {
	now := time.Now()
	if now.Before(p.next) {
		return
	}
	p.next, p.wrote = now.Add(500*time.Millisecond), true
	line := fmt.Sprintf("\r%s %s, %s/s", p.verb, cli.SizeString(at.Bytes), cli.SizeString(int64(float64(at.Bytes)/now.Sub(p.began).Seconds())))
	if at.Index > 0 {
		line += fmt.Sprintf(", index %d", at.Index)
	}
	fmt.Fprint(p.w, line+"   ")
}

func (p *progress) end() {
	if p.wrote {
		fmt.Fprintln(p.w)
	}
	p.wrote = false
}
