package inspect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"urltree/storage"
	"urltree/storage/record"
)

// A node is a line of ls: a folder, a page, or both. Below a scheme stand hosts with their
// ports, each as one node, though the tree has a folder for every label; below a host stand
// path segments, and queries at the end.
type node struct {
	key     []byte
	name    string        // what it adds to the URL of the node above
	damaged bool          // there is a key and no record that can be read, nor anything below
	own     record.Counts // of its own record
	below   record.Counts // of the records below it, other hosts left out
}

func (n *node) sum() record.Counts { return n.below.Plus(n.own, 1) }

func newNode(c record.Child, name string) node {
	n := node{key: c.Key, name: name, below: c.Below}
	switch {
	case c.Record != nil:
		n.own = countOf(c.Record)
	case c.Below.Records() == 0:
		n.damaged = true
	}
	return n
}

// there reports whether a node has anything to show.
func (n *node) there() bool { return n.damaged || n.sum().Records() > 0 }

// errLines says that -n lines were written and more would come.
var errLines = errors.New("enough lines")

// ls lists a folder and what is directly in it, with -r all that is below. Of the whole tree that
// is the schemes, and their hosts as well. With -state only what leads to records of that state.
func (i *Inspector) ls(ctx context.Context, q Question, w *bufio.Writer) error {
	only, err := chosen(q.State, usageLs)
	if err != nil {
		return err
	}
	key, err := i.folder(q.URL, usageLs)
	if err != nil {
		return err
	}
	in, err := newBelow(key)
	if err != nil {
		return err
	}
	if err := i.thereIs(ctx, &in); err != nil {
		return err
	}
	if err := i.Index.Settle(ctx); err != nil {
		return err
	}
	l := &lister{Inspector: i, Question: q, only: only, ctx: ctx, w: w}
	if i.Working != nil {
		for _, url := range i.Working() {
			if key, err := record.Key(url); err == nil {
				l.working = append(l.working, string(key))
			}
		}
		slices.Sort(l.working)
	}
	top, err := l.top(key)
	if err != nil {
		return err
	}
	l.title(top.sum())
	if err = l.line(&top, 0); err == nil {
		err = l.list(&top, 1)
	}
	if errors.Is(err, errLines) {
		_, err = fmt.Fprintf(w, "... more than %d lines\n", q.Lines)
	}
	return err
}

type lister struct {
	*Inspector
	Question
	only    selector
	ctx     context.Context
	w       *bufio.Writer
	working []string // keys that the crawl has in hand, sorted
	widths  [6]int   // of the counts
	written int64    // lines
}

// top makes the node of the folder that was asked for.
func (l *lister) top(key []byte) (node, error) {
	below, err := l.Index.Folders().Counts(key)
	if err != nil || len(key) == 0 {
		return node{name: "all", below: below}, err
	}
	if lastKind(key) == 0 {
		return node{key: key, name: string(key[:len(key)-1]) + "://", below: below}, nil
	}
	url, err := record.URL(key)
	if err != nil {
		return node{}, err
	}
	child := record.Child{Key: key, Below: below}
	// The folder of an empty first segment is no page: its URL would be that of the host's root.
	if own, err := record.Key(url); err == nil && bytes.Equal(own, key) {
		rec, err := l.Index.Record(url)
		if err == nil {
			child.Record = &rec
		} else if !errors.Is(err, storage.ErrNotFound) {
			return node{}, err
		}
	}
	switch lastKind(key) {
	case record.Label:
		return l.origins(child, strings.TrimSuffix(url, "/"), 0, nil)
	case record.Port:
		url = strings.TrimSuffix(url, "/")
	}
	return newNode(child, url), nil
}

// list writes what is directly below n, with -r all that is; and hosts, for a scheme says little.
func (l *lister) list(n *node, level int) error {
	return l.children(n, level, func(c node) error {
		if !l.only.picks(c.sum()) {
			return nil
		}
		if err := l.line(&c, level); err != nil || !l.Recursive && len(n.key) > 0 {
			return err
		}
		return l.list(&c, level+1)
	})
}

// countNames are the titles of the counts, in the order of countsOf.
var countNames = [6]string{"waiting", "held", "done", "moved", "failed", "refused"}

func countsOf(c record.Counts) [6]int64 {
	return [6]int64{c.Now + c.Later, c.Held, c.Stored, c.Redirected, c.Failed, c.Refused}
}

// title writes the title line. No count exceeds that of the first node: so wide are the columns.
func (l *lister) title(sum record.Counts) {
	fmt.Fprintf(l.w, "%-7s", "state")
	for k, c := range countsOf(sum) {
		l.widths[k] = max(len(countNames[k]), len(strconv.FormatInt(c, 10)))
		fmt.Fprintf(l.w, "  %*s", l.widths[k], countNames[k])
	}
	fmt.Fprintln(l.w, "  URL")
}

func (l *lister) line(n *node, level int) error {
	if l.Lines > 0 && l.written == l.Lines {
		return errLines
	}
	l.written++
	sum := n.sum()
	state := "damaged"
	if !n.damaged {
		state = stateWord(sum, l.worksOn(n.key))
	}
	fmt.Fprintf(l.w, "%-7s", state)
	for k, c := range countsOf(sum) {
		number := "-"
		if c > 0 { // a count made of several may be off for a moment during a crawl
			number = strconv.FormatInt(c, 10)
		}
		fmt.Fprintf(l.w, "  %*s", l.widths[k], number)
	}
	_, err := fmt.Fprintf(l.w, "  %s%s\n", strings.Repeat("  ", level), clean(n.name))
	return err
}

// worksOn reports whether the crawl has in hand what a node counts.
func (l *lister) worksOn(key []byte) bool {
	at, _ := slices.BinarySearch(l.working, string(key))
	host := lastKind(key) == record.Label || lastKind(key) == record.Port
	for _, k := range l.working[at:] {
		if !strings.HasPrefix(k, string(key)) {
			return false
		}
		if rest := k[len(key):]; !host || rest == "" || rest[0] != record.Label && rest[0] != record.Port {
			return true
		}
	}
	return false
}

func (l *lister) children(n *node, level int, fn func(node) error) error {
	var after []byte
	host := lastKind(n.key) == record.Label || lastKind(n.key) == record.Port
	if host {
		// Behind the labels and ports, which belong to other hosts, before path and query.
		after = append(bytes.Clone(n.key), record.Port+1, 0)
	}
	for c, err := range l.entries(n.key, after, level) {
		if err != nil {
			return err
		}
		name := string(c.Key[len(n.key) : len(c.Key)-1])
		switch {
		case len(n.key) == 0:
			err = fn(newNode(c, name+"://"))
		case name[0] == record.Label:
			var host node
			if host, err = l.origins(c, name[1:], level, fn); err == nil && host.there() {
				err = fn(host)
			}
		case name[0] == record.Query && host:
			err = fn(newNode(c, "/?"+name[1:]))
		case name[0] == record.Query:
			err = fn(newNode(c, "?"+name[1:]))
		default:
			err = fn(newNode(c, "/"+name[1:]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// origins calls fn for the hosts whose labels go on where those of c end, and for c's host with
// other ports. It gives the node of c's host itself, without what belongs to those. A nil fn is
// not called.
func (l *lister) origins(c record.Child, name string, level int, fn func(node) error) (node, error) {
	n := newNode(c, name)
	for sub, err := range l.entries(c.Key, nil, level) {
		if err != nil {
			return n, err
		}
		component := string(sub.Key[len(c.Key) : len(sub.Key)-1])
		if component[0] != record.Label && component[0] != record.Port {
			break
		}
		other := newNode(sub, name+":"+component[1:])
		n.below = n.below.Plus(other.sum(), -1)
		if fn == nil {
			continue
		}
		if component[0] == record.Label {
			if other, err = l.origins(sub, name+"."+component[1:], level, fn); err != nil {
				return n, err
			}
			if !other.there() {
				continue
			}
		}
		if err := fn(other); err != nil {
			return n, err
		}
	}
	return n, nil
}

// entries returns what is directly in a folder, behind the key after. Each look into the index
// fetches some; fewer the deeper it is, since all levels above hold theirs meanwhile.
func (l *lister) entries(folder, after []byte, level int) iter.Seq2[record.Child, error] {
	room := max(256>>min(level, 8), 4)
	return func(yield func(record.Child, error) bool) {
		for {
			if l.ctx.Err() != nil {
				yield(record.Child{}, context.Cause(l.ctx))
				return
			}
			list, err := l.Index.Folders().Children(folder, after, room)
			if err != nil {
				yield(record.Child{}, err)
				return
			}
			for _, c := range list {
				if !yield(c, nil) {
					return
				}
			}
			if len(list) < room {
				return
			}
			after = list[len(list)-1].Key
		}
	}
}
