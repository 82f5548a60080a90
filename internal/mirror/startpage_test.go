package mirror

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	seedLine = regexp.MustCompile(`<li><a href="([^"]+)">([^<]+)</a>`)
	hostLine = regexp.MustCompile(`<tr><td><a href="([^"]+)">([^<]+)</a><td>([0-9]+)<td>([0-9]+)</tr>`)
)

// leads checks where the first pages lead to: seeds and hosts, with blanks between what is said.
func (v *visit) leads(when string, want ...string) {
	v.t.Helper()
	var got []string
	all := listed(v.t, v.dir)
	for n, name := 1, startName(1); all[name] != ""; n, name = n+1, startName(n+1) {
		for _, re := range []*regexp.Regexp{seedLine, hostLine} {
			for _, m := range re.FindAllStringSubmatch(all[name], -1) {
				if all[m[1]] == "" {
					v.t.Errorf("%s: %s leads to %s, which is not there", when, name, m[1])
				}
				got = append(got, strings.Join(m[1:], " "))
			}
		}
		if next := `<a href="` + startName(n+1) + `">More`; strings.Contains(all[name], next) != (all[startName(n+1)] != "") {
			v.t.Errorf("%s: %s and the page behind it do not agree", when, name)
		}
	}
	if !slices.Equal(got, want) {
		v.t.Errorf("%s: %q, want %q", when, got, want)
	}
}

// TestStart: the first page leads to all that is in the folder, whichever runs have written it, and
// to nothing else.
func TestStart(t *testing.T) {
	v := &visit{t, filepath.Join(t.TempDir(), "copy")}
	seeds := []Entry{
		{Seed: "http://a/", Name: "http/a/index.html"},
		{Seed: "http://a/x/y?z", Name: "http/a/x/y_z~hash.html"},
		{Seed: "https://[::1]:81/", Name: "https/___1__81~hash/index.html"},
		{Seed: "http://b:80/", Name: "http/b_80/index.html"},
		last,
	}
	x := []string{"http/a/x/y_z~hash.html", "1", "http/a/x/index.css", "2", "http/a/x/a~/b.htm", "3"}
	v.run(Part{Name: "http://a/x/"}, x, seeds...)
	v.leads("a part", "http/a/x/y_z~hash.html http://a/x/y?z", "http/a/x/a~/b.htm http://a 2 1")
	v.run(Part{Name: "https://[::1]:81/"}, []string{"https/___1__81~hash/index.html", "1", "https/___1__81~hash/b.xhtml", "2"}, seeds...)
	v.leads("another one", "http/a/x/y_z~hash.html http://a/x/y?z", "https/___1__81~hash/index.html https://[::1]:81/",
		"http/a/x/a~/b.htm http://a 2 1", "https/___1__81~hash/index.html https://___1__81 2 0")
	v.run(Part{Timed: true}, []string{"http/a/index.html", "1", "http/a/b.html", "2", "http/b_80/a.png", "3"}, seeds...)
	v.leads("some pages of the last week", "http/a/index.html http://a/", "http/a/x/y_z~hash.html http://a/x/y?z", "https/___1__81~hash/index.html https://[::1]:81/",
		"http/a/index.html http://a 4 1", "http/b_80/a.png http://b:80 0 1", "https/___1__81~hash/index.html https://___1__81 2 0")
	v.run(Part{Name: "http://a/x/"}, x[2:], Entry{Stays: true, Name: "http/a/x/none.html"}, last)
	v.leads("the part again, without its page and seeds", "http/a/index.html http://a 3 1", "http/b_80/a.png http://b:80 0 1", "https/___1__81~hash/index.html https://___1__81 2 0")
	v.run(Part{}, []string{"http/b_80/index.html", "1"}, seeds...)
	v.leads("all", "http/b_80/index.html http://b:80/", "http/b_80/index.html http://b:80 1 0")
	v.has("all", "http/b_80/index.html")
}

// TestManyHosts: beyond so many hosts, or seeds, there are further pages, which go when they are
// not needed, and no more seeds.
func TestManyHosts(t *testing.T) {
	v := &visit{t, filepath.Join(t.TempDir(), "copy")}
	var files, want []string
	var seeds []Entry
	for n := range mostHosts + 1 {
		name := fmt.Sprintf("http/h%04d/index.html", n)
		files = append(files, name, "1")
		seeds = append(seeds, Entry{Seed: fmt.Sprintf("http://h%04d/", n), Name: name})
		if n < mostSeeds {
			want = append(want, fmt.Sprintf("%s http://h%04d/", name, n))
		}
	}
	for n := range mostHosts + 1 {
		want = append(want, fmt.Sprintf("http/h%04d/index.html http://h%04d 1 0", n, n))
	}
	v.run(Part{Name: "p"}, files, append(seeds, last)...)
	v.leads("many", want...)
	v.run(Part{Name: "q"}, files[:2], append(seeds, last)...)
	v.leads("many, and of another part a file that is there", want...)
	if n := v.run(Part{Name: "p"}, files[:2], seeds[0], last); n != mostHosts+1 {
		t.Errorf("%d files removed", n)
	}
	v.leads("one", want[0], want[mostSeeds])
}
