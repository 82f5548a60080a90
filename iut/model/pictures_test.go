package model_test

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the pictures in docs anew")

// TestPictures fails when a picture in docs is not what its text in pictures/ says.
func TestPictures(t *testing.T) {
	texts, err := filepath.Glob("pictures/*.txt")
	if err != nil || len(texts) != 2 {
		t.Fatalf("pictures: %v, %v; want 2", texts, err)
	}
	for _, name := range texts {
		picture := filepath.Join("../../docs", "protocol-"+strings.TrimSuffix(filepath.Base(name), ".txt")+".svg")
		want, err := draw(read(t, name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if *update {
			if err := os.WriteFile(picture, want, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if got := read(t, picture); got != string(want) {
			t.Errorf("%s is not what %s says; go test -update writes it", picture, name)
		}
		for d := xml.NewDecoder(bytes.NewReader(want)); err == nil; {
			_, err = d.Token()
		}
		if err != nil && err != io.EOF {
			t.Errorf("%s: %v", picture, err)
		}
	}
}

func TestDrawRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"no actors", "title: x\n"},
		{"unknown actor", "title: x\nactors: a, b\na > c: text\n"},
		{"an arrow to itself", "title: x\nactors: a, b\na > a: text\n"},
		{"no text", "title: x\nactors: a, b\na > b\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if svg, err := draw(tt.text); err == nil {
				t.Errorf("drawn: %s", svg)
			}
		})
	}
}

const (
	column = 190 // pixels between two lifelines
	row    = 30  // between two steps
	margin = 95
	top    = 80
)

// draw makes a picture of a protocol. Its text has a title, the actors from left to right, and then
// a line for each step from the top: "a > b: text" is an arrow, "a: text" what a does by itself,
// and "# text" a note across all.
func draw(text string) ([]byte, error) {
	var title string
	var steps, actors []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "title: "); ok {
			title = rest
		} else if rest, ok := strings.CutPrefix(line, "actors: "); ok {
			actors = strings.Split(rest, ", ")
		} else if line != "" {
			steps = append(steps, line)
		}
	}
	at := func(actor string) (x int, err error) {
		for i, a := range actors {
			if a == actor {
				return margin + i*column, nil
			}
		}
		return 0, fmt.Errorf("no actor %q among %q", actor, actors)
	}
	if len(actors) == 0 {
		return nil, fmt.Errorf("no actors")
	}
	width, height := 2*margin+(len(actors)-1)*column, top+(len(steps)+1)*row
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<title>%s</title>`+"\n"+`<rect width="100%%" height="100%%" fill="white"/>`+"\n", escape(title))
	fmt.Fprintf(&b, `<text x="%d" y="24" text-anchor="middle" font-size="15">%s</text>`+"\n", width/2, escape(title))
	for _, a := range actors {
		x, _ := at(a)
		fmt.Fprintf(&b, `<line x1="%d" y1="60" x2="%d" y2="%d" stroke="#999" stroke-dasharray="3 3"/>`+"\n", x, x, height-8)
		fmt.Fprintf(&b, `<rect x="%d" y="38" width="80" height="22" rx="4" fill="#eef" stroke="#336"/>`+"\n", x-40)
		write(&b, width, x, 53, "#000", a)
	}
	for i, s := range steps {
		y := top + i*row + row/2
		if note, ok := strings.CutPrefix(s, "# "); ok {
			fmt.Fprintf(&b, `<line x1="10" y1="%d" x2="%d" y2="%d" stroke="#c60" stroke-width="0.5"/>`+"\n", y+6, width-10, y+6)
			write(&b, width, width/2, y, "#a40", note)
			continue
		}
		who, what, ok := strings.Cut(s, ": ")
		if !ok {
			return nil, fmt.Errorf("no text: %q", s)
		}
		from, to, arrow := strings.Cut(who, " > ")
		x1, err := at(from)
		if err != nil {
			return nil, err
		}
		if !arrow {
			fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="3"/>`+"\n", x1, y+4)
			write(&b, width, x1, y-2, "#000", what)
			continue
		}
		x2, err := at(to)
		if err != nil {
			return nil, err
		}
		back := 7 // of the arrow's head
		switch {
		case x1 == x2:
			return nil, fmt.Errorf("an arrow to itself: %q", s)
		case x1 < x2:
			back = -back
		}
		fmt.Fprintf(&b, `<path d="M%d %dH%d" stroke="#336" fill="none"/><path d="M%d %dl%d -4v8z" fill="#336"/>`+"\n", x1, y+4, x2, x2, y+4, back)
		write(&b, width, (x1+x2)/2, y-2, "#000", what)
	}
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}

// write puts text on a white ground, so that it can be read across lines, around x or as near as
// its length allows in a picture so wide.
func write(b *bytes.Buffer, width, x, y int, colour, text string) {
	half := len(text)*3 + 8
	x = max(min(x, width-half), half)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" fill="%s" stroke="white" stroke-width="4" paint-order="stroke">%s</text>`+"\n", x, y, colour, escape(text))
}

func escape(text string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		return err.Error()
	}
	return b.String()
}
