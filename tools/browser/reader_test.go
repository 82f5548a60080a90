package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/chromedp/chromedp"
)

// reading is the package of npm that finds the articles of the reader view of Firefox.
const reading = "@mozilla/readability@0.6.0"

// counted returns how often a text has each word.
func counted(text string) map[string]int {
	words := map[string]int{}
	for w := range strings.FieldsFuncSeq(text, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }) {
		words[strings.ToLower(w)]++
	}
	return words
}

// shared returns which part of the words of two texts they have in common.
func shared(a, b string) float64 {
	in, of := counted(a), counted(b)
	common, all := 0, 0
	for w, n := range in {
		common += min(n, of[w])
		all += n
	}
	for _, n := range of {
		all += n
	}
	return 2 * float64(common) / float64(max(all, 1))
}

// TestMainText: the main texts of pages are what the reader view of a browser shows of them, and
// are not all of their text.
func TestMainText(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(fetched(t, reading, "Readability.js"), "Readability.js"))
	if err != nil {
		t.Fatal(err)
	}
	folder := corpus(t)
	ctx, _ := browse(t)
	w := newWeb(t, http.FileServer(http.Dir(folder)))
	pages := []string{"tutorial/datastructures.html", "howto/logging.html", "library/pathlib.html", "library/hashlib.html", "whatsnew/3.11.html", "using/windows.html", "faq/design.html", "glossary.html"}
	var seeds []string
	for _, p := range pages {
		seeds = append(seeds, w.origin+"/"+p)
	}
	w.crawl(append(seeds, "-max-depth", "0")...)
	texts := map[string]map[string]string{} // by -text and page
	for _, kind := range []string{"plain", "main"} {
		w.run("export", "-what", "pages", "-columns", "url,text", "-text", kind, "-output", kind+".jsonl")
		lines, err := os.ReadFile(filepath.Join(w.dir, kind+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		texts[kind] = map[string]string{}
		in := bufio.NewScanner(bytes.NewReader(lines))
		in.Buffer(nil, len(lines)+1)
		for in.Scan() {
			var page struct{ URL, Text string }
			if err := json.Unmarshal(in.Bytes(), &page); err != nil {
				t.Fatal(err)
			}
			texts[kind][page.URL] = page.Text
		}
	}
	for n, p := range pages {
		if err := chromedp.Do(ctx, chromedp.Navigate(seeds[n])); err != nil {
			t.Fatal(err)
		}
		view := evaluate(t, ctx, string(script)+";new Readability(document.cloneNode(true)).parse().textContent")
		main, plain := shared(texts["main"][seeds[n]], view), shared(texts["plain"][seeds[n]], view)
		t.Logf("%s: main %.3f, plain %.3f, %d words", p, main, plain, len(counted(view)))
		if main < 0.97 || plain >= main {
			t.Errorf("%s: the main text shares %.3f of its words with the reader view, all of the text %.3f", p, main, plain)
		}
	}
}
