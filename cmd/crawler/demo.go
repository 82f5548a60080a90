package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"urltree/crawler"
	"urltree/internal/inspect"
	"urltree/internal/testweb"
)

// demoCommand crawls a made-up web that this process serves on loopback addresses.
func (c *command) demoCommand() *subcommand {
	var (
		fetch = 10 * time.Second
		dir   string
	)
	return &subcommand{
		name: "demo", usage: "crawl a web made up on this machine and show what came of it",
		flags: []*option{
			plainFlag("time", amount[time.Duration]{in: times, p: &fetch, least: time.Second}, "fetch for this `TIME`"),
			plainFlag("dir", text{&dir}, "put tree and results into this `FOLDER` and keep them; without it they are removed at the end"),
		},
		run: func(ctx context.Context, _ []string) error {
			if dir == "" {
				temp, err := os.MkdirTemp("", "urltree-demo-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(temp)
				return c.demo(ctx, temp, fetch)
			}
			if err := os.MkdirAll(dir, 0o777); err != nil {
				return fmt.Errorf("-dir %s: %w", dir, err)
			}
			if err := c.demo(ctx, dir, fetch); err != nil {
				return err
			}
			fmt.Fprintf(c.stdout, "\ntree and results are in %s\n", dir)
			return nil
		},
	}
}

// demo crawls for so long into a folder, then shows the tree as the subcommands would.
func (c *command) demo(ctx context.Context, dir string, fetch time.Duration) error {
	web := testweb.New(testweb.Options{
		Kind: testweb.Linked, Hosts: demoHosts, Pages: demoPages, Seed: 1,
		Redirects: .03, Errors: .01, Images: .02, NoIndex: .02, Private: .02,
	})
	if err := web.Start(0); err != nil {
		return err
	}
	defer web.Stop()

	opts := crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Seeds:      web.Seeds(),
		Limits:     crawler.Limits{Time: fetch},
		Politeness: crawler.Politeness{Delay: 2 * time.Millisecond},
		HTTP:       crawler.HTTP{AllowPrivate: true},
	}
	fmt.Fprintf(c.stdout, "a made-up web of %d pages on %d hosts, from %s on; stops after %s\n", demoPages, demoHosts, opts.Seeds[0], fetch)
	result, err := c.run(ctx, opts)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // one signal ends the crawl, not what there is to see of it
	for _, q := range []inspect.Question{{Command: "ls", Lines: 8, URL: opts.Seeds[0]}, {Command: "path", URL: opts.Seeds[0]}} {
		line := []string{"crawler", q.Command, "-tree", opts.Tree}
		if q.Lines > 0 {
			line = append(line, "-n", fmt.Sprint(q.Lines))
		}
		fmt.Fprintf(c.stdout, "\n$ %s\n", commandLine(append(line, q.URL)))
		if err := c.inspect(ctx, opts.Tree, q, c.stdout); err != nil {
			return err
		}
	}
	_, err = c.stdout.Write(demoSummary(result, opts))
	return err
}

// demoSummary says what came of the run, that the sums agree, and what a page took.
func demoSummary(r crawler.Result, opts crawler.Options) []byte {
	b := bytes.NewBufferString("\n")
	came(b, r, opts)
	t := r.Total
	fmt.Fprintf(b, "checked   %d URLs found = %d stored + %d pending + %d redirected + %d failed + %d refused\n",
		t.Seq, t.Stored, t.Pending(), t.Redirected, t.Failed, t.Refused)
	b.WriteString("a page    ")
	for i, s := range r.Stages {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "%s %s", s.Name, s.P50.Round(10*time.Microsecond))
	}
	b.WriteString(" (medians)\n")
	fmt.Fprintf(b, "the rate  %d pages a second: servers on this machine answer at once, those of the web do not\n", r.Run.Stored/max(1, r.Run.End-r.Run.Start))
	fmt.Fprintf(b, "crawler: %s\n", r.Ended)
	return b.Bytes()
}

const demoHosts, demoPages = 20, 20_000
