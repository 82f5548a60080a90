package extract

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"urltree/internal/extract/scan"
)

// distinct makes a tag of n different attributes.
func distinct(n int) string {
	var b strings.Builder
	b.WriteString("<b")
	for i := range n {
		fmt.Fprintf(&b, " a%x", i)
	}
	return b.String() + ">"
}

// hostile makes pages of about n bytes that ask for as much work as they can.
var hostile = []struct {
	name string
	page func(n int) string
}{
	{"less-than signs", func(n int) string { return strings.Repeat("<", n) }},
	{"ampersands", func(n int) string { return "<title>" + strings.Repeat("&", n) }},
	{"ampersands in an attribute", func(n int) string { return "<a href='" + strings.Repeat("&a", n/2) + "'>" }},
	{"character references", func(n int) string { return "<h1>" + strings.Repeat("&lt", n/3) }},
	{"nested quotes", func(n int) string {
		return "<a " + strings.Repeat(`'"`, n/2) + ">" + strings.Repeat(`<a href="'`, n/10)
	}},
	{"comments not ended", func(n int) string { return strings.Repeat("<!--", n/4) }},
	{"declarations not ended", func(n int) string { return strings.Repeat("<!DOCTYP", n/8) + strings.Repeat("<![CDATA", n/8) }},
	{"raw text not ended", func(n int) string { return "<title>" + strings.Repeat("</titl", n/6) }},
	{"scripts not ended", func(n int) string { return strings.Repeat("<script><!--<script", n/20) }},
	{"tags", func(n int) string { return strings.Repeat("<b>", n/3) }},
	{"tags of one attribute", func(n int) string { return strings.Repeat("<a x>", n/5) }},
	{"the same attribute", func(n int) string { return "<a" + strings.Repeat(" x", n/2) + ">" }},
	{"attributes", func(n int) string { return distinct(n / 8) }},
	{"attributes, then tags", func(n int) string { return distinct(n/40) + strings.Repeat("<b x>", n/5) }},
	{"nested elements", func(n int) string { return strings.Repeat("<div>", n/5) }},
	{"nested noscript", func(n int) string { return strings.Repeat("<noscript><template>", n/20) }},
	{"nested drawings", func(n int) string { return strings.Repeat("<svg><math><![CDATA[<a href=x>]]>", n/33) }},
	{"elements of a drawing", func(n int) string { return "<svg>" + strings.Repeat("<g></x>", n/7) }},
	{"style attributes", func(n int) string { return strings.Repeat("<b style='a:url(x)'>", n/20) }},
	{"style element", func(n int) string { return "<style>" + strings.Repeat("a{b:url(x)}", n/11) }},
	{"style not ended", func(n int) string { return "<style>(" + strings.Repeat(`url(\2 \'`, n/9) }},
	{"documents", func(n int) string {
		return "<base href='/" + strings.Repeat("b", 1000) + "/'>" + strings.Repeat("<iframe srcdoc='<a href=x>'>", n/28)
	}},
	{"lazy loading", func(n int) string { return strings.Repeat("<b data-src=/x data-bg=url(x)>", n/30) }},
	{"headings", func(n int) string { return strings.Repeat("<h1>x</h1>", n/10) }},
	{"link texts", func(n int) string { return strings.Repeat("<a href>x", n/9) }},
	{"white space", func(n int) string { return "<h1>" + strings.Repeat(" \r\n\x00", n/4) }},
	{"srcset", func(n int) string { return "<img srcset='" + strings.Repeat(",", n) + "'>" }},
	{"srcset candidates", func(n int) string { return "<img srcset='" + strings.Repeat("x 1w,", n/5) + "'>" }},
	{"srcset brackets", func(n int) string { return "<img srcset='" + strings.Repeat("x (,", n/4) + "'>" }},
	{"refresh", func(n int) string {
		return "<meta http-equiv=refresh content='" + strings.Repeat("0", n/2) + ";" + strings.Repeat("url=", n/8) + "'>"
	}},
	{"robots", func(n int) string { return "<meta name=robots content='" + strings.Repeat("a:,", n/3) + "'>" }},
	{"words of rel", func(n int) string { return "<link href=x rel='" + strings.Repeat("a ", n/2) + "'>" }},
	{"references", func(n int) string { return strings.Repeat("<a href='é{'>", n/14) }},
	{"queries", func(n int) string { return strings.Repeat("<a href='?"+strings.Repeat("é", 500)+"'>", n/1012) }},
	{"hosts", func(n int) string { return strings.Repeat("<a href='//"+strings.Repeat("é.", 300)+"'>", n/913) }},
	{"user names", func(n int) string { return strings.Repeat("<a href='//"+strings.Repeat("@", 900)+"'>", n/913) }},
	{"a long base", func(n int) string {
		return "<base href='/" + strings.Repeat("b", 8000) + "/'>" + strings.Repeat("<a href='é"+strings.Repeat("é", 100)+"'>", n/213)
	}},
}

// TestHostileTime: four times as much of anything takes about four times as long, so nothing
// grows with the square.
func TestHostileTime(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time: not with -short")
	}
	const n = 25_000
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			small, large := []byte(tt.page(n)), []byte(tt.page(4*n))
			f := Facts{URL: pageURL, Media: "text/html", Charset: "gbk"}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			took := func(body []byte) time.Duration {
				start := threadTime(t)
				Parse(f, body, Options{Assets: true})
				return threadTime(t) - start
			}
			once, much := time.Hour, time.Hour
			for range 30 { // memory may have been collected meanwhile
				once, much = min(once, took(small)), min(much, took(large))
				if much < 12*max(once, 50*time.Microsecond) {
					return
				}
			}
			t.Errorf("%d bytes take %v, 4 times as much %v", len(small), once, much)
		})
	}
}

// threadTime returns the time that the processor has spent on this thread, whatever else the
// machine does.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Nano())
}

// TestBudget: a page is given up at the same place whatever it is read from and however often,
// and what it has by then is the beginning of what it has with more to spend.
func TestBudget(t *testing.T) {
	const n = 5000
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(strings.Repeat("<a href='é'>", 10) + tt.page(n))
			o := Options{Assets: true}
			f := pageFacts
			whole := new(Parser).parse(f, body, o, maxSteps)
			var before []Link
			for steps := 1 << 10; ; steps *= 4 {
				r := new(Parser).parse(f, body, o, steps)
				if r.Exhausted && r.Charset == "" || len(r.Links) < len(before) || !slices.Equal(r.Links, whole.Links[:len(r.Links)]) {
					t.Fatalf("with %d steps %d links, exhausted %v; %d before, %d in all", steps, len(r.Links), r.Exhausted, len(before), len(whole.Links))
				}
				given := f
				given.Charset = r.Charset
				if diff := cmp.Diff(r, new(Parser).parse(given, body, o, steps)); diff != "" {
					t.Fatalf("with %d steps again:\n%s", steps, diff)
				}
				if before = r.Links; !r.Exhausted {
					if diff := cmp.Diff(whole, r); diff != "" {
						t.Errorf("not exhausted:\n%s", diff)
					}
					break
				}
			}
		})
	}
}

// TestExhausted: what no page may ask for, and what an honest page may.
func TestExhausted(t *testing.T) {
	long := `<base href="/` + strings.Repeat("b", 8000) + `/">`
	const size = 16 << 20
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for _, tt := range []struct {
		name, page string
		heavy      bool // takes seconds
		exhausted  bool
		links      int // if not exhausted
	}{
		{"attributes", distinct(100_000) + "<a href=x>", false, false, 1},
		{"text in a template", "<script type=x><a title='" + strings.Repeat("y ", 100_000) + "'></script><a href=x>", false, false, 1},
		{"words in an attribute", "<a title='" + strings.Repeat("y=/ ", 100_000) + "' href=x>", false, false, 1},
		{"prose", strings.Repeat("text ", size/5-100) + strings.Repeat("<a href=x>", 10), true, false, 10},
		{"a tag where a text is parted", strings.Repeat("x", scan.MaxToken-1) + "<a href=x>" + strings.Repeat("y", 12) + "<a href=y>", false, false, 2},
		{"a long base", long + strings.Repeat("<a href='"+strings.Repeat("é", 100)+"'>", 140_000), true, true, 0},
		{"long hosts", fill("<a href='//" + strings.Repeat("é.", 2000) + "'>"), true, true, 0},
		{"an honest page", strings.Repeat("<li class=item><a class='link' href=\"../wiki/Page?action=view#top\" title='Page'>Page</a> text\n", 180_000), true, false, 180_000},
		{"an honest table", strings.Repeat("<tr><td>1<td>2<td>3\n", size/20), true, false, 0},
		{"honest links elsewhere", strings.Repeat("<a href='https://www.example.com/a/b/cccccccccccccccccccccccccccccccccc'>", 200_000), true, false, 200_000},
		{"honest links in other words", strings.Repeat("<a href='http://bücher.example.com/äöüäöüäöüäöüäöüäöü'>x</a>", 200_000), true, false, 200_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.heavy && !full() {
				t.Skip("set TEST_URLTREE_FULL=1 to run it")
			}
			start := time.Now()
			f := pageFacts
			f.Charset = "utf-8"
			r := Parse(f, []byte(tt.page), Options{})
			if r.Exhausted != tt.exhausted || r.Cut || !tt.exhausted && len(r.Links) != tt.links {
				t.Errorf("exhausted %v, %d links, cut %v", r.Exhausted, len(r.Links), r.Cut)
			}
			t.Logf("%d bytes, %v", len(tt.page), time.Since(start))
		})
	}
}

// TestWorkOf: what costs the parser much is charged for, in any spelling of a reference.
func TestWorkOf(t *testing.T) {
	for _, tt := range []struct{ name, ref, host string }{
		{"path", "a/b", ""},
		{"absolute path", "/a", ""},
		{"host", "//é.org:80/x", "é.org:80"},
		{"backslashes", `/\é?x`, "é"},
		{"tabs between", "/\t/é#x", "é"},
		{"spaces before", " \n//é", "é"},
		{"scheme", "HTTP://u@h/", "u@h"},
		{"scheme without slashes", "http:é/x", "é"},
		{"colon in a path", "é:x", ""},
		{"empty", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := authority(tt.ref); got != tt.host {
				t.Errorf("authority(%q) = %q, want %q", tt.ref, got, tt.host)
			}
			want := 7 + stepsRef*len(tt.ref) + stepsHost*len(tt.host)
			if got := workOf(tt.ref, 7); got != want {
				t.Errorf("workOf(%q) = %d, want %d", tt.ref, got, want)
			}
		})
	}
	if a, b := workOf("//a-1.example.org/", 0), workOf("/a-1.example.org//", 0); a != b {
		t.Errorf("a plain host costs %d, a path %d", a, b)
	}
	if a, b := workOf(strings.Repeat("a", maxRefWork), 0), workOf(strings.Repeat("a", 1<<20), 0); a != b {
		t.Errorf("a reference that is given up at once costs %d, one that is not %d", b, a)
	}
}

// TestMostWork: what many references cost together is never more than mostWork says of them.
func TestMostWork(t *testing.T) {
	refs := []string{
		"", "#", "a", "../a.html", "http://a.org/b?c=d", "//u:p@host/", "http://xn--a.org/", "http://xn--xn--/%41", "@", "%", "é", "http:é",
		"https://ééé.org", strings.Repeat("é", 9000), "http://" + strings.Repeat("@", 9000), "a-b-c", "//" + strings.Repeat("%2f", 500),
	}
	for _, base := range []int{1, 20, 8192} {
		sum, bytes := 0, 0
		for i, ref := range refs {
			sum, bytes = sum+workOf(ref, base), bytes+len(ref)
			if one := workOf(ref, base); one > mostWork(len(ref), 1, base) || sum > mostWork(bytes, i+1, base) {
				t.Errorf("%.20q and those before, base of %d bytes: %d, %d together; most %d", ref, base, one, sum, mostWork(bytes, i+1, base))
			}
		}
	}
}
