package crawler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"urltree/crawler/weburl"
	"urltree/internal/ctl"
	"urltree/internal/inspect"
	"urltree/internal/rank"
	"urltree/internal/repair"
	"urltree/internal/robots"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// NewInspector returns what answers questions about a tree that nobody crawls, with the link
// options that FORMAT keeps. The errors are those of NewLinker.
func NewInspector(tree *iut.Tree, index *storage.Index) (*inspect.Inspector, error) {
	linker, err := NewLinker(tree.Format())
	if err != nil {
		return nil, err
	}
	linker.Use(index)
	return newInspector(tree, index, linker, robots.Token("urltree")), nil
}

// Ask answers a question about the tree in the folder root by writing to w: the crawl that has the
// tree does, or else it is opened for reading. Errors: those of [inspect.Inspector.Run], of
// ctl.Call but ErrNone, of [iut.Open] and of [storage.Open]; record.ErrDamaged if there is no
// index. tell is what [inspect.Inspector.Tell] is where no crawl answers.
func Ask(ctx context.Context, root string, q inspect.Question, tell func(what string, done, total int64), w io.Writer) (err error) {
	if err := ctl.Call(ctx, root, q, w); !errors.Is(err, ctl.ErrNone) {
		return err
	}
	return WithIndex(root, iut.Options{ReadOnly: true}, storage.Options{ReadOnly: true}, func(tree *iut.Tree, index *storage.Index) error {
		in, err := NewInspector(tree, index)
		if err != nil {
			return err
		}
		in.Tell = tell
		return in.Run(ctx, q, w)
	})
}

// WithIndex calls fn with a tree and its index, and closes both. Unless it is opened for reading
// alone nobody else has the tree. An index that is missing is damage: merge makes one.
func WithIndex(root string, how iut.Options, opts storage.Options, fn func(*iut.Tree, *storage.Index) error) (err error) {
	tree, err := iut.Open(root, how)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	index, err := storage.Open(filepath.Join(tree.Root(), "index.db"), opts)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", record.ErrDamaged, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, index.Close()) }()
	if err := tree.Finish(index.Record); err != nil {
		return err
	}
	return fn(tree, index)
}

func newInspector(tree *iut.Tree, index *storage.Index, linker *Linker, token string) *inspect.Inspector {
	graph := &repair.Graph{Tree: tree, Index: index, Parse: linker.EdgesOf}
	return &inspect.Inspector{
		Edges: graph.Pages, Ranks: func() (*rank.File, error) { return rank.Open(tree.Root()) },
		Software: "urltree " + Version(),
		Index:    index, Tree: tree, Form: linker.budgets.form, Limits: linker.limits,
		Scope: func(url string) (reason, rule string) {
			if linker.isForgotten(url) {
				return record.Forgotten, "it is forgotten; crawler forget -undo takes that back"
			}
			if len(url) > maxRecord {
				return "length", fmt.Sprintf("it has more than %d bytes", maxRecord)
			}
			return linker.scope.Reason(url), linker.scope.Rule(url)
		},
		Canonical: func(text string) (string, error) {
			url, err := weburl.SeedURL(text)
			return linker.strip.Apply(url), err
		},
		Robots: func(url string) (ok bool, line string, known bool) {
			row, found, err := index.Hosts().Robots(record.Origin(url))
			if err != nil || !found || !answered(row.Status) {
				return false, "", false
			}
			ok, line = parseRobots(row, token).Allowed(pathOf(url))
			return ok, strings.ToValidUTF8(line, "\uFFFD"), true
		},
	}
}

// answerQuestions lets other processes ask about the tree while the crawl has it. Where the
// socket cannot be made the crawl goes on without.
func (e *engine) answerQuestions() (stop func()) {
	in := newInspector(e.store.tree, e.store.index, e.rules.linker, e.rules.robots.token)
	in.Live = func() string { return e.progress().String() }
	in.Progress = func() any { return e.progress() }
	in.Status = e.status
	in.Pause = e.network.pause.String
	in.Working = e.frontier.Out
	done, err := ctl.Serve(e.ends.alive, e.opts.Tree, in.Run)
	if err != nil {
		e.opts.Log.Warn("ls, show and the like cannot be answered while this crawl runs", "err", err)
		return func() {}
	}
	return sync.OnceFunc(func() {
		if err := done(); err != nil {
			e.opts.Log.Warn("close the socket", "err", err)
		}
	})
}
