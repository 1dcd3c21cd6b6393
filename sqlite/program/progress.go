package program

import (
	"fmt"
	"io"
	"time"

	"github.com/holdfastdb/holdfast/serve/cli"
)

// progress is a line with the bytes read, at most twice a second and not at all for work shorter than that.
type progress struct {
	w           io.Writer
	began, next time.Time
	wrote       bool
}

func newProgress(w io.Writer) *progress {
	now := time.Now()
	return &progress{w: w, began: now, next: now.Add(time.Second)}
}

func (p *progress) show(done, all int64) {
	now := time.Now()
	if now.Before(p.next) {
		return
	}
	p.next, p.wrote = now.Add(500*time.Millisecond), true
	fmt.Fprintf(p.w, "\rread %s of %s, %s/s   ", cli.SizeString(done), cli.SizeString(all),
		cli.SizeString(int64(float64(done)/now.Sub(p.began).Seconds())))
}

func (p *progress) end() {
	if p.wrote {
		fmt.Fprintln(p.w)
	}
	p.wrote = false
}
