package v2

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Colors: ours stands out, etcd is the ground it is measured against, published figures are a mark and no bar, because they
// were not measured here.
const (
	inkColor       = "#24292f"
	softColor      = "#6b7280"
	gridColor      = "#e5e7eb"
	bandColor      = "#f6f7f9"
	etcdColor      = "#9aa4b2"
	holdfastColor  = "#1d5fd1"
	publishedColor = "#c2410c"
)

// Measures of the plot in pixels.
const (
	plotWidth  = 1280.0
	marginLeft = 36.0
	labelWidth = 228.0
	headHeight = 146.0
	footHeight = 66.0
	rowHeight  = 38.0
	barHeight  = 13.0
	groupHead  = 76.0
	groupFoot  = 34.0
)

// panel is one column of the plot: a figure of every line. Bars begin at zero; a panel with a logarithmic axis has dots, since
// the length of a bar would mean nothing there.
type panel struct {
	title     string
	x, width  float64 // the axis; values reach 60 further
	edge      float64 // x where ratios end
	log       bool
	low, high float64
	value     func(f *Figures) (v, deviation float64)
	published func(p *Published) float64 // nil: the report does not have it
	ratio     func(l *Line) float64
}

func panels() []*panel {
	x := marginLeft + labelWidth
	return []*panel{
		{title: "requests per second", x: x, width: 330, edge: x + 424,
			value:     func(f *Figures) (float64, float64) { return f.PerSecond, f.Deviation },
			published: func(p *Published) float64 { return p.PerSecond }, ratio: func(l *Line) float64 { return l.Speed }},
		{title: "90th percentile, ms (log)", x: x + 450, width: 175, log: true,
			value:     func(f *Figures) (float64, float64) { return f.P90, 0 },
			published: func(p *Published) float64 { return p.P90 }, ratio: func(*Line) float64 { return 0 }},
		{title: "servers' CPU, µs per request", x: x + 700, width: 180, edge: x + 980,
			value: func(f *Figures) (float64, float64) { return f.CPU, 0 }, ratio: func(l *Line) float64 { return l.CPU }},
	}
}

// plot draws the table.
func plot(rep *Report) []byte {
	parts := groups(rep.Lines)
	height := headHeight + footHeight
	for _, g := range parts {
		height += groupHead + rowHeight*float64(len(g.lines)) + groupFoot
	}
	const title = "The etcd v2 benchmark: etcd 3.4 and Holdfast, three members on one machine"
	d := newDrawing(plotWidth, height, title)
	d.text(marginLeft, 44, style{24, inkColor, "start", true}, title)
	d.text(marginLeft, 70, style{14, softColor, "start", false}, fmt.Sprintf("%s, %d processors, client included, fdatasync %.2f ms; %s",
		rep.Machine.CPU, rep.Machine.Cores, rep.Machine.SyncBefore, rep.Began.UTC().Format("2 January 2006")))
	d.text(marginLeft, 90, style{14, softColor, "start", false}, fmt.Sprintf("medians of %s of %d s, the servers taking turns; thin lines: "+
		"standard deviation; blue numbers: Holdfast as a multiple of etcd 3.4", roundsOf(rep.Lines), rep.Seconds))
	d.legend(marginLeft, 118)
	y := headHeight
	for _, g := range parts {
		y = d.group(g, y)
	}
	d.text(marginLeft, y+20, style{12, softColor, "start", false},
		"Published: etcd 2.2.0, means of 100 short runs; each member and the load tool on a machine of its own (2 processors, local SSD), so its figures are shown for")
	d.text(marginLeft, y+36, style{12, softColor, "start", false},
		"orientation and not compared. Its reads of all members were made one member after the other and added up; here all are read at the same time.")
	return d.end()
}

// roundsOf says how many rounds there were, and if some did not count that.
func roundsOf(lines []Line) string {
	low, high := math.MaxInt, 0
	for _, l := range lines {
		for _, f := range []*Figures{l.Etcd, l.Holdfast} {
			if f != nil {
				low, high = min(low, f.Rounds), max(high, f.Rounds)
			}
		}
	}
	switch {
	case high == 0:
		return "no round"
	case low == high && low == 1:
		return "1 round"
	case low == high:
		return fmt.Sprintf("%d rounds", low)
	}
	return fmt.Sprintf("%d to %d rounds", low, high)
}

func (d *drawing) legend(x, y float64) {
	s := style{14, inkColor, "start", false}
	d.box(x, y-11, 22, barHeight, etcdColor)
	d.text(x+30, y, s, "etcd 3.4 with v2 enabled")
	d.box(x+230, y-11, 22, barHeight, holdfastColor)
	d.text(x+260, y, s, "Holdfast")
	d.line(x+372, y-14, x+372, y+4, 3, publishedColor)
	d.text(x+384, y, s, "published figures of etcd 2.2.0, other machines")
}

// group draws one part from y down and returns where the next begins.
func (d *drawing) group(g group, y float64) float64 {
	d.text(marginLeft, y+22, style{17, inkColor, "start", true}, g.title)
	top := y + groupHead
	bottom := top + rowHeight*float64(len(g.lines))
	for i, l := range g.lines {
		at := top + rowHeight*float64(i)
		if i%2 == 0 {
			d.box(marginLeft-8, at, plotWidth-2*marginLeft+16, rowHeight, bandColor)
		}
		d.text(marginLeft, at+rowHeight/2+5, style{14, inkColor, "start", false}, label(l.Cell))
	}
	for _, p := range panels() {
		p.scale(g.lines)
		d.text(p.x, top-28, style{13, inkColor, "start", true}, p.title)
		for _, t := range p.ticks() {
			x := p.at(t)
			d.line(x, top-6, x, bottom, 1, gridColor)
			d.text(x, top-10, style{11, softColor, "middle", false}, number(t))
		}
		d.line(p.x, top-6, p.x, bottom, 1, softColor)
		for i := range g.lines {
			d.row(p, &g.lines[i], top+rowHeight*float64(i))
		}
	}
	return bottom + groupFoot
}

func label(c Cell) string {
	who := fmt.Sprintf("%d clients", c.Clients)
	if c.Clients == 1 {
		who = "1 client"
	}
	if c.Target == "all" {
		return fmt.Sprintf("%d B, %s, all members", c.Size, who)
	}
	return fmt.Sprintf("%d B, %s, leader", c.Size, who)
}

// row draws one panel of one line.
func (d *drawing) row(p *panel, l *Line, y float64) {
	if pub := publishedFor(l.Cell); pub != nil && p.published != nil {
		x := p.at(p.published(pub))
		d.line(x, y+3, x, y+rowHeight-3, 3, publishedColor)
	}
	d.bar(p, l.Etcd, y+5, etcdColor, softColor)
	d.bar(p, l.Holdfast, y+5+barHeight+2, holdfastColor, inkColor)
	if r := p.ratio(l); r != 0 {
		d.text(p.edge, y+5+barHeight+13, style{13, holdfastColor, "end", true}, strconv.FormatFloat(r, 'f', 2, 64)+"×")
	}
}

// bar draws one figure, as a bar or as a dot, and its value behind it.
func (d *drawing) bar(p *panel, f *Figures, y float64, color, textColor string) {
	s := style{12, textColor, "start", false}
	if f == nil {
		d.text(p.x+6, y+11, style{12, softColor, "start", false}, "none counts")
		return
	}
	v, dev := p.value(f)
	x, end := p.at(v), p.at(v+dev)
	if p.log {
		d.line(p.x, y+barHeight/2, x, y+barHeight/2, 1, color)
		d.dot(x, y+barHeight/2, 5.5, color)
		d.text(x+10, y+11, s, small(v))
		return
	}
	d.box(p.x, y, x-p.x, barHeight, color)
	if dev > 0 {
		from := p.at(max(v-dev, 0))
		d.line(from, y+barHeight/2, end, y+barHeight/2, 1.2, inkColor)
		d.line(from, y+3, from, y+barHeight-3, 1.2, inkColor)
		d.line(end, y+3, end, y+barHeight-3, 1.2, inkColor)
	}
	text := number(math.Round(v))
	if v < 100 {
		text = small(v)
	}
	d.text(end+6, y+11, s, text)
}

// scale fits the axis to the figures of a part.
func (p *panel) scale(lines []Line) {
	p.low, p.high = math.Inf(1), 0
	see := func(low, high float64) { p.low, p.high = min(p.low, low), max(p.high, high) }
	for _, l := range lines {
		for _, f := range []*Figures{l.Etcd, l.Holdfast} {
			if f != nil {
				v, dev := p.value(f)
				see(v, v+dev)
			}
		}
		if pub := publishedFor(l.Cell); pub != nil && p.published != nil {
			see(p.published(pub), p.published(pub))
		}
	}
	if p.high == 0 {
		p.low, p.high = 1, 10
	}
	if p.log {
		p.low = max(math.Pow(10, math.Floor(math.Log10(max(p.low, leastLatency)))), leastLatency)
		p.high = max(p.high, 10*p.low)
		return
	}
	p.low = 0
}

// leastLatency is what the logarithmic axis begins with at the earliest: hey does not tell less apart.
const leastLatency = 0.1

// at is the x of a value.
func (p *panel) at(v float64) float64 {
	if p.log {
		v = math.Log(max(v, p.low)/p.low) / math.Log(p.high/p.low)
	} else {
		v /= p.high
	}
	return p.x + p.width*v
}

// ticks are the values marked on the axis: powers of ten, or a few round steps.
func (p *panel) ticks() (out []float64) {
	if p.log {
		for t := p.low; t <= p.high*1.001; t *= 10 {
			out = append(out, t)
		}
		return out
	}
	step := math.Pow(10, math.Floor(math.Log10(p.high)))
	for _, part := range []float64{5, 2, 1} {
		if p.high/(step/part) <= 5 {
			step /= part
			break
		}
	}
	for i := 0; float64(i)*step <= p.high; i++ {
		out = append(out, float64(i)*step)
	}
	return out
}

// number writes 12345 as 12,345.
func number(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	whole, rest, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest[:min(2, len(rest))]
	}
	return whole
}

// small writes a value of a few digits with one behind the point.
func small(v float64) string {
	if v > 0 && v < leastLatency {
		return "<0.1"
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}
