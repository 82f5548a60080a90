package archive

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"urltree/internal/spool"
)

// SURT returns the key by which an index of captures is sorted: a canonical URL without its scheme,
// in small letters, the labels of the host from the last to the first, without a first label such
// as www or www2, and the parts of the query in order.
func SURT(url string) string {
	scheme, rest, _ := strings.Cut(strings.ToLower(url), "://")
	if scheme != "http" && scheme != "https" {
		return url
	}
	host, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if www, short, ok := strings.Cut(host, "."); ok && isWWW(www) {
		host = short
	}
	port := ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], host[i:]
	}
	if !strings.HasPrefix(host, "[") {
		labels := strings.Split(host, ".")
		slices.Reverse(labels)
		host = strings.Join(labels, ",")
	}
	path, query, _ := strings.Cut(path, "?")
	if query != "" {
		parts := strings.Split(query, "&")
		slices.Sort(parts)
		query = "?" + strings.Join(parts, "&")
	}
	return host + port + ")" + path + query
}

func isWWW(label string) bool {
	digits, ok := strings.CutPrefix(label, "www")
	return ok && strings.Trim(digits, "0123456789") == ""
}

// An Index collects captures, and writes them as CDXJ: a line for each, its key, its time and a
// JSON object, sorted.
type Index struct {
	file   string // name of the WARC file
	sorter *spool.Sorter
}

// NewIndex returns an Index of the captures in a file of that name. It must be closed.
func NewIndex(file string) *Index { return &Index{file, spool.NewSorter(2<<20, 32)} }

// Close removes what the Index has of the disk.
func (x *Index) Close() error { return x.sorter.Close() }

// stamp is the form of a time in an index.
const stamp = "20060102150405"

// A value is the object of a line, with its keys in the order that is common.
type value struct {
	URL      string `json:"url"`
	Mime     string `json:"mime,omitempty"`
	Status   string `json:"status,omitempty"`
	Digest   string `json:"digest"`
	Length   string `json:"length"`
	Offset   string `json:"offset"`
	Filename string `json:"filename"`
}

// Add takes an entry.
func (x *Index) Add(c *Entry) error {
	var line strings.Builder
	status := ""
	if c.Status > 0 {
		status = strconv.Itoa(c.Status)
	}
	err := writeLine(&line, value{
		URL: c.URL, Mime: c.Media, Status: status, Digest: c.Digest, Filename: x.file,
		Length: strconv.FormatInt(c.Length, 10), Offset: strconv.FormatInt(c.Offset, 10),
	})
	if err != nil {
		return err
	}
	return x.sorter.Add(spool.Row{Key: SURT(c.URL) + " " + c.Time.UTC().Format(stamp), Sub: strings.TrimSuffix(line.String(), "\n")})
}

// Lines calls fn with each line in order, without its end. No capture may be added any more.
func (x *Index) Lines(fn func(key, line string) error) error {
	next := x.sorter.Sorted()
	for {
		row, err := next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = fn(row.Key, row.Key+" "+row.Sub)
		}
		if err != nil {
			return err
		}
	}
}
