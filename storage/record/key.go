package record

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// A record key is a canonical URL as the path of its folder in the tree: components in the
// order scheme, host labels, port, path segments, query, each ended by a NUL, which no
// canonical URL contains. All but the scheme begin with the letter of their kind. So a folder
// is the range of the keys that begin with its own, and URLs of one folder are neighbours.
//
//	https://en.example.org:81/a/?x   https␀ den␀ dexample␀ dorg␀ o81␀ ra␀ r␀ qx␀
//
// A trailing slash is an empty last segment; the root path has no segment.
const (
	Label   byte = 'd' // host label
	Port    byte = 'o' // port other than the scheme's default
	Segment byte = 'r' // path segment, as escaped in the URL
	Query   byte = 'q' // all behind the question mark
)

// ErrKey says that a URL or key is not one that Key makes.
var ErrKey = errors.New("not a canonical URL")

// Key returns the record key of a canonical http(s) URL.
func Key(url string) ([]byte, error) {
	const marks = 24 // more than most keys are longer than their URL
	return AppendKey(make([]byte, 0, len(url)+marks), url)
}

// AppendKey appends the record key of a canonical http(s) URL to b.
func AppendKey(b []byte, url string) ([]byte, error) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || scheme != "http" && scheme != "https" || strings.IndexByte(url, 0) >= 0 {
		return b, ErrKey
	}
	slash := strings.IndexByte(rest, '/')
	if slash < 1 || strings.IndexByte(rest[:slash], '?') >= 0 {
		return b, ErrKey
	}
	host, path := rest[:slash], rest[slash+1:]
	if host[slash-1] == ':' {
		return b, ErrKey // would be the key of the same URL without the colon
	}
	b = append(b, scheme...)
	b = append(b, 0)
	host, port := cutPort(host)
	for label := range strings.SplitSeq(host, ".") {
		b = appendComponent(b, Label, label)
	}
	if port != "" {
		b = appendComponent(b, Port, port)
	}
	path, query, hasQuery := strings.Cut(path, "?")
	if path != "" {
		for segment := range strings.SplitSeq(path, "/") {
			b = appendComponent(b, Segment, segment)
		}
	}
	if hasQuery {
		b = appendComponent(b, Query, query)
	}
	return b, nil
}

// URL returns the URL of a record key.
func URL(key []byte) (string, error) {
	var place [256]byte // enough for most: one allocation instead of many
	b, err := AppendURL(place[:0], key)
	if err != nil {
		return "", err
	}
	return string(b), nil
}

// AppendURL appends the URL of a record key to b.
func AppendURL(b, key []byte) ([]byte, error) {
	scheme, rest, ok := bytes.Cut(key, []byte{0})
	if s := string(scheme); !ok || s != "http" && s != "https" {
		return b, ErrKey
	}
	b = append(b, scheme...)
	b = append(b, "://"...)
	last := byte(0)
	for len(rest) > 0 {
		component, after, ok := bytes.Cut(rest, []byte{0})
		if !ok || len(component) == 0 {
			return b, ErrKey
		}
		kind, text := component[0], component[1:]
		switch {
		case kind == Label && (last == 0 || last == Label):
			if last == Label {
				b = append(b, '.')
			}
		case kind == Port && last == Label:
			b = append(b, ':')
		case kind == Segment && last != 0 && last != Query:
			b = append(b, '/')
		case kind == Query && last != 0 && last != Query:
			if last != Segment {
				b = append(b, '/')
			}
			b = append(b, '?')
		default:
			return b, ErrKey
		}
		b = append(b, text...)
		last, rest = kind, after
	}
	switch last {
	case 0:
		return b, ErrKey
	case Label, Port:
		b = append(b, '/')
	}
	return b, nil
}

// Parents calls yield with the key of each folder above a record key, outermost first:
// scheme, labels, port, segments. The key itself is not among them.
func Parents(key []byte, yield func(folder []byte)) {
	for i := 0; i < len(key)-1; i++ {
		if key[i] == 0 {
			yield(key[:i+1])
		}
	}
}

// Segments calls yield with the key of each folder above a record key that is one of its path.
func Segments(key []byte, yield func(folder []byte)) {
	from := 0
	Parents(key, func(folder []byte) {
		if folder[from] == Segment {
			yield(folder)
		}
		from = len(folder)
	})
}

// PathOf returns the key of the same URL without its query; nil if it has none.
func PathOf(key []byte) []byte {
	if from := bytes.LastIndexByte(key[:len(key)-1], 0) + 1; key[from] == Query {
		return key[:from]
	}
	return nil
}

// Host returns the host name of a canonical URL, without the port: the unit of politeness.
func Host(url string) string {
	host, _ := cutPort(authority(url))
	return host
}

// Origin returns scheme, host name and port of a canonical URL: the unit of robots.txt.
func Origin(url string) string {
	i := strings.Index(url, "://")
	if i < 0 {
		return ""
	}
	return url[:i+3+len(authority(url))]
}

// OriginKey returns the key of the root page of a record key's origin: scheme, labels, port.
func OriginKey(key []byte) []byte {
	from := bytes.IndexByte(key, 0) + 1
	for from < len(key) && (key[from] == Label || key[from] == Port) {
		from += bytes.IndexByte(key[from:], 0) + 1
	}
	return key[:from]
}

func authority(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

func cutPort(host string) (name, port string) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		return host[:i], host[i+1:]
	}
	return host, ""
}

func appendComponent(b []byte, kind byte, text string) []byte {
	b = append(b, kind)
	b = append(b, text...)
	return append(b, 0)
}

// ChildKey returns the first part of a key below a folder: that of the entry directly below it
// which the key is of, or lies below.
func ChildKey(folder, key []byte) ([]byte, error) {
	end := bytes.IndexByte(key[len(folder):], 0)
	if end <= 0 {
		return nil, fmt.Errorf("%w: key %q", ErrCorrupt, key)
	}
	return key[:len(folder)+end+1], nil
}

// AfterFolder returns the first key behind all that lie in a folder: its closing NUL raised by one.
func AfterFolder(key []byte) []byte {
	b := bytes.Clone(key)
	b[len(b)-1] = 1
	return b
}
