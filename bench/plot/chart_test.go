package plot

import (
	"bytes"
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"
)

// chart has everything that can be drawn, and names that are not XML.
func chart() *Chart {
	row := func(label string, ours ...float64) Row {
		bar := Bar{Series: 1}
		for _, v := range ours {
			bar.Values = append(bar.Values, Value{V: v})
		}
		return Row{Label: label, Bars: []Bar{{Series: 0, Values: []Value{{12345, 900}, {math.NaN(), 0}}}, bar}, Marks: []float64{0, 7}, Ratios: []float64{1.5}}
	}
	return &Chart{
		Title: "a <title> & more", Lead: []string{"on a machine"}, Notes: []string{"one", "two"}, Mark: "a mark",
		Series: []Series{{"theirs", Peer}, {"ours", Ours}},
		Panels: []Panel{{Title: "rate", Width: 300, Edge: 400, Least: 0.1}, {Title: "ms", X: 450, Width: 200, Log: true, Least: 0.1}},
		Groups: []Group{{"first", []Row{row("both", 20000, 0.02), row("nothing")}}, {"second", []Row{row("slow", 16, 1191)}}, {Title: "empty"}},
	}
}

func TestChartsAreWellFormed(t *testing.T) {
	for name, c := range map[string]*Chart{"full": chart(), "empty": {}} {
		b := c.SVG()
		for dec := xml.NewDecoder(bytes.NewReader(b)); ; {
			if _, err := dec.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if bytes.Contains(b, []byte("NaN")) || bytes.Contains(b, []byte("Inf")) {
			t.Errorf("%s: a coordinate is no number", name)
		}
	}
}

// TestEveryNumberIsWritten: a reader of the page does not measure bars with a ruler.
func TestEveryNumberIsWritten(t *testing.T) {
	text := string(chart().SVG())
	for _, want := range []string{"a &lt;title&gt; &amp; more", ">12,345<", ">20,000<", ">&lt;0.1<", ">16.0<", ">1,191<", ">–<", "none counts", "1.50×", "a mark"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// said counts the texts of a page that say it, without their seams.
func said(c *Chart, text string) (n int) {
	for line := range strings.Lines(string(c.SVG())) {
		if strings.Contains(line, ">"+text+"</text>") && !strings.Contains(line, seam) {
			n++
		}
	}
	return n
}

// TestNoSeamOverLetters: programs that do not know paint-order drew the seam over the text it is for.
func TestNoSeamOverLetters(t *testing.T) {
	page := string(chart().SVG())
	if strings.Contains(page, "paint-order") {
		t.Error("the page needs paint-order")
	}
	below, text, ok := strings.Cut(page, ">a mark</text>")
	if !ok || !strings.Contains(below[strings.LastIndex(below, "<text"):], seam) || !strings.Contains(text, ">a mark</text>") {
		t.Error("the first of two equal texts is not the seam")
	}
}

// TestWhatNobodyMeasuredIsNotDrawn: an axis without a figure says nothing.
func TestWhatNobodyMeasuredIsNotDrawn(t *testing.T) {
	c := chart()
	if n := said(c, "ms"); n != 3 {
		t.Errorf("the second panel is drawn for %d of three groups", n)
	}
	for _, r := range c.Groups[1].Rows {
		for _, b := range r.Bars {
			b.Values[1].V = math.NaN()
		}
	}
	if n := said(c, "ms"); n != 2 {
		t.Errorf("the second panel is drawn for %d of two groups", n)
	}
}

// TestTicksAreRound and few, for any figures.
func TestTicksAreRound(t *testing.T) {
	for _, high := range []float64{0.3, 7, 47.2, 999, 20100, 94000} {
		p := axis{high: high}
		ticks := p.ticks()
		if len(ticks) < 2 || len(ticks) > 7 || ticks[0] != 0 || ticks[len(ticks)-1] > high {
			t.Errorf("up to %v: %v", high, ticks)
		}
	}
}
