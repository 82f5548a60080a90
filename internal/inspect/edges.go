package inspect

import (
	"bufio"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"slices"
	"strings"

	"urltree/internal/edges"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// What export writes, and the formats of each; the first is the default.
var (
	exports = []string{"urls", "pages", "edges", "ranks", "warc", "cdxj", "wacz", "mirror"}
	formats = map[string][]string{
		"urls":   {"tsv", "csv", "jsonl", "parquet"},
		"pages":  {"jsonl", "csv", "parquet"},
		"edges":  {"tsv", "csv", "jsonl", "parquet", "graphml", "dot"},
		"ranks":  {"tsv", "csv", "jsonl", "parquet"},
		"warc":   {"gzip", "plain"},
		"cdxj":   {"gzip", "plain"},
		"wacz":   {"zip"},
		"mirror": {"files"},
	}
)

// IsBinary reports whether the answer to a question of export is no text.
func IsBinary(q Question) bool {
	return q.Format == "parquet" || q.What == "wacz" || q.What == "warc" && q.Format != "plain"
}

// oneOf checks the value of a flag; "" is the first of the list.
func oneOf(flag string, value *string, list []string, usage string) error {
	if *value == "" {
		*value = list[0]
	}
	if !slices.Contains(list, *value) {
		return fmt.Errorf("-%s %s is not there, but these: %s; %w: crawler %s", flag, clean(*value), strings.Join(list, ", "), ErrUsage, usage)
	}
	return nil
}

func (i *Inspector) exportEdges(ctx context.Context, format string, in *part, w *bufio.Writer) error {
	var (
		begin, end string
		page       func(*edges.Page) // errors stay in w
		finish     = func() error { return nil }
	)
	switch format {
	default:
		out := i.newRows(format, w, field{"from", word}, field{"to", word}, field{"element", word}, field{"rel", word}, field{"text", word})
		page = func(p *edges.Page) {
			for _, e := range p.Edges {
				_ = out.row(text(p.URL), text(e.To), text(e.Element), text(e.Rel), text(e.Text))
			}
		}
		finish = out.end
	case "dot":
		begin, end = "digraph links {\n", "}\n"
		page = func(p *edges.Page) { dotEdges(w, p) }
	case "graphml":
		if i.Live != nil {
			// It remembers the nodes it has named: more memory than a crawl has for answers.
			return fmt.Errorf("%w by a crawl: -format graphml only while none goes on; tsv and dot also meanwhile", iut.ErrBusy)
		}
		begin, end = graphmlBegin, "</graph>\n</graphml>\n"
		page = (&graphml{w: w, seed: maphash.MakeSeed(), nodes: map[uint64]struct{}{}}).page
	}
	w.WriteString(begin)
	done, total := int64(0), int64(0)
	for _, of := range i.all() {
		totals := of.Index.Totals()
		total += totals.Stored + totals.Redirected
	}
	for _, of := range i.all() {
		err := of.Edges(ctx, func(p edges.Page) error {
			if i.Tell != nil {
				i.Tell("reading links of pages", done, total)
				done++
			}
			if ok, err := i.takesPage(of, in, p.URL); err != nil || !ok {
				return err
			}
			page(&p)
			_, err := w.Write(nil) // the error of any write before
			return err
		})
		if err != nil {
			return err
		}
	}
	w.WriteString(end)
	return finish()
}

func dotEdges(w *bufio.Writer, p *edges.Page) {
	from := dotQuote(p.URL)
	fmt.Fprintf(w, "  %s;\n", from)
	for _, e := range p.Edges {
		fmt.Fprintf(w, "  %s -> %s [element=%s", from, dotQuote(e.To), dotQuote(e.Element))
		if e.Rel != "" {
			fmt.Fprintf(w, ", rel=%s", dotQuote(e.Rel))
		}
		if e.Text != "" {
			fmt.Fprintf(w, ", label=%s", dotQuote(e.Text))
		}
		w.WriteString("];\n")
	}
}

var dotEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func dotQuote(s string) string { return `"` + dotEscapes.Replace(clean(s)) + `"` }

const graphmlBegin = xml.Header + `<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="element" for="edge" attr.name="element" attr.type="string"/>
<key id="rel" for="edge" attr.name="rel" attr.type="string"/>
<key id="text" for="edge" attr.name="text" attr.type="string"/>
<graph id="links" edgedefault="directed">
`

// A graphml writes GraphML, in which each node is declared before the first edge that names it.
type graphml struct {
	w     *bufio.Writer
	seed  maphash.Seed
	nodes map[uint64]struct{} // hashes of those declared
}

func (o *graphml) page(p *edges.Page) {
	o.node(p.URL)
	for _, e := range p.Edges {
		o.node(e.To)
		o.write(`<edge source="`, p.URL, `" target="`)
		o.write("", e.To, `">`)
		for _, d := range [...]struct{ key, value string }{{"element", e.Element}, {"rel", e.Rel}, {"text", e.Text}} {
			if d.value != "" {
				o.write(`<data key="`+d.key+`">`, clean(d.value), "</data>")
			}
		}
		o.w.WriteString("</edge>\n")
	}
}

func (o *graphml) node(url string) {
	hash := maphash.String(o.seed, url)
	if _, there := o.nodes[hash]; there {
		return
	}
	o.nodes[hash] = struct{}{}
	o.write(`<node id="`, url, "\"/>\n")
}

func (o *graphml) write(before, text, behind string) {
	o.w.WriteString(before)
	_ = xml.EscapeText(o.w, []byte(text))
	o.w.WriteString(behind)
}

// takesPage reports whether an export has the edges of a page, or of a URL that redirects, as one
// of its trees keeps them.
func (i *Inspector) takesPage(of *Inspector, in *part, url string) (bool, error) {
	if !in.has(url) || !in.isTimed() && len(i.Others) == 0 {
		return in.has(url), nil
	}
	owner, r, err := i.owner(url)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, record.ErrCorrupt) { // for check to name
		return false, nil
	}
	return err == nil && owner == of && in.takes(&r), err
}

// exportRanks writes a row for each URL of the index that has a rank, in the order of the tree. The
// ranks of all nodes of the link graph together are 1.
func (i *Inspector) exportRanks(ctx context.Context, format string, in *part, w *bufio.Writer) (err error) {
	if len(i.Others) > 0 {
		return fmt.Errorf("ranks are of the link graph of one tree: make one of these by crawler unite, and crawler rank of that; %w: crawler %s", ErrUsage, usageExport)
	}
	ranks, err := i.Ranks()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: ranks; crawler rank makes them", ErrNotFound)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ranks.Close()) }()
	out := i.newRows(format, w, field{"url", word}, field{"rank", decimal})
	err = i.records(ctx, in, func(_ *Inspector, r record.Record, damage error) error {
		if damage != nil || !in.takes(&r) {
			return nil
		}
		rank, ok := ranks.Rank(r.URL)
		if !ok {
			return nil
		}
		return out.row(text(r.URL), float(rank))
	})
	if err != nil {
		return err
	}
	return out.end()
}
