// Linkcheck is a program of another module that is built on urltree: it looks at every page of a
// site, as politely as the crawler does, and prints each broken link with the pages that have it.
// It keeps nothing on disk. The exit code is 1 if there is one, 2 if the site could not be looked
// at.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/storage/record"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, log io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(log, "usage: linkcheck URL")
		return 2
	}
	var (
		mu        sync.Mutex
		referrers = map[string][]string{} // guarded by mu, as is broken
		broken    = map[string]string{}
	)
	result, err := crawler.Run(ctx, crawler.Options{
		NoTree: true,
		Seeds:  args,
		Bounds: crawler.Bounds{Scope: scope.Host},
		Edge: func(from, to string) {
			mu.Lock()
			defer mu.Unlock()
			if list := referrers[to]; !slices.Contains(list, from) {
				referrers[to] = append(list, from)
			}
		},
		OnOutcome: func(o crawler.Outcome) {
			// While a host gives no answer, its robots.txt gives none, and its URLs are held. So
			// are those that it refuses.
			held := func(reason string) bool { return o.State == record.Pending && strings.HasPrefix(o.Reason, reason) }
			if o.State == record.Failed || held("robots-unreachable:") || held("refused:") || held("host given up") {
				mu.Lock()
				defer mu.Unlock()
				broken[o.URL] = o.Reason
			}
		},
	})
	if err != nil {
		fmt.Fprintln(log, "linkcheck:", err)
		return 2
	}
	lines := make([]string, 0, len(broken))
	for url, reason := range broken {
		on := "the start"
		if list := referrers[url]; len(list) > 0 {
			slices.Sort(list)
			on = "on " + strings.Join(list, " ")
		}
		lines = append(lines, fmt.Sprintf("%s: %s, %s\n", url, reason, on))
	}
	slices.Sort(lines)
	fmt.Fprint(out, strings.Join(lines, ""))
	fmt.Fprintf(out, "%s, %s: %s\n", count(int(result.Run.Stored), "page"), count(len(broken), "broken link"), result.Ended)
	if len(broken) > 0 {
		return 1
	}
	return 0
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
