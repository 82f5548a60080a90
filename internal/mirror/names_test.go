package mirror

import (
	"net/url"
	"path"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"urltree/crawler/weburl"
)

func TestName(t *testing.T) {
	long := strings.Repeat("long-", 40)
	for _, tt := range []struct{ url, media, want string }{
		{"https://example.org/", "text/html", "https/example.org/index.html"},
		{"https://example.org/index.html", "text/html", "https/example.org/index~.html"},
		{"https://example.org/index", "text/html", "https/example.org/index~HASH.html"},
		{"https://example.org/index.htm", "text/html", "https/example.org/index~.htm"},
		{"http://example.org:8080/docs/a.html", "text/html", "http/example.org_8080/docs/a.html"},
		{"http://example.org/docs/a", "text/html", "http/example.org/docs/a~.html"},
		{"http://example.org/docs/a", "", "http/example.org/docs/a~.bin"},
		{"http://example.org/docs/A", "text/html", "http/example.org/docs/a~HASH.html"},
		{"http://example.org/README.HTML", "TEXT/HTML", "http/example.org/readme~HASH.html"},
		{"http://example.org/a.html/b.html/", "text/html", "http/example.org/a.html~/b.html~/index.html"},
		{"http://example.org/3.11/~me/", "text/html", "http/example.org/3.11/~me/index.html"},
		{"http://example.org/~1", "text/html", "http/example.org/_1~HASH.html"},
		{"http://example.org/a~.html", "text/html", "http/example.org/a_~HASH.html"},
		{"http://example.org/x.php?id=3&lang=en", "text/html", "http/example.org/x.php_id=3_lang=en~HASH.html"},
		{"http://example.org/x.html?", "text/html", "http/example.org/x_~HASH.html"},
		{"http://example.org/?q", "text/html", "http/example.org/_q~HASH.html"},
		{"http://example.org/x.php", "application/octet-stream", "http/example.org/x.php~.bin"},
		{"http://example.org/x.html", "text/plain", "http/example.org/x.html~.txt"},
		{"http://example.org/x.tar.gz", "application/octet-stream", "http/example.org/x.tar.gz"},
		{"http://example.org/icons.woff2?v=1", "application/octet-stream", "http/example.org/icons_v=1~HASH.woff2"},
		{"http://example.org/feed", "application/rss+xml", "http/example.org/feed~.xml"},
		{"http://example.org/con/aux.html", "text/html", "http/example.org/_con~HASH/_aux~HASH.html"},
		{"http://example.org/COM1.x.html?y", "text/html", "http/example.org/_com1.x_y~HASH.html"},
		{"http://example.org/.htaccess", "text/plain", "http/example.org/_htaccess~HASH.txt"},
		{"http://example.org/a./b%20/%2e%2e%2F/", "text/html", "http/example.org/a.~HASH/b_~HASH/_._~HASH/index.html"},
		{"http://example.org//a", "text/css", "http/example.org/_~HASH/a~.css"},
		{"http://example.org/stra%C3%9Fe/%E6%97%A5%E6%9C%AC", "text/html", "http/example.org/straße~HASH/日本~HASH.html"},
		{"http://example.org/%FF", "image/png", "http/example.org/_ff~HASH.png"},
		{"http://a_80/", "text/html", "http/a_80~HASH/index.html"},
		{"http://a:80/", "text/html", "http/a_80/index.html"},
		{"http://[::1]:8080/", "text/html", "http/___1__8080~HASH/index.html"},
		{"http://example.zip/", "text/html", "http/example.zip/index.html"},
		{"http://example.org/" + long, "text/html", "http/example.org/" + long[:96] + "~HASH.html"},
		{"http://example.org/" + strings.Repeat("folder/", 100) + "x.css", "text/css", "http/example.org/" + strings.Repeat("folder/", 70) + strings.Repeat("folder_", 30)[:96] + "~HASH.css"},
	} {
		if got := Name(tt.url, tt.media); !isLike(got, tt.want) {
			t.Errorf("%s (%s) is %s, want %s", tt.url, tt.media, got, tt.want)
		}
	}
}

// isLike reports whether a name is one in which HASH stands for hashes.
func isLike(name, want string) bool {
	for before := range strings.SplitSeq(want, "HASH") {
		rest, ok := strings.CutPrefix(name, before)
		if !ok {
			return false
		}
		name = rest[min(len(rest), 12):]
		if strings.Contains(rest[:min(len(rest), 12)], "/") {
			return false
		}
	}
	return name == ""
}

// folded returns what is left of a name on a file system that folds case and forms of characters,
// and drops dots and blanks at the end.
func folded(name string) string {
	parts := strings.Split(cases.Fold().String(norm.NFKC.String(name)), "/")
	for i := range parts {
		parts[i] = strings.TrimRight(parts[i], ". ")
	}
	return strings.Join(parts, "/")
}

// A register holds names with their URLs, and finds those that cannot be on one disk.
type register struct {
	t       *testing.T
	files   map[string]string // URL, by folded name
	folders map[string]string
}

func newRegister(t *testing.T) *register {
	return &register{t, map[string]string{}, map[string]string{}}
}

func (r *register) add(url, media string) {
	r.t.Helper()
	name := Name(url, media)
	at := folded(name)
	if other, ok := r.files[at]; ok && other != url {
		r.t.Fatalf("%s and %s are both %s", other, url, name)
	}
	r.files[at] = url
	if other, ok := r.folders[at]; ok {
		r.t.Fatalf("%s is the file %s, a folder of %s", url, name, other)
	}
	for folder := path.Dir(at); folder != "."; folder = path.Dir(folder) {
		r.folders[folder] = url
		if other, ok := r.files[folder]; ok {
			r.t.Fatalf("%s is below %s, the file of %s", url, folder, other)
		}
	}
	if len(name) > maxFolders+1+143 {
		r.t.Fatalf("%s: a name of %d bytes", url, len(name))
	}
	for part := range strings.SplitSeq(name, "/") {
		stem, _, _ := strings.Cut(part, ".")
		switch {
		case part == "" || len(part) > 143 || part[0] == '.' || strings.TrimRight(part, ". ") != part:
			r.t.Fatalf("%s: %q is no name in %s", url, part, name)
		case strings.ContainsAny(part, `<>:"\|?*%#&'`) || strings.ContainsFunc(part, func(c rune) bool { return !unicode.IsPrint(c) && !unicode.In(c, unicode.Letter) }):
			r.t.Fatalf("%s: bad characters in %q", url, name)
		case isReserved(stem):
			r.t.Fatalf("%s: %q is reserved on Windows", url, part)
		}
	}
}

// sameFile fails unless a reference leads from the file of one URL to that of another.
func sameFile(t *testing.T, from, to string) {
	t.Helper()
	base := url.URL{Scheme: "file", Path: "/copy/" + from}
	ref := Relative(from, to)
	u, err := base.Parse(ref)
	if err != nil || u.Path != "/copy/"+to || u.RawQuery != "" || u.Fragment != "" {
		t.Fatalf("%s in %s leads to %v, not to %s: %v", ref, from, u, to, err)
	}
}

// parts are segments of URLs that are near to each other, or to a name that is made of another.
var parts = []string{
	"", "a", "A", "a.html", "A.html", "a.HTML", "a~.html", "a.html~", "a~", "~a", "~", "a~.css", "a.css", "a.htm", "a.", "a..", "%20", "a%20",
	"index", "index.html", "Index.html", "index~.html", "index.css", "index2.html", "con", "CON", "con.html", "nul.x", "%61", "%41", "a%2Fb", "a_b", "a+b",
	"%C3%A9", "e%CC%81", "%C3%89", "stra%C3%9Fe", "strasse", "%EF%AC%81", "fi", "%C4%B1", "i", "%FF", "x.tar.gz", "x.bin", "x.txt", ".x", "..x", ",", "-",
	strings.Repeat("x", 120), strings.Repeat("x", 121), strings.Repeat("x", 96), strings.Repeat("%E6%97%A5", 90),
}

// TestNamesDiffer makes names of all that can be put together of a few parts.
func TestNamesDiffer(t *testing.T) {
	r, from := newRegister(t), Name("http://a.example/x/y/z", "text/html")
	medias := []string{"text/html", "text/css", "text/plain", "", "image/svg+xml"}
	for _, folder := range parts {
		for _, file := range parts {
			for i, query := range []string{"", "?", "?a", "?A", "?a.html"} {
				plain := "http://a.example/" + file + query
				below := "http://a.example/" + folder + "/" + file + query
				r.add(plain, medias[i])
				r.add(below, medias[(len(folder)+len(file)+i)%len(medias)])
				sameFile(t, from, Name(below, ""))
				sameFile(t, Name(below, ""), from)
			}
		}
	}
	for _, host := range []string{"a", "a_80", "a:80", "a_80:80", "a_80_80", "a.", "[::1]", "[::1]:80", "con", "xn--strae-oqa.example", strings.Repeat("x.", 120) + "x"} {
		for _, scheme := range []string{"http", "https"} {
			r.add(scheme+"://"+host+"/", "text/html")
		}
	}
	folder := "http://deep.example/" + strings.Repeat("folder/", 71)
	for _, file := range append(parts, "f/f/f", "f/f/F", "f/f?f", "f?f/f") {
		r.add(folder+file, "text/html")
		r.add(folder+"b/"+file, "text/css")
	}
}

func FuzzName(f *testing.F) {
	for i, p := range parts {
		f.Add("http://a.example/"+p, "text/html", "http://A.example/"+parts[len(parts)-1-i]+"/"+p+"?"+p, "text/plain")
	}
	f.Fuzz(func(t *testing.T, one, oneMedia, two, twoMedia string) {
		one, err1 := weburl.Canonical(one)
		two, err2 := weburl.Canonical(two)
		if err1 != nil || err2 != nil {
			t.Skip()
		}
		r := newRegister(t)
		r.add(one, oneMedia)
		r.add(two, twoMedia)
		sameFile(t, Name(one, oneMedia), Name(two, twoMedia))
		sameFile(t, Name(two, twoMedia), Name(one, oneMedia))
	})
}
