package crawler_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/storage/record"
)

// TestDomainBudget crawls a farm whose hosts name two new ones each, without end. It ends at the
// budget of its domain, over several runs too; the rest is held, up to MaxHeld of the whole domain.
// Addresses, names without a domain and the hosts of others are not concerned.
func TestDomainBudget(t *testing.T) {
	dir := t.TempDir()
	opts := crawler.Options{
		Tree:    filepath.Join(dir, "iut"),
		Output:  filepath.Join(dir, "res.txt"),
		Storage: crawler.Storage{NoSync: true},
		Seeds:   []string{"http://1.farm.co.uk/", "http://other.org/"},
		Fetch: func(_ context.Context, url string) (crawler.Content, error) {
			var body strings.Builder
			switch host := record.Host(url); {
			case strings.HasSuffix(host, ".farm.co.uk"):
				fmt.Fprintf(&body, "<a href=http://%s0.farm.co.uk/><a href=http://%[1]s1.farm.co.uk/><a href=/page>", strings.TrimSuffix(host, ".farm.co.uk"))
			case host == "other.org":
				for n := range 12 {
					fmt.Fprintf(&body, "<a href=http://%d.org/><a href=http://10.0.0.%[1]d/><a href=http://name%[1]d/><a href=http://[fd00::%[1]d]/>", n)
				}
			}
			return crawler.Content{Status: 200, Media: "text/html", Body: []byte(body.String())}, nil
		},
	}
	for run, want := range []struct{ most, hosts, held, maxHeld int64 }{
		{5, 5, 6, 0}, {5, 5, 6, 0}, {9, 9, 10, 0}, {14, 14, 10, 10}, {-1, 40, 0, 0},
	} {
		opts.Budgets = crawler.Budgets{Domain: want.most, MaxHeld: want.maxHeld}
		if opts.MaxDepth = 0; want.most < 0 {
			opts.Budgets.Domain, want.held = 40, 41
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		result, err := crawler.Run(ctx, opts)
		cancel()
		if err != nil || result.Ended != "nothing left" {
			t.Fatalf("run %d: %q, %v", run, result.Ended, err)
		}
		farm, others := map[string]bool{}, 0
		for _, url := range crawled(t, opts.Output) {
			if host := record.Host(url); strings.HasSuffix(host, ".farm.co.uk") {
				farm[host] = true
			} else {
				others++
			}
		}
		if int64(len(farm)) != want.hosts || others != 1+4*12 {
			t.Errorf("run %d: %d hosts of the farm, want %d; %d other pages", run, len(farm), want.hosts, others)
		}
		pending, err := os.ReadFile(filepath.Join(dir, "res2.txt"))
		if n := int64(strings.Count(string(pending), "\tbudget-domain")); err != nil || n != want.held || result.Total.Held != n {
			t.Errorf("run %d: %d URLs are listed as held, %v, of %d; want %d", run, n, err, result.Total.Held, want.held)
		}
		requireChecked(t, dir)
	}
}
