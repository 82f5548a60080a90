package crawler_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/storage/record"
)

// A site map: the pages of one site with their depths and titles, found over HTTP. Nothing is kept
// on disk. Without Delay the crawl is as polite as the command.
func ExampleRun_siteMap() {
	server := httptest.NewServer(http.FileServerFS(os.DirFS("testdata/site")))
	defer server.Close()

	var mu sync.Mutex
	titles := map[string]string{}
	_, err := crawler.Run(context.Background(), crawler.Options{
		NoTree: true,
		Seeds:  []string{server.URL},
		Bounds: crawler.Bounds{Scope: scope.Host},
		Politeness: crawler.Politeness{
			Delay: -1, // it is our own server
		},
		OnPage: func(p crawler.Page) error {
			mu.Lock()
			defer mu.Unlock()
			titles[strings.TrimPrefix(p.URL, server.URL)] = fmt.Sprintf("%d %s", p.Depth, p.Meta.Title)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
	}
	for _, url := range sortedKeys(titles) {
		fmt.Println(url, titles[url])
	}
	// Output:
	// / 0 A garden
	// /trees/ 1 Trees
	// /trees/apple.html 2 Apple
	// /trees/pear.html 2 Pear
}

// A check for broken links, with the pages that have them. The pages come from a folder of files,
// by a Fetch of our own.
func ExampleRun_brokenLinks() {
	files := os.DirFS("testdata/site")
	const site = "http://site.example/"

	var mu sync.Mutex
	referrers, broken := map[string][]string{}, map[string]string{}
	_, err := crawler.Run(context.Background(), crawler.Options{
		NoTree: true,
		Seeds:  []string{site},
		Bounds: crawler.Bounds{Scope: scope.Host},
		Fetch: func(_ context.Context, url string) (crawler.Content, error) {
			name := strings.TrimPrefix(url, site)
			if strings.HasSuffix(url, "/") {
				name += "index.html"
			}
			body, err := fs.ReadFile(files, name)
			return crawler.Content{Body: body}, err
		},
		Edge: func(from, to string) {
			mu.Lock()
			defer mu.Unlock()
			referrers[to] = append(referrers[to], from)
		},
		OnOutcome: func(o crawler.Outcome) {
			if o.State == record.Failed {
				mu.Lock()
				defer mu.Unlock()
				broken[o.URL] = o.Reason
			}
		},
	})
	if err != nil {
		fmt.Println(err)
	}
	for _, url := range sortedKeys(broken) {
		slices.Sort(referrers[url])
		fmt.Println(url, broken[url], "on", referrers[url])
	}
	// Output:
	// http://site.example/trees/plum.html fetch on [http://site.example/ http://site.example/trees/]
}

// The link graph of a web in the format of source C, with its two pools and its queue size.
func ExampleRun_linkGraph() {
	web := map[string]string{
		"http://web.example/a": "link: b\nlink: c\nlink: b\n", // twice
		"http://web.example/b": "link: a\n",
		"http://web.example/c": "link: c\nlink: nowhere\n",
	}
	var mu sync.Mutex
	edges := map[string]int{}
	result, err := crawler.Run(context.Background(), crawler.Options{
		NoTree:    true,
		Seeds:     []string{"http://web.example/a"},
		Resources: crawler.Resources{Crawlers: 1, Downloads: 4, Parsers: 2, QueueSize: 1},
		Fetch: func(_ context.Context, url string) (crawler.Content, error) {
			text, ok := web[url]
			if !ok {
				return crawler.Content{}, errors.New("no such page")
			}
			return crawler.Content{Body: []byte(text), Media: crawler.LinkLines}, nil
		},
		Edge: func(from, to string) {
			mu.Lock()
			defer mu.Unlock()
			edges[path.Base(from)+" -> "+path.Base(to)]++
		},
	})
	if err != nil {
		fmt.Println(err)
	}
	for _, e := range sortedKeys(edges) {
		fmt.Println(e, edges[e])
	}
	fmt.Println(result.Run.Stored, "pages,", result.Ended)
	// Output:
	// a -> b 2
	// a -> c 1
	// b -> a 1
	// c -> c 1
	// c -> nowhere 1
	// 3 pages, nothing left
}

// A fetcher of our own, from a folder of files, into a tree that is kept: the second Run finds it
// and goes on with what the first one has left.
func ExampleRun_folder() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	opts := crawler.Options{
		Tree:   filepath.Join(dir, "iut"),
		Output: filepath.Join(dir, "res.txt"),
		Seeds:  []string{"http://site.example/index.html"},
		Limits: crawler.Limits{MaxPages: 2},
		Fetch: func(_ context.Context, url string) (crawler.Content, error) {
			name := strings.TrimPrefix(url, "http://site.example/")
			if strings.HasSuffix(name, "/") {
				name += "index.html"
			}
			body, err := os.ReadFile(filepath.Join("testdata/site", filepath.FromSlash(name)))
			return crawler.Content{Body: body}, err
		},
	}
	for range 2 {
		result, err := crawler.Run(context.Background(), opts)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d pages, %d in the tree: %s\n", result.Run.Stored, result.Total.Stored, result.Ended)
		opts.MaxPages = 0
	}
	body, err := os.ReadFile(filepath.Join(dir, "iut/pr-http/do-site/do-example/dr-trees/dr-apple.html/content.html"))
	fmt.Printf("%.20s %v\n", body, err)
	// Output:
	// 2 pages, 2 in the tree: page limit reached
	// 2 pages, 4 in the tree: nothing left
	// <title>Apple</title> <nil>
}

// A focused crawl: a link is worth what the page that has it says about the subject, so with five
// pages to spend none goes to what the cars lead to. BufferSize 1 makes what a page gives known
// before the page after the next one is chosen.
func ExampleRun_focused() {
	const site = "http://web.example/"
	web := map[string]string{
		"":        `<title>Home</title> <a href=cars>cars</a> <a href=gardens>gardens</a>`,
		"cars":    `<title>Cars</title> <a href=engine>engine</a> <a href=wheel>wheel</a>`,
		"gardens": `<title>Gardens</title> A tree is a tree. <a href=apple>apple</a> <a href=pear>pear</a>`,
		"apple":   `<title>Apple</title> A tree.`,
		"pear":    `<title>Pear</title> A tree.`,
		"engine":  `<title>Engine</title>`,
		"wheel":   `<title>Wheel</title>`,
	}
	var mu sync.Mutex
	worth, pages := map[string]int{}, map[string]string{}
	_, err := crawler.Run(context.Background(), crawler.Options{
		NoTree:    true,
		Seeds:     []string{site},
		Resources: crawler.Resources{Crawlers: 1, Downloads: 1, BufferSize: 1},
		Limits:    crawler.Limits{MaxPages: 5},
		Fetch: func(_ context.Context, url string) (crawler.Content, error) {
			return crawler.Content{Body: []byte(web[strings.TrimPrefix(url, site)])}, nil
		},
		OnPage: func(p crawler.Page) error {
			mu.Lock()
			defer mu.Unlock()
			worth[p.URL] = strings.Count(string(p.Body), "tree")
			pages[p.Meta.Title] = p.URL
			return nil
		},
		Score: func(c crawler.Candidate) float64 {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(c.URL, "garden") {
				return 10
			}
			return float64(worth[c.Source])
		},
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(sortedKeys(pages))
	// Output: [Apple Cars Gardens Home Pear]
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
