package importer

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// counters are the figures of the progress line. Safe for concurrent use.
type counters struct {
	total    atomic.Int64 // keys of the source when the pass began
	looked   atomic.Int64 // of them, compared or handed to a writer
	puts     atomic.Int64 // written to the target, all passes and following
	deletes  atomic.Int64
	bytes    atomic.Int64 // of keys and values written
	changes  atomic.Int64 // followed
	at       atomic.Int64 // the source's revision that the target stands for; 0 during a pass
	tree     atomic.Int64 // v2 nodes written
	revision atomic.Int64 // the source's, when last asked
}

func (c *counters) pass(keys int64) {
	c.total.Store(keys)
	c.looked.Store(0)
	c.at.Store(0)
}

func (c *counters) seen(n int64)          { c.looked.Add(n) }
func (c *counters) behind(revision int64) { c.at.Store(revision) }
func (c *counters) followed(changes []op) { c.changes.Add(int64(len(changes))) }

func (c *counters) written(b *batch) {
	var puts, deletes, bytes int64
	for i := range b.ops {
		o := &b.ops[i]
		bytes += int64(len(o.key) + len(o.value))
		if o.gone {
			deletes++
		} else {
			puts++
		}
	}
	c.puts.Add(puts)
	c.deletes.Add(deletes)
	c.bytes.Add(bytes)
}

// Progress is where the import stands, for the progress line. Safe for concurrent use.
type Progress struct {
	w        io.Writer
	terminal bool // one line that is overwritten; else a line now and then
	began    time.Time

	mu    sync.Mutex // guards the rest
	shown time.Time
	puts  int64 // at the last time it was shown, for the rate
	bytes int64
	width int
}

// NewProgress prints to w: on a terminal one line that is overwritten five times a second, elsewhere a line every ten seconds.
func NewProgress(w io.Writer, terminal bool) *Progress {
	return &Progress{w: w, terminal: terminal, began: time.Now(), shown: time.Now()}
}

func (p *Progress) every() time.Duration {
	if p.terminal {
		return 200 * time.Millisecond
	}
	return 10 * time.Second
}

// show prints one line.
func (p *Progress) show(i *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, now := i.count, time.Now()
	puts, bytes := c.puts.Load()+c.deletes.Load()+c.tree.Load(), c.bytes.Load()
	seconds := now.Sub(p.shown).Seconds()
	rate := fmt.Sprintf("%.0f/s, %s/s", float64(puts-p.puts)/seconds, size(int64(float64(bytes-p.bytes)/seconds)))
	p.shown, p.puts, p.bytes = now, puts, bytes
	var line string
	if at := c.at.Load(); at > 0 {
		line = fmt.Sprintf("following: %d changes, revision %d, %d behind, %d leases, %s", c.changes.Load(), at,
			max(0, c.revision.Load()-at), i.leases.size(), rate)
	} else {
		total, looked := c.total.Load(), c.looked.Load()
		line = fmt.Sprintf("copying: %d of %d keys (%d %%), %s written, %d leases, %s", looked, total, 100*looked/max(total, 1), size(bytes),
			i.leases.size(), rate)
	}
	if n := c.tree.Load(); n > 0 {
		line += fmt.Sprintf(", %d v2 nodes", n)
	}
	for _, s := range []*side{i.source, i.target} {
		if s.waiting.Load() {
			line += ", waiting for the " + s.name
		}
	}
	p.print(line)
}

func (p *Progress) print(line string) {
	if !p.terminal {
		fmt.Fprintln(p.w, line)
		return
	}
	fmt.Fprintf(p.w, "\r%-*s", p.width, line)
	p.width = len(line)
}

// note prints a line of text beside the progress.
func (p *Progress) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newline()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// end leaves the line that is overwritten.
func (p *Progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newline()
}

func (p *Progress) newline() {
	if p.width > 0 {
		fmt.Fprintln(p.w)
		p.width = 0
	}
}

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
