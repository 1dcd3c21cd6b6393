package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
)

// drawing writes SVG with nothing in it but lines, boxes, dots and text: every browser and office program shows it alike.
// Coordinates are pixels from the upper left.
type drawing struct{ b bytes.Buffer }

func newDrawing(width, height float64, title string) *drawing {
	d := &drawing{}
	fmt.Fprintf(&d.b, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %g %g" role="img" `, width, height, width, height)
	d.b.WriteString(`font-family="Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif">` + "\n<title>")
	d.escape(title)
	d.b.WriteString("</title>\n")
	d.box(0, 0, width, height, "#ffffff")
	return d
}

func (d *drawing) end() []byte {
	d.b.WriteString("</svg>\n")
	return d.b.Bytes()
}

func (d *drawing) escape(s string) {
	_ = xml.EscapeText(&d.b, []byte(s)) // a bytes.Buffer does not fail
}

func (d *drawing) box(x, y, w, h float64, fill string) {
	fmt.Fprintf(&d.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, w, h, fill)
}

func (d *drawing) line(x1, y1, x2, y2, width float64, color string) {
	fmt.Fprintf(&d.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"/>`+"\n", x1, y1, x2, y2, color, width)
}

func (d *drawing) dot(x, y, r float64, fill string) {
	fmt.Fprintf(&d.b, `<circle cx="%.1f" cy="%.1f" r="%g" fill="%s" stroke="#ffffff" stroke-width="1"/>`+"\n", x, y, r, fill)
}

// style of a text: its size in pixels, its color, where x is ("start", "middle", "end"), and whether it is bold.
type style struct {
	size   float64
	color  string
	anchor string
	bold   bool
}

// seam is a white outline.
const seam = `stroke="#ffffff" stroke-width="3" stroke-linejoin="round"`

// text has a white seam, so that it can be read where it crosses a line. The seam is a text of its own below the text. paint-order would
// draw it first, but some programs do not know it and paint the seam over the letters.
func (d *drawing) text(x, y float64, s style, text string) {
	weight := "normal"
	if s.bold {
		weight = "bold"
	}
	for _, outline := range []string{" " + seam, ""} {
		fmt.Fprintf(&d.b, `<text x="%.1f" y="%.1f" font-size="%g" fill="%s" text-anchor="%s" font-weight="%s"%s>`, x, y, s.size, s.color, s.anchor,
			weight, outline)
		d.escape(text)
		d.b.WriteString("</text>\n")
	}
}
