package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"urltree/cleaner"
	"urltree/crawler"
	"urltree/internal/fetch"
	"urltree/internal/rank"
	"urltree/internal/repair"
	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// mergeCommand rebuilds the results, and the index if need be, from the folders.
func (c *command) mergeCommand() *cli.Command {
	return &cli.Command{
		Name: "merge", Usage: "tidy up index and results, or make them again from the folders",
		ArgsUsage:   "[-tree FOLDER] [-output FILE]",
		Description: "A tree of an earlier version is brought to this one, with all that it knows. A sound index keeps what it knows: it is made to agree with the folders, and smaller, and the results are written. One that is missing or damaged is made again from the folders and from what can be read of the old one, which is kept under another name: nothing that a stored page or seeds.txt names is lost; where the old one cannot be read, URLs that had failed, redirected or been refused are pending again, and tries, reasons, robots.txt answers and the hosts' times are lost. A damaged page is kept as well: its files get names that end in .damaged, and its URL is pending again.",
		Flags:       []cli.Flag{c.flags.tree(), c.flags.output()},
		Action: func(x *cli.Context) error {
			if err := arguments(x, 0); err != nil {
				return err
			}
			if err := treeThere(c.root()); err != nil {
				return err
			}
			if err := c.probe(c.root(), c.flags.opts.Output); err != nil {
				return err
			}
			_, err := iut.ReadFormat(c.root())
			older := errors.Is(err, iut.ErrOlder)
			report, err := repair.Merge(x.Context, repair.MergeOptions{
				Root: c.root(), Output: c.flags.opts.Output, Log: c.logger(c.stderr),
				Parser: func(f iut.Format) (repair.Parser, error) { return crawler.NewLinker(f) },
			})
			if err != nil {
				return err
			}
			out := c.stdout
			if files, err := cleaner.FilesFor(c.root(), c.flags.opts.Output); err == nil && files.Stream {
				out = c.stderr // standard output may have the lines of the results
			}
			text := report.String()
			if older {
				text += "options: the version before kept none; give those of this crawl once more, such as -scope, with the next run\n"
			}
			_, err = io.WriteString(out, text)
			return err
		},
	}
}

// checkCommand proves the promises on a tree that nobody crawls.
func (c *command) checkCommand() *cli.Command {
	var links bool
	return &cli.Command{
		Name: "check", Usage: "prove that index, folders and results agree",
		ArgsUsage:   "[-tree FOLDER] [-output FILE] [-links]",
		Description: "What a kill left behind is counted and no fault. Faults are printed, one a line.",
		Flags:       []cli.Flag{c.flags.tree(), c.flags.output(), plainFlag("links", toggle{&links}, "parse every stored page again and prove that no link of a stored page is lost")},
		Action: func(x *cli.Context) error {
			if err := arguments(x, 0); err != nil {
				return err
			}
			root := c.root()
			tree, err := openExclusive(root)
			if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) { // check need not write there
				tree, err = iut.Open(root, iut.Options{ReadOnly: true})
			}
			if err != nil {
				return err
			}
			defer tree.Close()
			index, err := openIndex(root, storage.Options{ReadOnly: true})
			if err != nil {
				return err
			}
			defer index.Close()
			linker, err := crawler.NewLinker(tree.Format())
			if err != nil {
				return err
			}
			tell := func(fault string) { fmt.Fprintln(c.stdout, "fault:", fault) }
			report, err := repair.Check(x.Context, tree, index, linker, repair.CheckOptions{
				Links: links, Output: c.flags.opts.Output,
			}, tell)
			if err != nil {
				return err
			}
			switch ranks, err := rank.Open(root); {
			case err == nil:
				if err := ranks.Close(); err != nil {
					return err
				}
			case errors.Is(err, rank.ErrDamaged):
				report.Faults++
				tell(err.Error())
			case !errors.Is(err, fs.ErrNotExist):
				return err
			}
			if report.Faults > 0 {
				err = errFaults
			}
			_, werr := io.WriteString(c.stdout, report.String())
			return errors.Join(err, werr)
		},
	}
}

// retryCommand turns failures back into work.
func (c *command) retryCommand() *cli.Command {
	var reason, state string
	states := plainFlag("state", choice{&state, []string{"failed", "error", "refused", "redirected"}}, "only URLs of this `STATE`: failed, also called error, refused or redirected")
	states.DefaultText = "failed; any with -reason"
	return &cli.Command{
		Name: "retry", Usage: "turn failed, refused or redirected URLs back to pending",
		ArgsUsage:   "[-tree FOLDER] [-state STATE] [-reason REASON] [URL-PREFIX]",
		Description: "The next run asks them again, and reads failed sitemaps again. With -reason or -state also refused and redirected URLs. Before those of reason robots, robots.txt is asked for again.",
		Flags: []cli.Flag{
			c.flags.tree(),
			states,
			plainFlag("reason", choice{&reason, retryReasons()}, "only what failed or was refused for this `REASON`, of those below"),
		},
		Action: func(x *cli.Context) error {
			if err := arguments(x, 1); err != nil {
				return err
			}
			operand, err := urlOperand(x)
			if err != nil {
				return err
			}
			if state == "error" {
				state = "failed"
			}
			root := c.root()
			tree, err := openExclusive(root)
			if err != nil {
				return err
			}
			defer tree.Close()
			index, err := openIndex(root, storage.Options{})
			if err != nil {
				return err
			}
			defer index.Close()
			in, err := crawler.NewInspector(tree, index)
			if err != nil {
				return err
			}
			prefix, err := in.Folder(operand, "retry [-state S] [-reason R] [URL-PREFIX]")
			if err != nil {
				return err
			}
			if reason == "robots" { // first: a kill behind it must not leave URLs open beside the answer that refuses them
				if err := index.ForgetRobots(); err != nil {
					return err
				}
			}
			n, err := index.Reopen(x.Context, prefix, func(r *record.Record) bool {
				switch {
				case r.State == record.Stored, reason != "" && !hasReason(r.Reason, reason):
					return false
				case state != "":
					return r.State.String() == state
				}
				return r.State == record.Failed || reason != "" && r.State != record.Pending
			}, nil)
			sitemaps := 0
			if err == nil && (state == "" || state == "failed") {
				sitemaps, err = index.RereadSitemaps(x.Context, func(s *record.Sitemap) bool {
					word, _, _ := strings.Cut(s.Reason, ":")
					key, err := record.Key(s.URL)
					return (s.State == record.SitemapFailed || reason != "") && !s.Absent() &&
						err == nil && bytes.HasPrefix(key, prefix) && (reason == "" || hasReason(word, reason))
				}, nil)
			}
			if err != nil {
				return err
			}
			if sitemaps > 0 {
				if _, err := fmt.Fprintf(c.stdout, "%s to be read again\n", words.Count(sitemaps, "sitemap")); err != nil {
					return err
				}
			}
			if n == 0 && sitemaps > 0 {
				return nil
			}
			if n == 0 {
				_, err = fmt.Fprintln(c.stdout, "no such URL; crawler stats and crawler export show states and reasons")
				return err
			}
			_, err = fmt.Fprintf(c.stdout, "%s pending again; the next run asks them\n", words.Count(n, "URL"))
			return err
		},
	}
}

// hasReason reports whether a record's reason is the one that was asked for: tls is also those that
// say more.
func hasReason(has, asked string) bool { return has == asked || asked == fetch.TLS && fetch.IsTLS(has) }

func openExclusive(root string) (*iut.Tree, error) {
	if err := treeThere(root); err != nil {
		return nil, err
	}
	return iut.Open(root, iut.Options{})
}
