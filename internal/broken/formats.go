package broken

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"iter"
	"strconv"

	"urltree/internal/inspect"
	"urltree/internal/words"
)

func newReport(format string, w io.Writer) report {
	switch format {
	case "csv":
		return &csvReport{w: csv.NewWriter(w)}
	case "json":
		return &jsonReport{w: bufio.NewWriter(w)}
	case "html":
		return &htmlReport{w: bufio.NewWriter(w)}
	}
	return &textReport{w: bufio.NewWriter(w)}
}

// what says in words what is wrong with a target, without its URL.
func what(t *inspect.BrokenTarget) string {
	s := t.Reason
	if t.State == "unreachable" {
		s = "its host cannot be reached, " + s
	}
	if t.Status != 0 {
		s += ", status " + strconv.FormatInt(t.Status, 10)
	}
	return s
}

// String says in a sentence what a report has.
func (s *Sum) String() string {
	found := "no broken links"
	if s.Targets > 0 {
		found = fmt.Sprintf("%s with %s", words.Count(s.Targets, "broken URL"), words.Count(s.Links, "link"))
	}
	if s.External > 0 {
		found += fmt.Sprintf(", %d of them outside of the crawl", s.External)
	}
	return fmt.Sprintf("%s; the tree has %s", found, words.Count(s.Pages, "page"))
}

// textReport is for people: a line for each target, and, indented, one for each link.
type textReport struct{ w *bufio.Writer }

func (*textReport) begin(*Sum) error { return nil }

func (o *textReport) target(t *inspect.BrokenTarget, links iter.Seq[inspect.BrokenLink]) error {
	o.w.WriteString(t.URL)
	if t.External {
		o.w.WriteString(" (external)")
	}
	if t.End != "" {
		o.w.WriteString(" redirects to " + t.End)
	}
	fmt.Fprintf(o.w, ": %s\n", what(t))
	for l := range links {
		switch l.Element {
		case "seed":
			o.w.WriteString("  a seed")
		case "sitemap":
			o.w.WriteString("  in the sitemap " + l.Page)
		default:
			o.w.WriteString("  on " + l.Page)
			if l.Element != "" {
				o.w.WriteString(" <" + l.Element + ">")
			}
			if l.Text != "" {
				o.w.WriteString(` "` + l.Text + `"`)
			}
		}
		o.w.WriteByte('\n')
	}
	return o.w.WriteByte('\n') // the error of any write before
}

func (o *textReport) end(sum *Sum) error {
	fmt.Fprintln(o.w, sum)
	return o.w.Flush()
}

// csvReport is CSV by RFC 4180: a title line, then a line for each link.
type csvReport struct{ w *csv.Writer }

func (o *csvReport) begin(*Sum) error {
	o.w.UseCRLF = true
	return o.w.Write([]string{"url", "state", "reason", "status", "end", "checked", "page", "element", "text", "external"})
}

func (o *csvReport) target(t *inspect.BrokenTarget, links iter.Seq[inspect.BrokenLink]) error {
	external := ""
	if t.External {
		external = "yes"
	}
	status := ""
	if t.Status != 0 {
		status = strconv.FormatInt(t.Status, 10)
	}
	for l := range links {
		err := o.w.Write([]string{t.URL, t.State, t.Reason, status, t.End, t.Time, l.Page, l.Element, inspect.NoFormula(l.Text), external})
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *csvReport) end(*Sum) error {
	o.w.Flush()
	return o.w.Error()
}

// jsonReport is one object. What is not known is left out.
type jsonReport struct {
	w      *bufio.Writer
	buf    bytes.Buffer
	second bool // a target was written
}

type jsonTarget struct {
	URL      string `json:"url"`
	State    string `json:"state"`
	Reason   string `json:"reason"`
	Status   int64  `json:"status,omitempty"`
	End      string `json:"end,omitempty"`
	Checked  string `json:"checked,omitempty"`
	External bool   `json:"external,omitempty"`
}

type jsonLink struct {
	Page    string `json:"page,omitempty"`
	Element string `json:"element,omitempty"`
	Text    string `json:"text,omitempty"`
}

// value writes a value as JSON, without the last bytes of it that cut says.
func (o *jsonReport) value(v any, cut int) error {
	o.buf.Reset()
	e := json.NewEncoder(&o.buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := o.w.Write(o.buf.Bytes()[:o.buf.Len()-1-cut]) // without the line end
	return err
}

func (o *jsonReport) begin(sum *Sum) error {
	fmt.Fprintf(o.w, "{\"pages\":%d,\"waiting\":%d,", sum.Pages, sum.Waiting)
	if sum.Outside > 0 {
		fmt.Fprintf(o.w, "\"external\":{\"targets\":%d,\"waiting\":%d,\"refused\":%d},", sum.Outside, sum.OutsideWaiting, sum.OutsideRefused)
	}
	_, err := o.w.WriteString("\"broken\":[")
	return err
}

func (o *jsonReport) target(t *inspect.BrokenTarget, links iter.Seq[inspect.BrokenLink]) error {
	if o.second {
		o.w.WriteByte(',')
	}
	o.second = true
	o.w.WriteByte('\n')
	if err := o.value(jsonTarget{t.URL, t.State, t.Reason, t.Status, t.End, t.Time, t.External}, 1); err != nil {
		return err
	}
	separator := `,"links":[`
	for l := range links {
		o.w.WriteString(separator + "\n  ")
		if err := o.value(jsonLink{l.Page, l.Element, l.Text}, 0); err != nil {
			return err
		}
		separator = ","
	}
	_, err := o.w.WriteString("]}")
	return err
}

func (o *jsonReport) end(sum *Sum) error {
	fmt.Fprintf(o.w, "\n],\"targets\":%d,\"links\":%d}\n", sum.Targets, sum.Links)
	return o.w.Flush()
}

// page has the parts of the HTML report, each of which begins and ends in the text of an element,
// so that html/template escapes what stands in them.
//
//go:embed report.html
var page string

var parts = template.Must(template.New("").Funcs(template.FuncMap{"what": what}).Parse(page))

// htmlReport is one file for a browser, which fetches nothing and runs no script.
type htmlReport struct{ w *bufio.Writer }

func (o *htmlReport) part(name string, data any) error { return parts.ExecuteTemplate(o.w, name, data) }

func (o *htmlReport) begin(*Sum) error { return o.part("begin", nil) }

func (o *htmlReport) target(t *inspect.BrokenTarget, links iter.Seq[inspect.BrokenLink]) error {
	return o.part("target", struct {
		*inspect.BrokenTarget
		Links iter.Seq[inspect.BrokenLink]
	}{t, links})
}

func (o *htmlReport) end(sum *Sum) error {
	if err := o.part("end", sum); err != nil {
		return err
	}
	return o.w.Flush()
}
