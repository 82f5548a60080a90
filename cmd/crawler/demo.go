package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"urltree/internal/testweb"
)

// demoCommand crawls a made-up web that this process serves on loopback addresses.
func (c *command) demoCommand() *cli.Command {
	var (
		seconds = 10 * time.Second
		dir     string
	)
	return &cli.Command{
		Name: "demo", Usage: "crawl a made-up web on this machine for ten seconds and show what came of it",
		UsageText: "crawler demo [-time 10s] [-dir DIR]", OnUsageError: usageError,
		Flags: []cli.Flag{
			flag("time", duration{p: &seconds, least: time.Second}, "fetch for so long"),
			flag("dir", text{&dir}, "put tree and results into this folder and keep them (default: a temporary one, removed)"),
		},
		Action: func(x *cli.Context) error {
			if err := noArguments(x); err != nil {
				return err
			}
			if dir == "" {
				temp, err := os.MkdirTemp("", "urltree-demo-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(temp)
				dir = temp
			} else if err := os.MkdirAll(dir, 0o777); err != nil {
				return err
			}
			web := testweb.New(testweb.Options{Kind: testweb.Linked, Hosts: 20, Pages: 20_000, Seed: 1})
			if err := web.Start(0); err != nil {
				return err
			}
			defer web.Stop()

			opts := c.flags.options()
			opts.Tree, opts.Output = filepath.Join(dir, "iut"), filepath.Join(dir, "res.txt")
			opts.Time, opts.Delay = seconds, 2*time.Millisecond
			opts.Seeds = web.Seeds()
			fmt.Fprintf(c.stdout, "a made-up web of %d pages on %d hosts; seed %s\n", 20_000, 20, opts.Seeds[0])
			if err := c.run(x.Context, opts); err != nil {
				return err
			}
			for _, show := range [][]string{{"ls"}, {"ls", "-n", "8", opts.Seeds[0]}} {
				fmt.Fprintf(c.stdout, "\n$ crawler %s\n", commandLine(show))
				if err := c.inspect(x.Context, opts.Tree, show, c.stdout); err != nil {
					return err
				}
			}
			fmt.Fprintf(c.stdout, "\n$ cat statistics.txt\n")
			report, err := os.ReadFile(filepath.Join(dir, "statistics.txt"))
			if err != nil {
				return err
			}
			_, err = c.stdout.Write(report)
			return err
		},
	}
}
