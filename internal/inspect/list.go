package inspect

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"urltree/iut"
	"urltree/storage/record"
)

// A Listing answers the question list.
type Listing struct {
	Prefix  string   // what was asked for, canonical; "": the whole tree
	Seeds   []string // of the whole tree, the first ones
	Entries []Entry  // directly below, in the order of the tree; of the whole tree its hosts
	Next    string   // Question.After of the entries behind them; "": there are none
}

// An Entry is a page, a folder, or both.
type Entry struct {
	Name   string
	URL    string   `json:",omitempty"` // of its own record; "": it has none
	State  string   // the word of ls
	Folder string   `json:",omitempty"` // the URL prefix of what is below it; "": nothing is
	Counts [6]int64 // waiting, held, done, moved, failed and refused
}

const (
	mostSeeds   = 20
	mostEntries = 1000
)

// list writes a Listing in JSON.
func (i *Inspector) list(ctx context.Context, q Question, w *bufio.Writer) error {
	key, err := i.folder(q.URL, usageServe)
	if err != nil {
		return err
	}
	if inside, err := i.isBelow(key, q.Below); err != nil || !inside {
		return cmp.Or(err, fmt.Errorf("%w: only what is below %s is shown", ErrNotFound, q.Below))
	}
	after, err := hex.DecodeString(q.After)
	if err != nil {
		return fmt.Errorf("%q is no place in a list; %w: crawler %s", q.After, ErrUsage, usageServe)
	}
	if err := i.Index.Settle(ctx); err != nil {
		return err
	}
	n := int(min(max(q.Lines, 1), mostEntries))
	l := Listing{Prefix: q.URL}
	if len(key) == 0 || lastKind(key) == 0 {
		if len(key)+len(after) == 0 {
			err = i.firstSeeds(&l)
		}
		if err == nil {
			err = i.listHosts(&l, key, after, n)
		}
	} else if l.Prefix, err = record.URL(key); err == nil {
		err = i.listFolder(&l, key, after, n)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(&l)
}

// isBelow reports whether a key is, or lies below, that of a URL prefix.
func (i *Inspector) isBelow(key []byte, prefix string) (bool, error) {
	folder, err := i.folder(prefix, usageServe)
	if err != nil || len(folder) == 0 {
		return err == nil, err
	}
	in, err := newBelow(folder)
	if err != nil || !bytes.HasPrefix(key, folder) || in.origin == "" {
		return err == nil && bytes.HasPrefix(key, folder), err
	}
	url, err := record.URL(key)
	return in.has(url), err
}

// firstSeeds lists the first seeds.
func (i *Inspector) firstSeeds(l *Listing) error {
	enough := errors.New("enough")
	err := i.Tree.Seeds(iut.SeedMark{}, func(url string, _ iut.SeedMark) error {
		if l.Seeds = append(l.Seeds, url); len(l.Seeds) == mostSeeds {
			return enough
		}
		return nil
	})
	if err == enough {
		return nil
	}
	return err
}

// listHosts lists the origins below a key, which is a scheme or nil.
func (i *Inspector) listHosts(l *Listing, key, from []byte, n int) error {
	roots, next, err := i.Index.Folders().Origins(key, from, n)
	l.Next = hex.EncodeToString(next)
	for k, root := range roots {
		if err != nil {
			return err
		}
		if slices.ContainsFunc(roots[:k], func(r []byte) bool { return bytes.Equal(r, root) }) {
			continue
		}
		var url string
		if url, err = record.URL(root); err == nil {
			err = i.listHost(l, root, url)
		}
	}
	return err
}

// listHost lists an origin. Where other hosts or ports lie below its key, the counts are those of
// the host name.
func (i *Inspector) listHost(l *Listing, root []byte, url string) error {
	children, err := i.Index.Folders().Children(root, nil, 1)
	if err != nil {
		return err
	}
	n := node{key: root}
	if len(children) > 0 && (children[0].Key[len(root)] == record.Label || children[0].Key[len(root)] == record.Port) {
		host, err := i.Index.Hosts().Get(record.Host(url))
		if err != nil {
			return err
		}
		n.below = host.Counts
	} else {
		if n.below, err = i.Index.Folders().Counts(root); err != nil {
			return err
		}
		if r, err := i.record(url); err == nil {
			n.own = countOf(&r)
		}
	}
	l.Entries = append(l.Entries, Entry{Name: url, Folder: url, State: stateWord(n.sum(), false), Counts: countsOf(n.sum())})
	return nil
}

// listFolder lists what is directly in a folder.
func (i *Inspector) listFolder(l *Listing, key, after []byte, n int) error {
	first := len(after) == 0
	switch kind := lastKind(key); {
	case !first:
	case kind == record.Label || kind == record.Port:
		after = append(bytes.Clone(key), record.Port+1, 0) // behind other hosts
	default:
		after = nil
	}
	children, err := i.Index.Folders().Children(key, after, n+1)
	if err != nil {
		return err
	}
	if len(children) > n {
		children = children[:n]
		l.Next = hex.EncodeToString(children[n-1].Key)
	}
	if r, err := i.record(l.Prefix); first && err == nil {
		c := countOf(&r)
		l.Entries = append(l.Entries, Entry{Name: l.Prefix, URL: l.Prefix, State: stateWord(c, false), Counts: countsOf(c)})
	} else if first && len(children) == 0 {
		return fmt.Errorf("%w: nothing at or below %s", ErrNotFound, l.Prefix)
	}
	for _, c := range children {
		url, err := record.URL(c.Key)
		if err != nil {
			return err
		}
		node := newNode(c, "/"+string(c.Key[len(key)+1:len(c.Key)-1]))
		if c.Key[len(key)] == record.Query {
			node.name = "?" + node.name[1:]
		}
		e := Entry{Name: node.name, State: "damaged", Counts: countsOf(node.sum())}
		if !node.damaged {
			e.State = stateWord(node.sum(), false)
		}
		if c.Record != nil || node.damaged {
			e.URL = url
		}
		if c.Below.Records() > 0 {
			e.Folder = url
		}
		l.Entries = append(l.Entries, e)
	}
	return nil
}
