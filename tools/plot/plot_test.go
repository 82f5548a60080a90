package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		name   string
		log    bool
		values []float64
		want   string
	}{
		{"from zero", false, []float64{0, 9.3}, "0 2 4 6 8 10"},
		{"below zero", false, []float64{-0.1, 0.3}, "-0.1 0 0.1 0.2 0.3"},
		{"one value", false, []float64{7}, "2 4 6 8 10 12"},
		{"zero alone", false, []float64{0}, "-0.6 -0.4 -0.2 0 0.2 0.4 0.6"},
		{"no value", false, nil, "0 0.2 0.4 0.6 0.8 1"},
		{"decades", true, []float64{100, 1e7}, "100 1000 10000 100000 1e6 1e7"},
		{"two decades", true, []float64{3, 80}, "1 2 5 10 20 50 100"},
		{"one power", true, []float64{1000}, "1000 2000 5000 10000"},
		{"below one", true, []float64{1e-7, 1e-5}, "1e-7 2e-7 5e-7 1e-6 2e-6 5e-6 1e-5"},
		{"many decades", true, []float64{1, 1e20}, "1 1000 1e6 1e9 1e12 1e15 1e18"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Axis{Log: tt.log}.scale(tt.values)
			var got []string
			for _, v := range s.ticks {
				got = append(got, number(v))
			}
			if g := strings.Join(got, " "); g != tt.want {
				t.Errorf("ticks %s, want %s", g, tt.want)
			}
			if !slices.IsSorted(s.ticks) {
				t.Error("ticks are not sorted")
			}
			for _, v := range append(s.ticks, tt.values...) {
				if at := s.at(v); at < -1e-6 || at > 1+1e-6 {
					t.Errorf("%g stands at %g of the axis", v, at)
				}
			}
		})
	}
}

// An axis with 0 on it shows how large a difference is beside the whole.
func TestZero(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   string
	}{
		{[]float64{261, 321}, "0 100 200 300 400"},
		{[]float64{490}, "0 100 200 300 400 500"},
		{[]float64{-3, -1}, "-3 -2 -1 0"},
		{nil, "0 0.2 0.4 0.6 0.8 1"},
	} {
		s := Axis{Zero: true}.scale(tt.values)
		var got []string
		for _, v := range s.ticks {
			got = append(got, number(v))
		}
		if g := strings.Join(got, " "); g != tt.want {
			t.Errorf("%v: ticks %s, want %s", tt.values, g, tt.want)
		}
	}
}

func TestRefusesPoints(t *testing.T) {
	for _, tt := range []struct {
		name string
		log  bool
		p    Point
		ok   bool
	}{
		{"zero on a linear axis", false, Point{0, 0}, true},
		{"zero on a logarithmic axis", true, Point{1, 0}, false},
		{"below zero on a logarithmic axis", true, Point{-1, 1}, false},
		{"infinite", false, Point{math.Inf(1), 1}, false},
		{"no number", false, Point{1, math.NaN()}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Chart{X: Axis{Log: tt.log}, Y: Axis{Log: tt.log}, Series: []Series{{Points: []Point{tt.p}}}}
			var b bytes.Buffer
			err := c.WriteSVG(&b)
			if errors.Is(err, ErrPoint) == tt.ok || (b.Len() > 0) != tt.ok {
				t.Errorf("%v gives error %v and %d bytes", tt.p, err, b.Len())
			}
		})
	}
}

// Any chart is well-formed, the same each time, and has all its points within the plane.
func TestSVG(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Float64Range(1e-9, 1e12)
		text := rapid.StringOf(rapid.RuneFrom([]rune(`ab<>&"' ü`)))
		c := Chart{
			Title: text.Draw(t, "title"),
			X:     Axis{Label: text.Draw(t, "x"), Log: rapid.Bool().Draw(t, "logx")},
			Y:     Axis{Label: text.Draw(t, "y"), Log: rapid.Bool().Draw(t, "logy")},
		}
		points := 0
		for range rapid.IntRange(0, 9).Draw(t, "series") {
			s := Series{Name: text.Draw(t, "name")}
			for range rapid.IntRange(0, 5).Draw(t, "points") {
				s.Points = append(s.Points, Point{value.Draw(t, "x"), value.Draw(t, "y")})
				points++
			}
			c.Series = append(c.Series, s)
		}
		var b, again bytes.Buffer
		if err := errors.Join(c.WriteSVG(&b), c.WriteSVG(&again)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), again.Bytes()) {
			t.Fatal("not the same twice")
		}
		var texts []string
		for d := xml.NewDecoder(&b); ; {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			switch e := token.(type) {
			case xml.CharData:
				texts = append(texts, string(e))
			case xml.StartElement:
				if e.Name.Local != "circle" {
					continue
				}
				points--
				x, errX := strconv.ParseFloat(e.Attr[0].Value, 64)
				y, errY := strconv.ParseFloat(e.Attr[1].Value, 64)
				if errX != nil || errY != nil || x < left || x > left+inner || y < top || y > top+outer {
					t.Fatalf("a point at %s, %s", e.Attr[0].Value, e.Attr[1].Value)
				}
			}
		}
		if points != 0 {
			t.Fatalf("%d points too few", points)
		}
		for _, s := range c.Series {
			if s.Name != "" && !slices.Contains(texts, s.Name) {
				t.Fatalf("the legend lacks %q", s.Name)
			}
		}
	})
}
