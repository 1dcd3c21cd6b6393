// Package plot draws the figures of a benchmark as one page of bars, in SVG. Groups of rows have a bar for each server, in panels side by
// side, one for each measured quantity. Every bar has its number behind it, so that the page can stand in a report without the table.
//
// It measures nothing, knows no server and chooses no figure: the caller sets a bar's value.
package plot

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// Chart is a page.
type Chart struct {
	Title  string
	Lead   []string // lines below the title
	Notes  []string // lines at the foot
	Series []Series
	Mark   string // what the marks across rows are; "" if there are none
	Panels []Panel
	Groups []Group
}

// Series is a server: its name in the legend, and how its bars look.
type Series struct {
	Name string
	Look Look
}

// Look is the color of bars and of the numbers behind them.
type Look struct{ fill, text string }

// Ours stands out, the others are the ground it is measured against.
var (
	Ours    = Look{"#1d5fd1", inkColor}
	OursToo = Look{"#85abe8", inkColor}
	Peer    = Look{"#9aa4b2", softColor}
	Other   = Look{"#c3b08a", softColor}
	Faint   = Look{"#dfe3e8", softColor}
)

const (
	inkColor  = "#24292f"
	softColor = "#6b7280"
	gridColor = "#e5e7eb"
	bandColor = "#f6f7f9"
	markColor = "#c2410c"
)

// Panel is one column: a figure of every bar. Bars begin at zero; a panel with a logarithmic axis has dots, since the length
// of a bar would mean nothing there.
type Panel struct {
	Title string
	X     float64 // where the axis begins, in pixels from where the labels of the rows end
	Width float64 // of the axis in pixels; numbers reach 60 further
	Edge  float64 // where ratios end, as X
	Log   bool
	Least float64 // what is below is written as such; a logarithmic axis begins there at the earliest, and needs it
}

// Group is rows that share their axes.
type Group struct {
	Title string
	Rows  []Row
}

// Row is what was measured of all servers alike.
type Row struct {
	Label string
	Bars  []Bar
	// Marks and Ratios have a value for each panel, 0 for none. A mark is a figure that was not measured here; a ratio stands
	// beside the last bar.
	Marks, Ratios []float64
}

// Bar is one server in one row: a value for each panel. Without values it says that none counts.
type Bar struct {
	Series int // in Chart.Series
	Values []Value
}

// Value is a figure and its standard deviation, 0 for none. NaN is a figure that was not measured.
type Value struct{ V, Deviation float64 }

// Measures of the page in pixels.
const (
	pageWidth  = 1280.0
	marginLeft = 36.0
	labelWidth = 228.0
	headTop    = 70.0 // first line below the title
	lineHeight = 20.0
	legendRoom = 56.0
	footHeight = 34.0
	noteHeight = 16.0
	barHeight  = 13.0
	barGap     = 2.0
	rowSpace   = 5.0 // above and below the bars of a row
	groupHead  = 76.0
	groupFoot  = 34.0
)

func (r *Row) height() float64 {
	return 2*rowSpace + float64(len(r.Bars))*(barHeight+barGap) - barGap
}

// SVG draws the page.
func (c *Chart) SVG() []byte {
	head := headTop + lineHeight*float64(len(c.Lead)) + legendRoom - lineHeight
	height := head + footHeight + noteHeight*float64(len(c.Notes))
	for _, g := range c.Groups {
		height += groupHead + groupFoot
		for i := range g.Rows {
			height += g.Rows[i].height()
		}
	}
	d := newDrawing(pageWidth, height, c.Title)
	d.text(marginLeft, 44, style{24, inkColor, "start", true}, c.Title)
	for i, line := range c.Lead {
		d.text(marginLeft, headTop+lineHeight*float64(i), style{14, softColor, "start", false}, line)
	}
	c.legend(d, head-28)
	y := head
	for i := range c.Groups {
		y = c.group(d, &c.Groups[i], y)
	}
	for i, note := range c.Notes {
		d.text(marginLeft, y+20+noteHeight*float64(i), style{12, softColor, "start", false}, note)
	}
	return d.end()
}

func (c *Chart) legend(d *drawing, y float64) {
	x, s := marginLeft, style{14, inkColor, "start", false}
	for _, series := range c.Series {
		d.box(x, y-11, 22, barHeight, series.Look.fill)
		d.text(x+30, y, s, series.Name)
		x += 60 + 7.3*float64(utf8.RuneCountInString(series.Name)) // the width of the reader's font is unknown
	}
	if c.Mark != "" {
		d.line(x, y-14, x, y+4, 3, markColor)
		d.text(x+12, y, s, c.Mark)
	}
}

// group draws one group from y down and returns where the next begins.
func (c *Chart) group(d *drawing, g *Group, y float64) float64 {
	d.text(marginLeft, y+22, style{17, inkColor, "start", true}, g.Title)
	top := y + groupHead
	bottom := top
	for i := range g.Rows {
		row := &g.Rows[i]
		if i%2 == 0 {
			d.box(marginLeft-8, bottom, pageWidth-2*marginLeft+16, row.height(), bandColor)
		}
		d.text(marginLeft, bottom+row.height()/2+5, style{14, inkColor, "start", false}, row.Label)
		bottom += row.height()
	}
	for n := range c.Panels {
		if g.silent(n) {
			continue
		}
		p := c.axis(n, g)
		d.text(p.x, top-28, style{13, inkColor, "start", true}, p.Title)
		for _, t := range p.ticks() {
			x := p.at(t)
			d.line(x, top-6, x, bottom, 1, gridColor)
			d.text(x, top-10, style{11, softColor, "middle", false}, number(t))
		}
		d.line(p.x, top-6, p.x, bottom, 1, softColor)
		at := top
		for i := range g.Rows {
			c.row(d, p, n, &g.Rows[i], at)
			at += g.Rows[i].height()
		}
	}
	return bottom + groupFoot
}

// silent reports whether panel n has no measurement: the group is then drawn without it.
func (g *Group) silent(n int) bool {
	bars := 0
	for _, r := range g.Rows {
		for _, b := range r.Bars {
			if n < len(b.Values) && !math.IsNaN(b.Values[n].V) {
				return false
			}
			bars += min(1, len(b.Values))
		}
	}
	return bars > 0
}

// row draws panel n of one row.
func (c *Chart) row(d *drawing, p *axis, n int, r *Row, y float64) {
	if m := at(r.Marks, n); m != 0 {
		x := p.at(m)
		d.line(x, y+3, x, y+r.height()-3, 3, markColor)
	}
	y += rowSpace
	for _, b := range r.Bars {
		p.bar(d, b, n, y, c.Series[b.Series].Look)
		y += barHeight + barGap
	}
	if ratio := at(r.Ratios, n); ratio != 0 {
		d.text(marginLeft+labelWidth+p.Edge, y-barGap-2, style{13, Ours.fill, "end", true}, strconv.FormatFloat(ratio, 'f', 2, 64)+"×")
	}
}

func at(list []float64, n int) float64 {
	if n < len(list) {
		return list[n]
	}
	return 0
}

// bar draws one figure, as a bar or as a dot, and its value behind it.
func (p *axis) bar(d *drawing, b Bar, n int, y float64, look Look) {
	s := style{12, look.text, "start", false}
	if n >= len(b.Values) {
		d.text(p.x+6, y+11, style{12, softColor, "start", false}, "none counts")
		return
	}
	v, dev := b.Values[n].V, b.Values[n].Deviation
	if math.IsNaN(v) {
		d.text(p.x+6, y+11, style{12, softColor, "start", false}, "–")
		return
	}
	x, end := p.at(v), p.at(v+dev)
	if p.Log {
		d.line(p.x, y+barHeight/2, x, y+barHeight/2, 1, look.fill)
		d.dot(x, y+barHeight/2, 5.5, look.fill)
		d.text(x+10, y+11, s, p.small(v))
		return
	}
	d.box(p.x, y, x-p.x, barHeight, look.fill)
	if dev > 0 {
		from := p.at(max(v-dev, 0))
		d.line(from, y+barHeight/2, end, y+barHeight/2, 1.2, inkColor)
		d.line(from, y+3, from, y+barHeight-3, 1.2, inkColor)
		d.line(end, y+3, end, y+barHeight-3, 1.2, inkColor)
	}
	text := number(math.Round(v))
	if v < 100 {
		text = p.small(v)
	}
	d.text(end+6, y+11, s, text)
}
