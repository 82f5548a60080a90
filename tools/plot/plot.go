// Package plot draws lines over two axes as SVG. The same chart gives the same bytes.
package plot

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
	"strings"
)

// ErrPoint says that a point has no place on the axes: it is not finite, or not positive on a
// logarithmic axis. Such a point is not left out in silence.
var ErrPoint = errors.New("plot: point without a place")

// A Chart is a picture of lines.
type Chart struct {
	Title  string
	X, Y   Axis
	Series []Series
}

// An Axis spans its points and ends at round numbers.
type Axis struct {
	Label string
	Log   bool // logarithmic; otherwise linear
	Zero  bool // a linear axis has 0 on it, wherever its points are
}

// A Series is a line through points, in their order.
type Series struct {
	Name   string
	Points []Point
}

// A Point stands on both axes.
type Point struct{ X, Y float64 }

// Sizes in pixels. The legend stands at the right of the plane.
const (
	width, height            = 720, 400
	left, right, top, bottom = 80, 190, 40, 60
	inner, outer             = width - left - right, height - top - bottom
	legend                   = left + inner + 20
)

// Lines differ by colour and by dashes, so that they can be told apart in grey, too.
var (
	colours = [...]string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}
	dashes  = [...]string{"none", "7 3", "2 3", "9 3 2 3"}
)

// WriteSVG writes the chart as an SVG document of 720 by 400 pixels.
func (c *Chart) WriteSVG(w io.Writer) error {
	var xs, ys []float64
	for _, s := range c.Series {
		for _, p := range s.Points {
			if !c.X.has(p.X) || !c.Y.has(p.Y) {
				return fmt.Errorf("%w: (%g, %g) of %q in %q", ErrPoint, p.X, p.Y, s.Name, c.Title)
			}
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	x, y := c.X.scale(xs), c.Y.scale(ys)

	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text(&b, left+inner/2, 22, "middle", c.Title)
	for _, v := range x.ticks {
		at := left + x.at(v)*inner
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d" stroke="#ddd"/>`+"\n", at, top, top+outer)
		text(&b, at, top+outer+18, "middle", number(v))
	}
	for _, v := range y.ticks {
		at := top + outer - y.at(v)*outer
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/>`+"\n", left, at, left+inner)
		text(&b, left-8, at+4, "end", number(v))
	}
	fmt.Fprintf(&b, `<path d="M%d %dV%dH%d" fill="none" stroke="#333"/>`+"\n", left, top, top+outer, left+inner)
	text(&b, left+inner/2, height-16, "middle", c.X.Label)
	fmt.Fprintf(&b, `<g transform="translate(20 %d) rotate(-90)">`, top+outer/2)
	text(&b, 0, 0, "middle", c.Y.Label)
	b.WriteString("</g>\n")
	for i, s := range c.Series {
		style := fmt.Sprintf(`fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"`, colours[i%len(colours)], dashes[i%len(dashes)])
		var line []string
		for _, p := range s.Points {
			line = append(line, fmt.Sprintf("%.1f,%.1f", left+x.at(p.X)*inner, top+outer-y.at(p.Y)*outer))
		}
		fmt.Fprintf(&b, `<polyline points="%s" %s/>`+"\n", strings.Join(line, " "), style)
		for _, at := range line {
			cx, cy, _ := strings.Cut(at, ",")
			fmt.Fprintf(&b, `<circle cx="%s" cy="%s" r="3" fill="%s"/>`+"\n", cx, cy, colours[i%len(colours)])
		}
		at := top + 10 + 20*i
		fmt.Fprintf(&b, `<path d="M%d %dH%d" %s/>`+"\n", legend, at, legend+30, style)
		text(&b, legend+36, float64(at+4), "start", s.Name)
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

func text(b *bytes.Buffer, x, y float64, anchor, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
}

// has reports whether a value has a place on the axis.
func (a Axis) has(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!a.Log || v > 0)
}

// A scale is an axis with its range.
type scale struct {
	log         bool
	least, most float64 // of the axis, as logarithms on a logarithmic one; least < most
	ticks       []float64
}

// at returns the place of a value: 0 at the least, 1 at the most of the axis.
func (s *scale) at(v float64) float64 {
	if s.log {
		v = math.Log10(v)
	}
	return (v - s.least) / (s.most - s.least)
}

func (a Axis) scale(values []float64) scale {
	s := scale{log: a.Log, least: math.Inf(1), most: math.Inf(-1)}
	for _, v := range values {
		if a.Log {
			v = math.Log10(v)
		}
		s.least, s.most = min(s.least, v), max(s.most, v)
	}
	if len(values) == 0 {
		s.least, s.most = 0, 1
	}
	if a.Log {
		s.powers()
		return s
	}
	if a.Zero {
		s.least, s.most = min(s.least, 0), max(s.most, 0)
	}
	if s.least == s.most {
		s.least, s.most = s.least-max(math.Abs(s.least), 1)/2, s.most+max(math.Abs(s.most), 1)/2
	}
	step := roundStep((s.most - s.least) / 5)
	first, last := math.Floor(s.least/step), math.Ceil(s.most/step)
	s.least, s.most = first*step, last*step
	for i := first; i <= last; i++ {
		s.ticks = append(s.ticks, i*step)
	}
	return s
}

// powers puts ticks at powers of ten, and at 2 and 5 times these when there are few.
func (s *scale) powers() {
	// A sum of logarithms may miss its power of ten by a rounding error.
	s.least, s.most = math.Floor(s.least+1e-9), math.Ceil(s.most-1e-9)
	if s.least >= s.most {
		s.most = s.least + 1
	}
	step := math.Ceil((s.most - s.least) / 8)
	for e := s.least; e <= s.most; e += step {
		power := math.Pow(10, e)
		s.ticks = append(s.ticks, power)
		if s.most-s.least <= 2 && e < s.most {
			s.ticks = append(s.ticks, 2*power, 5*power)
		}
	}
}

// roundStep is the least of 1, 2 and 5 times a power of ten that is at least v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= v {
			return f * power
		}
	}
	return 10 * power
}

// number writes a tick: 0.05, 250000, 1e6.
func number(v float64) string {
	s := strconv.FormatFloat(v, 'g', 6, 64)
	if mantissa, exponent, ok := strings.Cut(s, "e"); ok {
		sign, digits := exponent[:1], strings.TrimLeft(exponent[1:], "0")
		s = mantissa + "e" + strings.TrimPrefix(sign, "+") + digits
	}
	return s
}
