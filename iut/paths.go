package iut

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"urltree/storage/record"
)

const (
	maxName  = 200 // bytes of one folder name
	maxPath  = 900 // bytes of a page's folder below the root
	overlong = "/ov-"
)

// ErrPath says that a URL has no folder, or that a path is not the folder of a URL.
var ErrPath = errors.New("iut: no page folder")

// A Mapping maps every URL to a folder, and every folder that it made back to the URL. It depends
// on nothing but its field.
//
// Each component of the URL (see [record.Key]) is a folder: pr- scheme, do- host label, po-
// port, dr- path segment, qu- query. What common file systems forbid stands as ^ and two
// capital hex digits. A name over 200 bytes ends in ^ and goes on in a child folder of the
// same prefix. A path over 900 bytes becomes ov- and the SHA-256 of the URL, in the folder of
// the host; that way alone leads not back.
type Mapping struct {
	// FoldCase also escapes capital letters and a dot or space at the end of a name: for file
	// systems that ignore the case, which may drop those as well.
	FoldCase bool
}

// Path returns the folder of a canonical URL, below the root, with slashes. The error is
// [ErrPath] for what is not a canonical URL, or has a host that no path can hold.
func (m Mapping) Path(url string) (string, error) {
	var room [512]byte
	key, err := record.AppendKey(room[:0], url)
	if err != nil {
		return "", fmt.Errorf("%w: %q: %w", ErrPath, url, err)
	}
	// Two spellings must not share a folder: "http://a:/" has the components of "http://a/".
	var back [512]byte
	if same, err := record.AppendURL(back[:0], key); err != nil || string(same) != url {
		return "", fmt.Errorf("%w: %q: %w", ErrPath, url, record.ErrKey)
	}
	scheme, rest, _ := bytes.Cut(key, []byte{0})
	var place [512]byte
	b := append(place[:0], "pr-"...)
	b = append(b, scheme...)
	host := 0 // length of the host's folder
	for len(rest) > 0 {
		var component []byte
		component, rest, _ = bytes.Cut(rest, []byte{0})
		b = m.appendName(b, prefixOf(component[0]), component[1:])
		if component[0] == record.Label {
			host = len(b)
		}
	}
	if len(b) <= maxPath {
		return string(b), nil
	}
	if host+len(overlong)+2*sha256.Size > maxPath {
		return "", fmt.Errorf("%w: host name too long: folder of %d bytes", ErrPath, host)
	}
	sum := sha256.Sum256([]byte(url))
	return string(hex.AppendEncode(append(b[:host], overlong...), sum[:])), nil
}

// URLOf returns the URL of a folder that Path made, and [ErrPath] for anything else, also for
// the ov- folders, whose URL is in source.txt.
func (m Mapping) URLOf(rel string) (string, error) {
	if key, open, ok := decodePath(rel); ok && !open {
		if url, err := record.URL(key); err == nil {
			if again, err := m.Path(url); err == nil && again == rel {
				return url, nil
			}
		}
	}
	return "", fmt.Errorf("%w: %q", ErrPath, rel)
}

// appendName appends the folder, or the folders, of one component.
func (m Mapping) appendName(b []byte, prefix string, text []byte) []byte {
	left := 0 // bytes of the escaped text still to write
	for i := range text {
		left += m.width(text, i)
	}
	b = append(b, '/')
	start := len(b)
	b = append(b, prefix...)
	if left == len(text) && len(prefix)+left <= maxName {
		return append(b, text...) // nothing to escape and nothing to cut
	}
	for i, c := range text {
		n := m.width(text, i)
		// Cut only where the rest does not fit, and as late as leaves room for the mark.
		if used := len(b) - start; used+left > maxName && used+n >= maxName {
			b = append(b, '^', '/')
			start = len(b)
			b = append(b, prefix...)
		}
		if n == 1 {
			b = append(b, c)
		} else {
			b = append(b, '^', hexDigits[c>>4], hexDigits[c&15])
		}
		left -= n
	}
	return b
}

const hexDigits = "0123456789ABCDEF"

// forbidden are the bytes that common file systems take in no name, and the escape byte.
var forbidden = func() (set [256]bool) {
	for c := range set {
		set[c] = c < ' ' || c >= 0x7f || strings.IndexByte(`/\:*?"<>|^`, byte(c)) >= 0
	}
	return set
}()

// width returns the bytes that text[i] takes in a name.
func (m Mapping) width(text []byte, i int) int {
	c := text[i]
	switch {
	case forbidden[c]:
		return 3
	case !m.FoldCase:
		return 1
	case 'A' <= c && c <= 'Z', i == len(text)-1 && (c == '.' || c == ' '):
		return 3
	}
	return 1
}

// decodePath reads the components off a path. It accepts more than Path makes. The last
// component is open when its name is marked as one that goes on below.
func decodePath(rel string) (key []byte, open, ok bool) {
	scheme, rest, more := strings.Cut(rel, "/")
	if scheme != "pr-http" && scheme != "pr-https" {
		return nil, false, false
	}
	key = make([]byte, 0, len(rel))
	key = append(key, scheme[3:]...)
	key = append(key, 0)
	last := byte(0)
	for more {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		kind := kindOf(name)
		if kind == 0 || open && kind != last {
			return nil, false, false
		}
		if !open {
			key = append(key, kind)
		}
		last, open = kind, false
		for text := name[3:]; text != ""; {
			switch {
			case text[0] != '^':
				key = append(key, text[0])
				text = text[1:]
			case len(text) == 1:
				open = true
				text = ""
			case len(text) >= 3:
				high, low := strings.IndexByte(hexDigits, text[1]), strings.IndexByte(hexDigits, text[2])
				if high < 0 || low < 0 {
					return nil, false, false
				}
				key = append(key, byte(high<<4|low))
				text = text[3:]
			default:
				return nil, false, false
			}
		}
		if !open {
			key = append(key, 0)
		}
	}
	return key, open, true
}

func prefixOf(kind byte) string {
	switch kind {
	case record.Label:
		return "do-"
	case record.Port:
		return "po-"
	case record.Segment:
		return "dr-"
	}
	return "qu-"
}

// kindOf returns the kind that a folder name begins with, or 0.
func kindOf(name string) byte {
	switch {
	case strings.HasPrefix(name, "do-"):
		return record.Label
	case strings.HasPrefix(name, "po-"):
		return record.Port
	case strings.HasPrefix(name, "dr-"):
		return record.Segment
	case strings.HasPrefix(name, "qu-"):
		return record.Query
	}
	return 0
}

// isOverlong reports whether a path has the form of an ov- folder below a host.
func isOverlong(rel string) bool {
	i := strings.LastIndex(rel, overlong)
	if i < 0 {
		return false
	}
	sum, err := hex.DecodeString(rel[i+len(overlong):])
	if err != nil || len(sum) != sha256.Size || rel[i+len(overlong):] != hex.EncodeToString(sum) {
		return false
	}
	key, open, ok := decodePath(rel[:i])
	return ok && !open && lastKind(key) == record.Label
}

// lastKind returns the kind of the last component of a key, or 0 for a scheme alone.
func lastKind(key []byte) byte {
	i := bytes.LastIndexByte(key[:len(key)-1], 0)
	if i < 0 {
		return 0
	}
	return key[i+1]
}
