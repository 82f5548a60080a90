package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"urltree/tools/command"
	"urltree/tools/machine"
	"urltree/tools/nginx"
)

// The pages that are crawled when the flags name no others.
const defaultPackages = "openjdk-17-doc"

// parse reads the flags, and refuses what cannot be measured. It looks at nothing but the flags.
func parse(args []string) (*bench, error) {
	b := &bench{}
	var packages, tools, disks, web string
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.StringVar(&b.root, "corpus", filepath.Join("bin", "_pages", "www"), "the document `ROOT`")
	flags.StringVar(&packages, "packages", defaultPackages, "lay out these documentation `PACKAGES` as -corpus if they are not what it has (needs $SHARED/corpus/fetch-corpus.sh and the network); with -corpus alone: none, its pages are crawled as they are")
	flags.StringVar(&tools, "tools", "crawler,wget2,wget,httrack", "a `LIST` of them; crawler-2 has two cores, crawler-warc keeps pages in WARC files, crawler-warc-plain without compression, floor only fetches them, NAME=PATH is another build of the crawler; what is not installed is left out")
	flags.StringVar(&disks, "disks", "ext4,tmpfs", "a `LIST`: ext4 with a journal, where the crawler syncs; tmpfs, where it does not")
	flags.IntVar(&b.runs, "runs", 3, "`N` runs of each tool on each disk")
	flags.StringVar(&b.work, "work", filepath.Join("bin", "peers"), "a `FOLDER` for disks and logs, which must not be there; removed at the end")
	flags.StringVar(&web, "web", "plain", "what nginx does: plain, gzip, tls-h1, tls-h1-gzip, tls-h2 or tls-h2-gzip")
	flags.StringVar(&b.json, "json", "", "write all figures to this `FILE`")
	flags.IntVar(&b.toolCPU, "cpu", 0, "the `CORE` of the tools")
	flags.IntVar(&b.serverCPU, "server-cpu", 1, "the `CORE` of nginx")
	flags.IntVar(&b.priority, "priority", 0, "run the tools with chrt -r `N`, 1 to 99, before all usual work on their core; 0: as usual")
	flags.IntVar(&b.serverPriority, "nginx-priority", 0, "run nginx with chrt -r `N`, likewise")
	if err := command.Parse(flags, args); err != nil {
		return nil, err
	}
	var err error
	if b.more, err = command.More(flags); err != nil {
		return nil, err
	}
	set := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if set["corpus"] && !set["packages"] {
		packages = ""
	}
	b.packages = strings.Fields(packages)
	b.tools, b.disks = list(tools), list(disks)
	for _, name := range b.tools {
		if !known(name) {
			return nil, command.Mistake("-tools: %q is none of crawler, crawler-2, crawler-warc, crawler-warc-plain, NAME=PATH, floor, wget2, wget, httrack", name)
		}
	}
	var known bool
	if b.web, known = webs[web]; !known {
		return nil, command.Mistake("-web: %q is none of %s", web, strings.Join(slices.Sorted(maps.Keys(webs)), ", "))
	}
	for _, kind := range b.disks {
		if kind != "ext4" && kind != "tmpfs" {
			return nil, command.Mistake("-disks: %q is neither ext4 nor tmpfs", kind)
		}
	}
	for _, n := range [...]struct {
		flag               string
		value, least, most int
	}{
		{"runs", b.runs, 1, 1000},
		{"cpu", b.toolCPU, 0, 1 << 16},
		{"server-cpu", b.serverCPU, 0, 1 << 16},
		{"priority", b.priority, 0, 99},
		{"nginx-priority", b.serverPriority, 0, 99},
	} {
		if n.value < n.least || n.value > n.most {
			return nil, command.Mistake("-%s %d: it is %d to %d", n.flag, n.value, n.least, n.most)
		}
	}
	if len(b.packages) > 0 && filepath.Base(b.root) != "www" {
		return nil, command.Mistake("-corpus %s: with -packages it must be a folder www, which they are laid out in", b.root)
	}
	for _, folder := range []*string{&b.root, &b.work} {
		if *folder, err = filepath.Abs(*folder); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// webs are the values of -web.
var webs = map[string]nginx.Web{
	"plain":       {},
	"gzip":        {Gzip: true},
	"tls-h1":      {TLS: true},
	"tls-h1-gzip": {TLS: true, Gzip: true},
	"tls-h2":      {TLS: true, HTTP2: true},
	"tls-h2-gzip": {TLS: true, HTTP2: true, Gzip: true},
}

// list takes names apart that commas part, with blanks around them or not.
func list(names string) (all []string) {
	for name := range strings.SplitSeq(names, ",") {
		all = append(all, strings.TrimSpace(name))
	}
	return all
}

// known reports whether there is such a tool.
func known(name string) bool {
	if name, path, build := strings.Cut(name, "="); build {
		return name != "" && path != ""
	}
	return slices.Contains(append(crawlers, "floor", "wget2", "wget", "httrack"), name)
}

// ready returns an error that says in one line what is missing for a comparison.
func (b *bench) ready() error {
	programs := []string{"nginx", "taskset", "mount"}
	if slices.Contains(b.disks, "ext4") {
		programs = append(programs, "truncate", "mkfs.ext4")
	}
	if slices.ContainsFunc(b.tools, func(name string) bool { return slices.Contains(crawlers, name) }) {
		programs = append(programs, "go")
	}
	if b.priority > 0 || b.serverPriority > 0 {
		programs = append(programs, "chrt")
	}
	if err := command.Installed(programs...); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("root is needed, to mount disks")
	}
	if err := machine.MayHave(b.priority); err != nil {
		return fmt.Errorf("-priority %w", err)
	}
	if err := machine.MayHave(b.serverPriority); err != nil {
		return fmt.Errorf("-nginx-priority %w", err)
	}
	for _, core := range []int{b.toolCPU, b.serverCPU} {
		if err := machine.HasCore(core); err != nil {
			return err
		}
	}
	return nil
}
