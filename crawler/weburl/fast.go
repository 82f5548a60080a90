package weburl

import "strings"

// Classes of bytes that the parser leaves as they are, by the part they stand in.
const (
	inPath  = 1 << iota // without '?', which ends it, and '\\', which is a slash
	inQuery             // of http and https
	inHost              // of names in lower case; all else has rules of its own
	inName              // of a path, without '.' and '%', which may mean more than themselves
)

var class = func() (t [256]uint8) {
	for c := byte('!'); c <= '~'; c++ {
		if strings.IndexByte("\"#<>?\\^`{}", c) < 0 {
			t[c] |= inPath
			if c != '.' && c != '%' {
				t[c] |= inName
			}
		}
		if strings.IndexByte("\"#<>'", c) < 0 {
			t[c] |= inQuery
		}
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' {
			t[c] |= inHost
		}
	}
	return t
}()

// fast resolves an ordinary reference without fragment: nearly all that pages hold. It gives
// what slow gives or says no; a fuzz test holds it to that.
func (b *Base) fast(ref string) (string, bool) {
	var to *chunk
	if b != nil {
		to = &b.text
	}
	switch {
	case strings.HasPrefix(ref, "http://"):
		return absolute(to, ref, len("http://"))
	case strings.HasPrefix(ref, "https://"):
		return absolute(to, ref, len("https://"))
	case b == nil:
		return "", false
	case ref == "":
		return b.url, true
	case strings.HasPrefix(ref, "//"):
		host := strings.Index(b.url, "://") + 3
		return absolute(to, b.url[:host]+ref[2:], host)
	case ref[0] == '/':
		return join(to, b.url[:b.origin+1], b.origin, ref[1:])
	case ref[0] == '?':
		return join(to, b.url[:b.pathEnd], b.origin, ref)
	case scheme(ref) != "":
		return "", false
	}
	return join(to, b.folder, b.origin, ref)
}

// A chunk is memory for many strings, which take no allocation of their own. A nil one has none.
type chunk struct {
	strings.Builder
	made int // bytes of the chunks that were made
}

const chunkSize = 4 << 10 // bytes

// concat returns a+b. What has been given never changes: a chunk that is full is left to those who
// have a part of it.
func (c *chunk) concat(a, b string) string {
	if c == nil && b == "" {
		return strings.Clone(a) // which may be part of a longer reference
	} else if c == nil {
		return a + b
	}
	if n := len(a) + len(b); n > c.Cap()-c.Len() {
		c.Reset()
		c.Grow(max(n, chunkSize))
		c.made += c.Cap()
	}
	start := c.Len()
	c.WriteString(a)
	c.WriteString(b)
	return c.String()[start:]
}

// absolute returns the URL of an absolute reference whose host begins at host.
func absolute(to *chunk, ref string, host int) (string, bool) {
	end := host
	for end < len(ref) && ref[end] != '/' && ref[end] != '?' {
		end++
	}
	if !isPlainHost(ref[host:end], ref[:host] == "http://") {
		return "", false
	}
	if end < len(ref) && ref[end] == '/' {
		return join(to, ref[:end+1], end, ref[end+1:])
	}
	return join(to, ref[:end]+"/", end, ref[end:])
}

// isPlainHost reports whether a host is spelt as in a canonical URL of http or https: a name in
// lower case without punycode or anything that could be a number, or an IPv4 address, and maybe a
// port.
func isPlainHost(host string, http bool) bool {
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		port, ok := decimal(host[i+1:], 65535)
		if !ok || http && port == 80 || !http && port == 443 {
			return false
		}
		host = host[:i]
	}
	label := 0 // where the present label begins
	for i := range len(host) {
		if class[host[i]]&inHost == 0 {
			return false
		}
		if host[i] == '.' {
			if i == label {
				return false
			}
			label = i + 1
		}
	}
	if label < len(host) && host[label] >= 'a' {
		return !strings.Contains(host, "xn--")
	}
	return isIPv4(host)
}

// isIPv4 reports whether s is an address of four numbers, as canonical URLs have it.
func isIPv4(s string) bool {
	for range 3 {
		part, rest, ok := strings.Cut(s, ".")
		if _, number := decimal(part, 255); !ok || !number {
			return false
		}
		s = rest
	}
	_, ok := decimal(s, 255)
	return ok
}

// decimal reads a number of at most five digits in its shortest spelling, up to most.
func decimal(s string, most int) (n int, ok bool) {
	if s == "" || len(s) > 5 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n, n <= most
}

// join returns the URL of a reference, a path without leading slash and a query, behind the prefix
// of a URL that it begins at. prefix[:origin] is scheme, host and port.
func join(to *chunk, prefix string, origin int, ref string) (string, bool) {
	for { // nearly all dots are at the start
		if rest, ok := strings.CutPrefix(ref, "../"); ok {
			prefix, ref = parent(prefix, origin), rest
		} else if rest, ok := strings.CutPrefix(ref, "./"); ok {
			ref = rest
		} else {
			break
		}
	}
	end, dots := 0, false
	for ; end < len(ref) && ref[end] != '?'; end++ {
		c := ref[end]
		if class[c]&inName != 0 { // nearly all
			continue
		}
		if class[c]&inPath == 0 || c == '%' && isEscapedDot(ref[end:]) {
			return "", false
		}
		dots = dots || c == '.' && (end == 0 || ref[end-1] == '/')
	}
	path, query := ref[:end], ref[end:]
	for i := range len(query) {
		if class[query[i]]&inQuery == 0 {
			return "", false
		}
	}
	if !dots {
		return to.concat(prefix, ref), true
	}
	var place [256]byte // enough for most
	b := append(place[:0], prefix...)
	for more := true; more; {
		var segment string
		segment, path, more = strings.Cut(path, "/")
		switch segment {
		case ".":
		case "..":
			b = parent(b, origin)
		default:
			b = append(b, segment...)
			if more {
				b = append(b, '/')
			}
		}
	}
	return to.concat(string(b), query), true
}

// parent cuts the last folder of b, which ends in a slash; the slash at root stays.
func parent[T string | []byte](b T, root int) T {
	n := len(b) - 1
	for n > root && b[n-1] != '/' {
		n--
	}
	return b[:max(n, root+1)]
}

func isEscapedDot(s string) bool {
	return len(s) > 2 && s[1] == '2' && s[2]|0x20 == 'e'
}
