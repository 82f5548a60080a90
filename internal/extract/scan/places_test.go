package scan

import (
	"bytes"
	"testing"

	"golang.org/x/net/html"
)

// placed returns the attributes of each start tag of a page by their places, as the tokenizer has
// them: the first of those with one name.
func placed(t *testing.T, page []byte) (tags [][]html.Attribute) {
	all := NewNames([]Element{{Name: Other, Want: Starts}}, nil)
	s := New(all, page, true)
	for s.Next() == Start {
		tag := []html.Attribute{}
		has := map[string]bool{}
		for _, p := range s.Places(nil) {
			key, value := page[p.Key:p.KeyEnd], page[p.Value:p.ValueEnd]
			name := lower(key)
			if !has[name] {
				tag = append(tag, html.Attribute{Key: name, Val: string(Value(value))})
			}
			has[name] = true
			around := page[p.Key:p.End]
			if !bytes.HasPrefix(around, key) || p.Quoted && around[len(around)-1] != page[p.Value-1] || !p.Assigned && p.End != p.KeyEnd {
				t.Fatalf("%q has the place %+v", page, p)
			}
		}
		tags = append(tags, tag)
		s.RawText()
	}
	return tags
}

// lower returns a name with the letters of ASCII in lower case.
func lower(key []byte) string {
	b := bytes.Clone(key)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func attributesOf(page []byte) (tags [][]html.Attribute) {
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return tags
		case html.StartTagToken, html.SelfClosingTagToken:
			tag := []html.Attribute{}
			has := map[string]bool{}
			for more := true; more; {
				var key, value []byte
				if key, value, more = z.TagAttr(); len(key) > 0 && !has[string(key)] {
					tag = append(tag, html.Attribute{Key: string(key), Val: string(value)})
					has[string(key)] = true
				}
			}
			tags = append(tags, tag)
		}
	}
}

func samePlaces(t *testing.T, page []byte) {
	t.Helper()
	if bytes.ContainsAny(page, "\x00") {
		return // of which the tokenizer makes less than the page has
	}
	got, want := placed(t, page), attributesOf(page)
	for i := range want {
		if i >= len(got) || len(got[i]) != len(want[i]) {
			t.Fatalf("%q: %q, want %q", page, got, want)
		}
		for k := range want[i] {
			if got[i][k] != want[i][k] {
				t.Fatalf("%q: %q, want %q", page, got, want)
			}
		}
	}
}

// FuzzPlaces: the places of attributes hold what the tokenizer finds.
func FuzzPlaces(f *testing.F) {
	for _, page := range []string{
		`<a href=x>`, `<A HREF = "x&amp;y" b='c"d' e f=g/ h/>`, `<a =b c==d e= f>`, `<a b=>`, `<a b=''c="">`, `<a b="c"d=e/>`,
		`<img src=a src=b><p class="x` + "\r\n" + `y">`, `<a/b/c=d>`, `<a b=c"d'e>`, `<style a=b>x</style><title c=d>`, `<br/>`,
	} {
		f.Add([]byte(page))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		if !bytes.Contains(bytes.ToLower(page), []byte("svg")) && !bytes.Contains(bytes.ToLower(page), []byte("math")) {
			samePlaces(t, page) // but for drawings, which the tokenizer alone does not know
		}
	})
}
