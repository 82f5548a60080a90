package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"urltree/crawler"
)

// generateCommand writes what a package has besides the program. Help texts do not name it.
func (c *command) generateCommand() *subcommand {
	return &subcommand{
		name: "generate", usage: "write man pages and completions", operand: "FOLDER",
		about: "For those who make packages. FOLDER gets man pages in man1, and completions in bash, zsh and fish.",
		run: func(_ context.Context, operands []string) error {
			pages := []page{c.crawlPage()}
			for _, sub := range c.visible() {
				pages = append(pages, sub.page())
			}
			// A page without a date has no year in its lowest line; man shows the day of today then.
			info, _ := debug.ReadBuildInfo()
			date := fmt.Sprintf("%.10s", cmp.Or(buildOf(info).time, "unreleased"))
			files := map[string]string{}
			for _, p := range pages {
				files["man1/"+p.manName()+".1"] = p.man(date, crawler.Version(), pages)
			}
			for shell, name := range map[string]string{"bash": "bash/crawler", "zsh": "zsh/_crawler", "fish": "fish/crawler.fish"} {
				text, err := c.completion(shell)
				if err != nil {
					return err
				}
				files[name] = text
			}
			for name, text := range files {
				name = filepath.Join(operands[0], name)
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
