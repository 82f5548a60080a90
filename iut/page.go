package iut

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"urltree/storage/record"
)

const (
	maxLine = 1 << 20 // bytes of source.txt
	maxWord = 128     // bytes of a media type or charset, which come from the web
	fields  = 12      // of a line, with its checksum
	maxTime = 253402300799
)

// ErrTorn says that a folder holds a page that is not whole. The text says what is wrong.
var ErrTorn = errors.New("iut: torn page")

// ErrDefect says, besides ErrTorn, that a page is as no kill leaves it: source.txt has more
// than one line, or the line of another URL.
var ErrDefect = errors.New("iut: defect")

// Facts are what source.txt says of a page.
type Facts struct {
	URL         string // canonical
	Source      string // the URL whose page named it first, or [record.Seed]
	record.Page        // PageDepth is the depth
	// Earlier says that an earlier version is meant, which Time and Digest name, see [VersionOf].
	Earlier bool
}

// FactsOf returns what source.txt of a stored record says.
func FactsOf(r *record.Record) Facts {
	return Facts{URL: r.URL, Source: r.Source, Page: r.Page}
}

// Same reports whether both are the facts of one page, wherever it is.
func (f Facts) Same(o Facts) bool {
	f.Extent, o.Extent, f.Earlier, o.Earlier = record.Extent{}, record.Extent{}, false, false
	return f == o
}

// A Page is what Store writes. Bytes and, if it is zero, Digest are filled in from Body. With Temp,
// the name of a closed [TempFile] that becomes content.html, or with Answer both must be right
// already.
type Page struct {
	Facts
	Via  string // URL that redirected to it, for a tree of segments; "": none
	Body []byte
	Temp string
	// lasts says, for a tree of segments, that Temp is not to be removed.
	lasts bool
	// Answer is how the page came, for a tree of segments; then Body or Temp is the body in the
	// coding that its header names. nil: it is not known.
	Answer *Answer
}

// clean returns the facts as a line can hold them, which is how [parseLine] gives them back:
// visible ASCII only, single spaces between links, media type and charset of at most 128
// bytes, times from 1970 to the year 9999. A word that is only "-" is empty, but empty Flags are
// "-". Store and AppendLine clean for themselves; clean facts that go into the index as well.
func (f Facts) clean() Facts {
	f.URL, f.Source = visible(f.URL), visible(f.Source)
	f.Media, f.Charset = visible(f.Media), visible(f.Charset)
	f.Media, f.Charset = f.Media[:min(len(f.Media), maxWord)], f.Charset[:min(len(f.Charset), maxWord)]
	if f.Flags = visible(f.Flags); f.Flags == "" {
		f.Flags = "-"
	}
	if f.HeaderLinks != "" {
		links := strings.Fields(f.HeaderLinks)
		for i := range links {
			links[i] = keepVisible(links[i])
		}
		f.HeaderLinks = strings.Join(strings.Fields(strings.Join(links, " ")), " ")
		f.HeaderLinks = empty(f.HeaderLinks)
	}
	f.Time = min(max(f.Time, 0), maxTime)
	f.Bytes = max(f.Bytes, 0)
	return f
}

// AppendLine appends the facts as the line of source.txt, cleaned: twelve fields and the tabs
// between them, empty ones as "-", the last the CRC-32C of all before it in hex.
func (f Facts) AppendLine(b []byte) []byte {
	f = f.clean()
	start := len(b)
	b = appendField(b, f.URL)
	b = appendField(b, f.Source)
	b = append(strconv.AppendUint(b, uint64(f.PageDepth), 10), '\t')
	b = append(time.Unix(f.Time, 0).UTC().AppendFormat(b, time.RFC3339), '\t')
	b = append(strconv.AppendUint(b, uint64(f.Status), 10), '\t')
	b = appendField(b, f.Media)
	b = appendField(b, f.Charset)
	b = appendField(b, f.Flags)
	b = appendField(b, f.HeaderLinks)
	b = append(strconv.AppendInt(b, f.Bytes, 10), '\t')
	b = append(hex.AppendEncode(b, f.Digest[:]), '\t')
	var sum [crc32.Size]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(b[start:], castagnoli))
	b = hex.AppendEncode(b, sum[:])
	return append(b, '\n')
}

// ParseFacts reads the line of source.txt, without its end, as metadata records of segments have
// it. Anything else is [ErrTorn].
func ParseFacts(line string) (Facts, error) { return parseLine([]byte(line + "\n")) }

// parseLine reads a line that AppendLine made. Anything else, if only by one byte, is [ErrTorn].
func parseLine(line []byte) (Facts, error) {
	var f Facts
	switch n := bytes.Count(line, []byte{'\n'}); {
	case n > 1:
		return f, fmt.Errorf("%w: %w: %d lines, want 1", ErrTorn, ErrDefect, n)
	case n == 0 || line[len(line)-1] != '\n':
		return f, tornf("no line end")
	}
	part := strings.Split(string(line[:len(line)-1]), "\t")
	if len(part) != fields {
		return f, tornf("%d fields, want %d", len(part), fields)
	}
	sum := line[:len(line)-1-len(part[fields-1])]
	if fmt.Sprintf("%08x", crc32.Checksum(sum, castagnoli)) != part[fields-1] {
		return f, tornf("checksum of the line")
	}
	depth, err1 := strconv.ParseUint(part[2], 10, 32)
	at, err2 := time.Parse(time.RFC3339, part[3])
	status, err3 := strconv.ParseUint(part[4], 10, 16)
	size, err4 := strconv.ParseInt(part[9], 10, 64)
	digest, err5 := hex.DecodeString(part[10])
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil || len(digest) != len(f.Digest) {
		return f, tornf("fields: %v", err)
	}
	f.URL, f.Source, f.Media, f.Charset = empty(part[0]), empty(part[1]), empty(part[5]), empty(part[6])
	f.Flags, f.HeaderLinks = part[7], empty(part[8])
	f.PageDepth, f.Time, f.Status, f.Bytes = uint32(depth), at.Unix(), uint16(status), size
	copy(f.Digest[:], digest)
	if !bytes.Equal(f.AppendLine(nil), line) {
		return f, tornf("fields not in their one spelling")
	}
	return f, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func tornf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrTorn, fmt.Sprintf(format, args...))
}

func appendField(b []byte, s string) []byte {
	if s == "" {
		s = "-"
	}
	return append(append(b, s...), '\t')
}

func visible(s string) string { return empty(keepVisible(s)) }

// empty reads the sign for an empty field.
func empty(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// keepVisible drops all but visible ASCII.
func keepVisible(s string) string {
	for i := range len(s) {
		if isVisible(s[i]) {
			continue
		}
		b := append(make([]byte, 0, len(s)), s[:i]...)
		for ; i < len(s); i++ {
			if isVisible(s[i]) {
				b = append(b, s[i])
			}
		}
		return string(b)
	}
	return s // nearly always
}

func isVisible(c byte) bool { return c > ' ' && c < 0x7f }
