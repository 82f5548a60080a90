package mirror

import (
	"crypto/sha256"
	"encoding/base32"
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A '~' behind the first character marks a name, or a part of one, that no URL has as it is:
//
//	index.html     of a path that ends in a slash
//	index~.html    of index.html
//	a~.html        of a, which is HTML
//	a.css~         the folder a.css: a file ends in the extension of a type, and a folder never does
//	x_y~HASH.html  of all else: characters that are fine everywhere, in small letters, and a hash
const mark = '~'

// Bounds in bytes.
const (
	maxPart    = 143 // of the name of a folder or file, as some encrypted disks need
	maxPlain   = 120 // of a segment of a URL that is a name as it is
	maxCleaned = 96  // of what is readable of others
	maxFolders = 512 // of the folders of a name; what lies deeper is part of the name of the file
)

// Name returns the name of the file that a mirror has for a page, with slashes. It depends on the
// canonical URL and the media type alone. No two URLs have names that are the same, or that differ
// in a way that a file system may not keep, and no name is that of a folder of another.
func Name(url, media string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	host, text, _ := strings.Cut(rest, "/")
	name := scheme + "/" + hostName(host)
	for {
		i := strings.IndexAny(text, "/?")
		if i < 0 || text[i] == '?' {
			break
		}
		folder := folderName(text[:i])
		if len(name)+1+len(folder) > maxFolders {
			break
		}
		name, text = name+"/"+folder, text[i+1:]
	}
	return name + "/" + fileName(text, media)
}

func hostName(host string) string {
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		name, port = host[:i], "_"+host[i+1:]
	}
	if isPlain(name) && !strings.Contains(name, "_") {
		return name + port
	}
	return hashed(host, host)
}

func folderName(segment string) string {
	if !isPlain(segment) {
		return hashed(segment, segment)
	}
	if extensions[strings.TrimPrefix(path.Ext(segment), ".")] {
		return segment + string(mark)
	}
	return segment
}

// fileName returns the name of a file for the last segment of a path with its query.
func fileName(text, media string) string {
	segment, query, hasQuery := strings.Cut(text, "?")
	kind := kindOf(media)
	stem, ext := segment, kind.extension
	if own := path.Ext(segment); len(own) > 1 && len(own) < len(segment) && kind.takes(strings.ToLower(own[1:])) {
		stem, ext = strings.TrimSuffix(segment, own), strings.ToLower(own[1:])
	}
	switch {
	case text == "":
		return index + "." + ext
	case hasQuery || !isPlain(segment):
	case stem != segment && stem == index:
		return stem + string(mark) + "." + ext
	case stem != segment:
		return segment
	case segment != index:
		return segment + string(mark) + "." + ext
	}
	if hasQuery {
		stem += "_" + query
	}
	return hashed(stem, text) + "." + ext
}

const index = "index"

// isPlain reports whether a segment of a URL may be a name, or the first part of one, as it is.
func isPlain(s string) bool {
	if s == "" || len(s) > maxPlain || isReserved(s) || s[0] == '.' || s[len(s)-1] == '.' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isFine(rune(c)) && !(c == mark && i == 0 && len(s) > 1 && s[1] >= 'a' && s[1] <= 'z') {
			return false
		}
	}
	return true
}

// isFine reports whether a character is fine in all file systems and in references.
func isFine(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c < utf8.RuneSelf && strings.ContainsRune("-._+=@,", c)
}

// isReserved reports whether a name is one of a device on Windows, with or without an extension.
func isReserved(name string) bool {
	name, _, _ = strings.Cut(name, ".")
	switch name {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(name) == 4 && (name[:3] == "com" || name[:3] == "lpt") && name[3] >= '0' && name[3] <= '9'
}

// hashed returns a name with what is readable of one text and a hash of another.
func hashed(readable, text string) string {
	if decoded, err := url.PathUnescape(readable); err == nil && utf8.ValidString(decoded) {
		readable = decoded
	}
	var b strings.Builder
	for _, c := range readable {
		c = unicode.ToLower(c)
		if !isFine(c) && (c < utf8.RuneSelf || !unicode.In(c, unicode.Letter, unicode.Mark, unicode.Nd)) || c == '.' && b.Len() == 0 {
			c = '_'
		}
		if b.Len()+utf8.RuneLen(c) > maxCleaned {
			break
		}
		b.WriteRune(c)
	}
	name := b.String()
	if name == "" || isReserved(name) {
		name = "_" + name
	}
	sum := sha256.Sum256([]byte(text))
	return name + string(mark) + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10])[:12])
}

// Relative returns a reference from the file of one name to that of another.
func Relative(from, to string) string {
	a, b := strings.Split(from, "/"), strings.Split(to, "/")
	for len(a) > 1 && len(b) > 1 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for i := range b {
		b[i] = url.PathEscape(b[i])
	}
	return strings.Repeat("../", len(a)-1) + strings.Join(b, "/")
}
