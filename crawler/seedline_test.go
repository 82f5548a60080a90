package crawler

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"urltree/crawler/weburl"
)

// TestSeedLines: what is the seed of a line, and why a line has none.
func TestSeedLines(t *testing.T) {
	for _, tt := range []struct{ line, seed, cause string }{
		{"http://a.test/x", "http://a.test/x", ""},
		{"  a.test/x \r", "http://a.test/x", ""},
		{"localhost", "http://localhost/", ""},
		{"", "", ""},
		{" \t ", "", ""},

		// comments
		{"# all of it", "", ""},
		{"  # all of it", "", ""},
		{"\t# all of it", "", ""},
		{"http://a.test/ # a remark, \"quoted\" and with blanks", "http://a.test/", ""},
		{"http://a.test/\t# a remark", "http://a.test/", ""},
		{"http://a.test/x#part", "http://a.test/x", ""},
		{"http://a.test/x#part # a remark", "http://a.test/x", ""},
		{"#part", "", ""},

		// columns
		{"http://a.test/\tseed\t0\ta title, \"quoted\"", "http://a.test/", ""},
		{"a.test \t x", "http://a.test/", ""},
		{"http://a.test/\t", "http://a.test/", ""},
		{"URL\tstate\treason", "", ""},
		{"\thttp://a.test/\t", "http://a.test/", ""},
		{"stored\thttp://a.test/", "", "no dot, colon or slash"},

		// what no URL has
		{"http://a.test/a b", "", "blank"},
		{"http://a.test/a\u00a0b", "", "blank"},
		{"http://a.test/ http://b.test/", "", "blank"},
		{`"http://a.test/"`, "", `begins with '"'`},
		{"'http://a.test/'", "", `begins with '\''`},
		{"(http://a.test/)", "", "begins with '('"},
		{"<http://a.test/>", "", "begins with '<'"},
		{"“http://a.test/”", "", "begins with '“'"},
		{"«http://a.test/»", "", "begins with '«'"},
		{"*.a.test", "", "begins with '*'"},
		{`{"url":"http://a.test/"}`, "", "begins with '{'"},
		{`http://a.test/"x"`, "", `'"' there; write it as %22`},
		{"http://a.test/<x>", "", "'<' there; write it as %3C"},
		{"http://a.test/{x}", "", "'{' there; write it as %7B"},
		{"http://a.test/x^y", "", "'^' there; write it as %5E"},
		{`http:\\a.test\`, "", `'\\' there`},
		{"http://a.test/\x00", "", "U+0000"},
		{"h\x00t\x00", "", "U+0000"}, // UTF-16 without a mark
		{"\ufeffhttp://a.test/", "", "U+FEFF"},
		{"http://a.test/\u200b", "", "U+200B"},
		{"http://a.test/caf\xe9", "", "neither UTF-8"},
		{"http://me:sec\"ret@a.test/", "", "write it as %XX"},

		// what some have
		{"http://a.test/it's(1)!*;,", "http://a.test/it's(1)!*;,", ""},
		{"http://a.test/?x={a|b}^`\\", "http://a.test/?x={a|b}^`\\", ""},
		{"http://a.test/L’Équipe", "http://a.test/L%E2%80%99%C3%89quipe", ""},
		{"http://a.test/نامه\u200cای", "http://a.test/%D9%86%D8%A7%D9%85%D9%87%E2%80%8C%D8%A7%DB%8C", ""},
		{"bücher.test", "http://xn--bcher-kva.test/", ""},
		{"[::1]:8080/", "http://[::1]:8080/", ""},
		{"//a.test/x", "http://a.test/x", ""},
		{"//me:pass@a.test", "http://me:pass@a.test/", ""},
		{"http://a.test/x|y[1]", "http://a.test/x|y[1]", ""},
		{"mailto:a@a.test", "", "not an http(s) URL"},
		{"http://a.test:http/", "", "not a valid URL"},
	} {
		seed, err := seedOf(tt.line)
		if seed != tt.seed || (err == nil) != (tt.cause == "") || err != nil && !strings.Contains(err.Error(), tt.cause) {
			t.Errorf("%q: %q, %v; want %q, %s", tt.line, seed, err, tt.seed, tt.cause)
		}
	}
}

// TestSkippedLinesHideLogins: what is told of a line that is skipped has no password.
func TestSkippedLinesHideLogins(t *testing.T) {
	for _, line := range []string{
		"http://me:secret@a b.test/", "http://me:sec ret@a.test/", "http://me:sec #ret@a.test/", "http://me:sec\tret@a.test/",
		"http://me:sec<ret@a.test/", "ftp://me:secret@a.test/", "me:secret@a.test:x/", " \"me:secret@a.test/\"",
		"http://me:sec#ret@a.test/", "http://me:sec/ret@a.test/", "me:se:c#ret@a.test/", "http://me:ret\"@a.test",
	} {
		told := 0
		for seed, err := range ScanSeeds(strings.NewReader(line+"\n"), func(n int, text string, err error) {
			told = n
			if all := text + err.Error(); strings.Contains(all, "sec") || strings.Contains(all, "ret") || strings.Contains(all, "me:") {
				t.Errorf("%q: %q, %v", line, text, err)
			}
		}) {
			t.Errorf("%q is the seed %q, %v", line, seed, err)
		}
		if told != 1 {
			t.Errorf("%q: nothing is told", line)
		}
	}
}

// TestCanonicalURLsAreSeeds: each line of res.txt and of an export is a seed, that of its URL.
func TestCanonicalURLsAreSeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.OneOf(
			rapid.Rune(), rapid.RuneFrom([]rune("/?&=%'\"\\^`{|}[]@:;!()*,~<>.")))).Draw(t, "text")
		url, err := weburl.Canonical("http://a.test/" + string(text))
		if err != nil {
			t.Skip("no URL")
		}
		if seed, err := seedOf(url + "\tseed\t0\tx"); seed != url {
			t.Fatalf("%q: %q, %v", url, seed, err)
		}
	})
}

// TestSeedColumns: a list of our own is a seed file.
func TestSeedColumns(t *testing.T) {
	const list = "URL\tstate\treason\nhttp://a.test/\tstored\t-\nhttp://a.test/x?\tfailed\thttp-4xx\n"
	seeds, err := ReadSeeds(strings.NewReader(list), func(n int, text string, err error) { t.Errorf("%d: %q: %v", n, text, err) })
	if want := []string{"http://a.test/", "http://a.test/x?"}; err != nil || !slices.Equal(seeds, want) {
		t.Errorf("%q, %v; want %q", seeds, err, want)
	}
}
