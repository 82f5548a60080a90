package extract

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"urltree/internal/extract/scan"
)

// AppendText appends the text that a page shows to a slice, at most so many bytes of it, and
// returns the slice: lines of UTF-8 with a line feed between two, none of them empty. What is
// longer ends before the character that does not fit.
//
// Of HTML and XHTML it is the text outside scripts, styles and comments, without the title; of
// plain text all; other media types have none. An element that stands in lines of its own, such as
// a paragraph or a row of a table, begins a line and ends it. White space becomes one space, in pre
// and in plain text but for the ends of lines, and other control characters go.
//
// f.Media and f.Charset alone count, as for [Parse].
func AppendText(to []byte, f Facts, body []byte, most int) []byte {
	t := plain{text: to, start: len(to), most: len(to) + most}
	if strings.EqualFold(f.Media, "text/plain") {
		t.kept = 1
	}
	showText(f, body, inLines, &t)
	return t.text
}

// plain collects the text of a page, see [AppendText].
type plain struct {
	text  []byte
	start int // where the text of the page begins
	most  int // where it must end
	gap   gap // before the next character
	kept  int // open elements in which the ends of lines count
	full  bool
}

// A gap is what separates two texts.
type gap uint8

const (
	none gap = iota
	blank
	newline
)

// Places of elements in inLines, behind those of hiding: first those that stand beside each other,
// then those in which the ends of lines count.
const (
	firstPre   = len(hiding) + 3
	firstBlock = firstPre + 5
)

// inLines are the elements that separate texts.
var inLines = func() *scan.Names {
	list := slices.Clone(hiding[:])
	for name := range strings.FieldsSeq(`
		button td th
		listing plaintext pre textarea xmp
		address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset
		figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav ol
		optgroup option p search section select summary table tbody tfoot thead tr ul`) {
		list = append(list, scan.Element{Name: name, Want: scan.Starts | scan.Ends})
	}
	return scan.NewNames(list, nil)
}()

func (t *plain) tag(element int, start bool) {
	switch {
	case element < firstPre:
		t.gap = max(t.gap, blank)
		return
	case element >= firstBlock:
	case start:
		t.kept++
	case t.kept > 0:
		t.kept--
	}
	t.gap = newline
}

func (t *plain) add(text []byte) {
	for i := 0; i < len(text) && !t.full; {
		end := i
		for end < len(text) && ' ' < text[end] && text[end] < 0x7f { // most text is words of ASCII
			end++
		}
		if end > i {
			t.put(text[i:end])
			i = end
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == '\n' && t.kept > 0:
			t.gap = newline
		case unicode.IsSpace(r):
			t.gap = max(t.gap, blank)
		case unicode.IsControl(r), r == '\ufeff': // a byte order mark
		default:
			var b [utf8.UTFMax]byte
			t.put(b[:utf8.EncodeRune(b[:], r)])
		}
		i += n
	}
}

// put appends text without white space: ASCII, as much of it as there is room for, or a character.
func (t *plain) put(text []byte) {
	between := ""
	if len(t.text) > t.start {
		between = [...]string{none: "", blank: " ", newline: "\n"}[t.gap]
	}
	t.gap = none
	if room := t.most - len(t.text) - len(between); len(text) > room {
		t.full = true
		if room <= 0 || text[0] >= utf8.RuneSelf {
			return
		}
		text = text[:room]
	}
	t.text = append(append(t.text, between...), text...)
}
