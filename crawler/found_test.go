package crawler_test

import (
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/crawler/weburl"
)

// A reply is one page of a foundSite. Its first lines, up to an empty one, are headers.
type reply string

// foundPages crawls a site whose pages these are from the page "/" and returns the paths stored,
// with query, in order. That each page gives the same links from its folder is checked.
func foundPages(t *testing.T, pages map[string]reply, change func(*crawler.Options)) []string {
	t.Helper()
	origin := hosts(t, 1, func(_ int, rw http.ResponseWriter, r *http.Request) {
		text, ok := pages[r.URL.RequestURI()]
		if !ok {
			http.NotFound(rw, r)
			return
		}
		status := http.StatusOK
		head, body, _ := strings.Cut(string(text), "\n\n")
		for line := range strings.SplitSeq(head, "\n") {
			if name, value, ok := strings.Cut(line, ": "); ok {
				rw.Header().Add(name, value)
				if name == "Content-Type" {
					rw.Header().Set(name, value)
				}
				if name == "Location" {
					status = http.StatusFound
				}
			}
		}
		rw.WriteHeader(status)
		io.WriteString(rw, strings.ReplaceAll(body, "ORIGIN", r.Host))
	}, string(pages["/robots.txt"]))[0]
	dir := t.TempDir()
	opts := crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Seeds:      []string{origin + "/"},
		Politeness: crawler.Politeness{Delay: -1},
		HTTP:       crawler.HTTP{AllowPrivate: true},
	}
	if change != nil {
		change(&opts)
	}
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	requireChecked(t, dir)
	var paths []string
	for _, url := range crawled(t, filepath.Join(dir, "res.txt")) {
		paths = append(paths, strings.TrimPrefix(url, origin))
	}
	slices.Sort(paths)
	return paths
}

// TestFoundPages: what a page names in its headers, encoding and markup is found, by the crawl and
// by whoever reads the page from its folder.
func TestFoundPages(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pages  map[string]reply
		change func(*crawler.Options)
		want   string
	}{
		{
			name: "bytes that are no UTF-8 in headers",
			pages: map[string]reply{
				"/":    "Link: </\xe9?\xe9>; rel=next\nLink: </\u00e9>; rel=next\n\n<a href=/moved>",
				"/%E9": "\n\n", "/moved": "Location: /caf\xe9?x=\xe9\n\n",
				"/caf%E9?x=%E9": "\n\nx", "/%E9?%E9": "\n\nx", "/%C3%A9": "\n\nx",
			},
			want: "/ /%C3%A9 /%E9?%E9 /caf%E9?x=%E9",
		},
		{
			name: "bytes that are no UTF-8 in robots.txt",
			pages: map[string]reply{
				"/robots.txt": "User-agent: *\nDisallow: /\xe9\nSitemap: /\xe8",
				"/":           "\n\n<a href=/%E9x><a href=/%E8x><a href=/%EF%BF%BD>",
				"/%E8":        "Content-Type: text/plain\n\nhttp://ORIGIN/named", "/named": "\n\nx",
				"/%E9x": "\n\nx", "/%E8x": "\n\nx", "/%EF%BF%BD": "\n\nx",
			},
			want: "/ /%E8x /%EF%BF%BD /named",
		},
		{
			name: "encodings that a page tells late, or does not tell",
			pages: map[string]reply{
				"/":            "Content-Type: text/html\n\n<a href=/late><a href=/xhtml><a href=/none><a href=/declared>",
				"/late":        reply("Content-Type: text/html\n\n" + strings.Repeat("<p>", 1000) + "<meta charset=windows-1251><a href=/1\xe9?\xe9>"),
				"/xhtml":       "Content-Type: application/xhtml+xml\n\n<html xmlns='http://www.w3.org/1999/xhtml'><a href='/2\u00e9?\u00e9'/></html>",
				"/none":        reply("Content-Type: text/html\n\n" + strings.Repeat("<p>", 1000) + "<a href=/3\u00e9?\u00e9>"),
				"/declared":    "Content-Type: text/html\n\n<?xml version='1.0' encoding='koi8-r'?><a href=/4\xc4>",
				"/1%D0%B9?%E9": "\n\nx", "/2%C3%A9?%C3%A9": "\n\nx", "/3%C3%A9?%C3%A9": "\n\nx", "/4%D0%B4": "\n\nx",
			},
			want: "/ /1%D0%B9?%E9 /2%C3%A9?%C3%A9 /3%C3%A9?%C3%A9 /4%D0%B4 /declared /late /none /xhtml",
		},
		{
			name: "links of headers",
			pages: map[string]reply{
				"/":     "Link: </next>; rel=next, </pre.css>; rel=preload, </dup>; rel=duplicate, </api>; rel=alternate; type=application/json\nRefresh: 5; url=/refreshed\n\n",
				"/next": "\n\nx", "/refreshed": "\n\nx", "/pre.css": "\n\nx", "/dup": "\n\nx", "/api": "\n\nx",
			},
			want: "/ /next /refreshed",
		},
		{
			name: "alternates of types that are not read",
			pages: map[string]reply{
				"/": "\n\n<link rel=alternate type=application/json href=/json><link rel=alternate type='text/xml+oembed' href=/oembed>" +
					"<link rel=alternate hreflang=de href=/de><link rel=alternate type='text/html; charset=x' href=/html><link rel='next alternate' type=a/b href=/next>",
				"/json": "\n\nx", "/oembed": "\n\nx", "/de": "\n\nx", "/html": "\n\nx", "/next": "\n\nx",
			},
			want: "/ /de /html /next",
		},
		{
			name: "alternates of types that are accepted",
			pages: map[string]reply{
				"/":     "Link: </api>; rel=alternate; type=application/json\n\n<link rel=alternate type=application/json href=/json>",
				"/json": "Content-Type: application/json\n\n{}", "/api": "Content-Type: application/json\n\n{}",
			},
			change: func(o *crawler.Options) { o.Accept = []string{"text/html", "application/json"} },
			want:   "/ /api /json",
		},
		{
			name: "a page in an iframe",
			pages: map[string]reply{
				"/": "\n\n<base href=/d/><iframe srcdoc=\"<a href=in1><base href=/b/><a href=in2><meta http-equiv=refresh content='0;in3'>" +
					"<iframe srcdoc='&lt;a href=in4>'></iframe><title>no\" src=/no></iframe><iframe srcdoc='<meta name=robots content=nofollow><a href=/no>'></iframe><a href=in5>",
				"/b/in1": "\n\nx", "/b/in2": "\n\nx", "/b/in3": "\n\nx", "/b/in4": "\n\nx", "/d/in5": "\n\nx", "/no": "\n\nx",
			},
			want: "/ /b/in1 /b/in2 /b/in3 /b/in4 /d/in5",
		},
		{
			name: "XHTML sent as XML, where it is accepted",
			pages: map[string]reply{
				"/":      "\n\n<a href=/xhtml><a href=/other>",
				"/xhtml": "Content-Type: application/xml\n\n<?xml version='1.0'?><!DOCTYPE html><html xmlns='http://www.w3.org/1999/xhtml'><a href='/in'/></html>",
				"/other": "Content-Type: text/xml\n\n<html><a href='/no'/></html>",
				"/in":    "\n\nx", "/no": "\n\nx",
			},
			change: func(o *crawler.Options) { o.Accept = []string{"text/html", "application/xml", "text/xml"} },
			want:   "/ /in /other /xhtml",
		},
		{
			name: "XHTML sent as XML, where that is not accepted",
			pages: map[string]reply{
				"/":      "\n\n<a href=/xhtml>",
				"/xhtml": "Content-Type: application/xml\n\n<html xmlns='http://www.w3.org/1999/xhtml'><a href='/in'/></html>",
				"/in":    "\n\nx",
			},
			want: "/",
		},
		{
			name: "assets",
			pages: map[string]reply{
				"/": "Link: </pre.css>; rel=preload\n\n<p style='background:url(/1)'><style>@import '/2';</style><div data-bg=/3.x><iframe srcdoc='<i style=\"background:url(/4)\">'></iframe>" +
					"<svg><image href=/5 /></svg><link rel=manifest href=/6><link rel=preload imagesrcset='/7 1x'><body background=/8><img data-lazy-srcset='/9 1x' src=data:x>",
				"/1": "\n\nx", "/2": "Content-Type: text/css\n\n@charset \"gbk\";a{b:url(/\xc4\xe3)}", "/3.x": "\n\nx", "/4": "\n\nx", "/5": "\n\nx",
				"/6": "\n\nx", "/7": "\n\nx", "/8": "\n\nx", "/9": "\n\nx", "/%E4%BD%A0": "\n\nx", "/pre.css": "\n\nx",
			},
			change: func(o *crawler.Options) { o.Assets = true },
			want:   "/ /%E4%BD%A0 /1 /2 /3.x /4 /5 /6 /7 /8 /9 /pre.css",
		},
		{
			name: "a folder in other spellings",
			pages: map[string]reply{
				"/": "Location: /%7efoo/\n\n", "/%7efoo/": "\n\n<a href=/~foo/a><a href=/%7Efoo/b><a href=/%7efo%6f/c><a href=/~bar/d>",
				"/~foo/a": "\n\nx", "/%7Efoo/b": "\n\nx", "/%7efo%6f/c": "\n\nx", "/~bar/d": "\n\nx",
			},
			change: func(o *crawler.Options) { o.Scope, o.Seeds[0] = scope.Prefix, o.Seeds[0]+"%7efoo/" },
			want:   "/%7Efoo/b /%7efo%6f/c /%7efoo/ /~foo/a",
		},
		{
			name: "path parameters",
			pages: map[string]reply{
				"/":  "\n\n<a href='/a;jsessionid=1'><a href='/a;jsessionid=2'><a href='/b;v=1;jsessionid=2?jsessionid=3'>",
				"/a": "\n\nx", "/b;v=1": "\n\nx",
			},
			change: func(o *crawler.Options) { o.Strip = weburl.Strip{Params: []string{"jsessionid"}} },
			want:   "/ /a /b;v=1",
		},
		{
			name: "a feed sent as JSON",
			pages: map[string]reply{
				"/":     "\n\n<link rel=alternate type=application/feed+json href=/f><a href=/data>",
				"/f":    "Content-Type: application/json\n\n" + `{"version":"https://jsonfeed.org/version/1","items":[{"url":"/in"}]}`,
				"/data": "Content-Type: application/json\n\n" + `{"items":[{"url":"/not"}]}`,
				"/in":   "\n\nx",
				"/not":  "\n\nx",
			},
			want: "/ /in",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(foundPages(t, tt.pages, tt.change), " "); got != tt.want {
				t.Errorf("stored %s, want %s", got, tt.want)
			}
		})
	}
}

// TestLargeJSON: of JSON that is no feed only the beginning is read.
func TestLargeJSON(t *testing.T) {
	t.Parallel()
	reasons := map[string]string{}
	var mu sync.Mutex
	pages := map[string]reply{
		"/":     "\n\n<a href=/data><a href=/feed>",
		"/data": reply("Content-Type: application/json\n\n[" + strings.Repeat("1,", 1<<20) + "1]"),
		"/feed": reply("Content-Type: application/json\n\n" + `{"version":"https://jsonfeed.org/version/1","items":[` + strings.Repeat(`{"url":"/"},`, 1<<17) + "{}]}"),
	}
	foundPages(t, pages, func(o *crawler.Options) {
		o.MaxSize = 1 << 20
		o.OnOutcome = func(out crawler.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			reasons[out.URL[strings.LastIndexByte(out.URL, '/'):]] = out.Reason
		}
	})
	if reasons["/data"] != "type" || reasons["/feed"] != "too-large" {
		t.Errorf("refused for %q, want type and too-large", reasons)
	}
}

// TestHeaderLinksToldAll: OnPage is told of all links of headers, those that nothing follows, too.
func TestHeaderLinksToldAll(t *testing.T) {
	t.Parallel()
	var got []string
	pages := map[string]reply{
		"/": "Link: </dup>; rel=\"Duplicate x\", </next>; rel=next, </style>; rel=preload\nRefresh: 1; /later\n\n<link rel=alternate type=a/b href=/other><a href=/a>",
	}
	foundPages(t, pages, func(o *crawler.Options) {
		o.OnPage = func(p crawler.Page) error {
			for _, l := range p.Links {
				got = append(got, l.Element+l.URL[strings.LastIndexByte(l.URL, '/'):]+" "+l.Rel)
			}
			return nil
		}
	})
	want := []string{"header/dup duplicate x", "header/next next", "header/style preload", "header/later ", "a/a ", "link/other alternate"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
