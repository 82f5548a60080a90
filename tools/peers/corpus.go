package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"

	"urltree/tools/command"
)

// layOut unpacks documentation packages as the document root, if it does not have just these.
func (b *bench) layOut(ctx context.Context) error {
	index := filepath.Join(b.root, "index.html")
	if slices.Equal(laidOut(index), slices.Sorted(slices.Values(b.packages))) {
		return nil
	}
	script := command.Shared("corpus", "fetch-corpus.sh")
	if _, err := os.Stat(script); err != nil {
		return fmt.Errorf("-packages: %w; set SHARED to the folder that has corpus/fetch-corpus.sh, or name pages with -corpus", err)
	}
	if err := command.Installed("apt-get", "dpkg"); err != nil {
		return fmt.Errorf("-packages: %w", err)
	}
	// The script replaces folders first and this file last: without it nothing half laid out is taken
	// for whole.
	if err := os.Remove(index); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	cmd := exec.CommandContext(ctx, script, append([]string{filepath.Dir(b.root)}, b.packages...)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", script, err)
	}
	return nil
}

// link is one of the start page to that of a package, whose folder has its name.
var link = regexp.MustCompile(`<a href="([^/"]+)/`)

// laidOut returns the packages that a start page names, sorted; none if it is not there.
func laidOut(index string) (packages []string) {
	text, _ := os.ReadFile(index)
	for _, m := range link.FindAllSubmatch(text, -1) {
		packages = append(packages, string(m[1]))
	}
	slices.Sort(packages)
	return packages
}
