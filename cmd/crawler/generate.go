package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"urltree/crawler"
)

// generateCommand writes what a package has besides the program. Help texts do not name it.
func (c *command) generateCommand(groups []group, commands []*cli.Command) *cli.Command {
	return &cli.Command{
		Name: "generate", Usage: "write man pages and completions", ArgsUsage: "FOLDER", Hidden: true,
		Description: "For those who make packages. FOLDER gets man pages in man1, and completions in bash, zsh and fish.",
		Action: func(x *cli.Context) error {
			if err := arguments(x, 1); err != nil {
				return err
			}
			if x.NArg() == 0 {
				return usagef("generate takes a folder; usage: crawler %s", usageOf(x.Command))
			}
			pages := []page{crawlPage(groups, commands)}
			for _, sub := range commands {
				pages = append(pages, commandPage(sub))
			}
			// A page without a date has no year in its lowest line; man shows the day of today then.
			info, _ := debug.ReadBuildInfo()
			date := fmt.Sprintf("%.10s", cmp.Or(buildOf(info).time, "unreleased"))
			files := map[string]string{}
			for _, p := range pages {
				files["man1/"+p.manName()+".1"] = p.man(date, crawler.Version(), pages)
			}
			complete := completionsOf(ungroup(groups), commands)
			files["bash/crawler"] = complete.bash()
			files["zsh/_crawler"] = complete.zsh()
			files["fish/crawler.fish"] = complete.fish()
			for name, text := range files {
				name = filepath.Join(x.Args().First(), name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
