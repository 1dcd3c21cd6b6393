package plot

import (
	"math"
	"strconv"
	"strings"
)

// axis is a panel fitted to the figures of one group.
type axis struct {
	Panel
	x         float64 // of its begin on the page
	low, high float64
}

// axis fits panel n to a group.
func (c *Chart) axis(n int, g *Group) *axis {
	p := &axis{Panel: c.Panels[n], x: marginLeft + labelWidth + c.Panels[n].X, low: math.Inf(1)}
	see := func(low, high float64) { p.low, p.high = min(p.low, low), max(p.high, high) }
	for _, r := range g.Rows {
		for _, b := range r.Bars {
			if n < len(b.Values) && !math.IsNaN(b.Values[n].V) {
				see(b.Values[n].V, b.Values[n].V+b.Values[n].Deviation)
			}
		}
		if m := at(r.Marks, n); m != 0 {
			see(m, m)
		}
	}
	if p.high == 0 {
		p.low, p.high = 1, 10
	}
	if p.Log {
		p.low = max(math.Pow(10, math.Floor(math.Log10(max(p.low, p.Least)))), p.Least)
		p.high = max(p.high, 10*p.low)
		return p
	}
	p.low = 0
	return p
}

// at is the x of a value.
func (p *axis) at(v float64) float64 {
	if p.Log {
		v = math.Log(max(v, p.low)/p.low) / math.Log(p.high/p.low)
	} else {
		v /= p.high
	}
	return p.x + p.Width*v
}

// ticks are the values marked on the axis: powers of ten, or a few round steps.
func (p *axis) ticks() (out []float64) {
	if p.Log {
		for t := p.low; t <= p.high*1.001; t *= 10 {
			out = append(out, t)
		}
		return out
	}
	step := math.Pow(10, math.Floor(math.Log10(p.high)))
	for _, part := range []float64{5, 2, 1, 0.5, 0.2} {
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
func (p *axis) small(v float64) string {
	if v > 0 && v < p.Least {
		return "<" + number(p.Least)
	}
	if v >= 1000 {
		return number(math.Round(v))
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}
