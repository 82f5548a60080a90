package iut

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// formatVersion is the version of the layout on disk. A tree of a version from oldestFormat on can
// be upgraded: version 3 added budget-domain, version 4 the options and secrets of [Kept].
const (
	formatVersion = 4
	oldestFormat  = 2
)

// formatWord begins the first line of FORMAT in every version.
const formatWord = "urltree "

// formatLine returns the first line of FORMAT of a version.
func formatLine(version int) string { return formatWord + strconv.Itoa(version) + "\n" }

var (
	// ErrFormat says that FORMAT is missing beside other files, or is not what a version of
	// this program wrote.
	ErrFormat = errors.New("iut: bad FORMAT")
	// ErrOlder says that FORMAT is of a version before this one: see [Options.Upgrade].
	ErrOlder = errors.New("iut: FORMAT is of the version before")
	// ErrIdentity says that a tree was made with other rules than the ones asked for.
	ErrIdentity = errors.New("iut: tree was created with other rules")
)

// A Format is what the file FORMAT says.
type Format struct {
	Identity
	Kept  Kept
	Links LinkOptions
	Sync  string // how the latest run synced, see [Disk.SyncMode]
	// Converting is the store that pages are being brought into, see [Conversion]; "": none.
	Converting string
	// Forgetting says that what is to be forgotten may still be in the tree, see [Tree.Forget].
	Forgetting bool
	// Forgotten is what is kept out of the tree. It stands in a file of its own, and is set by
	// [Tree.Format] alone; nil: nothing is.
	Forgotten *Forgotten
	// Versions is how many versions of a page are kept, see [Tree.Versions]; 0: one, as ever.
	Versions spare
	Uniting  bool // the tree is not made yet, see [Options.Uniting]
}

// An Identity is fixed when the tree is made, but for Store, which a [Conversion] changes.
type Identity struct {
	Canonical string // version of the canonical form of URLs
	Strip     string // what is stripped from URLs
	Partition string // the key by which hosts are shared out
	// Store is where pages are: [StoreFolders], or [StoreWARC]; "": in folders, and for Open as the
	// tree has them.
	Store string
	// FoldCase is found out when the tree is made; Open ignores the caller's value.
	FoldCase bool
}

// The stores, as Identity.Store.
const (
	StoreFolders = "folders"
	StoreWARC    = "warc" // in WARC files, called segments
)

// Stores are the values of Identity.Store.
var Stores = []string{StoreFolders, StoreWARC}

// Kept is what the caller of a run keeps for later runs, see [Tree.Keep]. This package and the
// engine do not interpret it.
type Kept struct {
	Options []string // NAME=VALUE, in the caller's order; a list has one for each of its values
	Secrets []string // names of options that were given and whose values are not kept
}

// Equal reports whether both keep the same.
func (k Kept) Equal(other Kept) bool {
	return slices.Equal(k.Options, other.Options) && slices.Equal(k.Secrets, other.Secrets)
}

// LinkOptions decide, besides a page's folder, which of its links count. They are those of
// the latest run.
type LinkOptions struct {
	Scope    string
	Include  []string
	Exclude  []string
	MaxDepth int // links from a seed; negative: no limit
	Assets   bool
	NoFollow string // whose nofollow counts: page, all or none
	Robots   string
	Accept   []string
	Budgets  Budgets
}

// Budgets are those of the options of the same names; 0: no limit.
type Budgets struct {
	Domain, Host, Prefix, Query, Repeat, Depth, MaxHeld int64
}

// A field is a line of FORMAT, or several of a list.
type field struct {
	key   string
	value any // *optional, *spare, *mark, *string, *bool, *int, *int64 or *[]string; nil: the key is a comment
	since int // version of FORMAT that brought it
}

// An optional is a value without a line in FORMAT if it is empty: a store.
type optional string

// A spare is a number without a line in FORMAT if it is 0.
type spare int

// A mark is a bool without a line in FORMAT if it is false.
type mark bool

// fields returns those of f in the order of the file. One that is always there comes last, so that
// no part of a file is a file.
func (f *Format) fields() []field {
	l, b := &f.Links, &f.Links.Budgets
	return []field{
		{"# Fixed when the tree was made.", nil, 0},
		{"canonical", &f.Canonical, 0},
		{"strip", &f.Strip, 0},
		{"partition", &f.Partition, 0},
		{"escape-capitals", &f.FoldCase, 0},
		{"store", (*optional)(&f.Store), 4},
		{"converting", (*optional)(&f.Converting), 4},
		{"forgetting", (*mark)(&f.Forgetting), 4},
		{"uniting", (*mark)(&f.Uniting), 4},
		{"# Given to the command, for later runs: see crawler options.", nil, 4},
		{"option", &f.Kept.Options, 4},
		{"secret", &f.Kept.Secrets, 4},
		{"# Of the latest run.", nil, 0},
		{"sync", &f.Sync, 0},
		{"versions", &f.Versions, 4},
		{"scope", &l.Scope, 0},
		{"include", &l.Include, 0},
		{"exclude", &l.Exclude, 0},
		{"accept", &l.Accept, 0},
		{"budget-domain", &b.Domain, 3},
		{"budget-host", &b.Host, 0},
		{"budget-prefix", &b.Prefix, 0},
		{"budget-query", &b.Query, 0},
		{"budget-repeat", &b.Repeat, 0},
		{"budget-depth", &b.Depth, 0},
		{"max-held", &b.MaxHeld, 0},
		{"max-depth", &l.MaxDepth, 0},
		{"assets", &l.Assets, 0},
		{"nofollow", &l.NoFollow, 0},
		{"robots", &l.Robots, 0},
	}
}

// append appends the file in this version.
func (f *Format) append(b []byte) []byte { return f.appendVersion(b, formatVersion) }

// appendVersion appends the file: one "key = value" per line, lists as one line per value.
func (f *Format) appendVersion(b []byte, version int) []byte {
	b = append(b, formatLine(version)...)
	for _, field := range f.fields() {
		if field.since > version {
			continue
		}
		switch v := field.value.(type) {
		case nil:
			b = append(append(b, field.key...), '\n')
		case *optional:
			if *v != "" {
				b = appendText(b, field.key, string(*v))
			}
		case *spare:
			if *v != 0 {
				b = appendText(b, field.key, strconv.Itoa(int(*v)))
			}
		case *mark:
			if *v {
				b = appendText(b, field.key, "yes")
			}
		case *string:
			b = appendText(b, field.key, *v)
		case *bool:
			b = appendText(b, field.key, map[bool]string{false: "no", true: "yes"}[*v])
		case *[]string:
			for _, s := range *v {
				b = appendText(b, field.key, s)
			}
		case *int:
			b = appendText(b, field.key, strconv.Itoa(*v))
		case *int64:
			b = appendText(b, field.key, strconv.FormatInt(*v, 10))
		}
	}
	return b
}

// parseFormat reads what appendVersion wrote for this version or an older one, and nothing else but
// other comments: an unknown, missing or repeated key, another order or spelling is [ErrFormat]
// with the line. Keys that the older version did not have are zero. Lines may end as an editor of
// another system ends them, by CR LF.
func parseFormat(b []byte) (f Format, version int, err error) {
	b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	version = formatVersion
	for version >= oldestFormat && !bytes.HasPrefix(b, []byte(formatLine(version))) {
		version--
	}
	if version < oldestFormat {
		first, _, _ := bytes.Cut(b, []byte{'\n'})
		return f, 0, fmt.Errorf("%w: line 1: %.40q, this program reads %q", ErrFormat, first, strings.TrimSpace(formatLine(formatVersion)))
	}
	lines, number := withoutComments(b)
	for i, line := range lines[1:] {
		if line == "" {
			continue
		}
		key, value, ok := strings.Cut(line, " = ")
		if !ok {
			return f, version, fmt.Errorf("%w: line %d: want key = value", ErrFormat, number[i+1])
		}
		if err := f.set(key, value); err != nil {
			return f, version, fmt.Errorf("%w: line %d: %s: %w", ErrFormat, number[i+1], key, err)
		}
	}
	again, _ := withoutComments(f.appendVersion(nil, version))
	for i := range max(len(lines), len(again)) {
		switch {
		case i >= len(lines):
			return f, version, fmt.Errorf("%w: line %d: missing: want %q", ErrFormat, number[i-1]+1, again[i])
		case i >= len(again):
			return f, version, fmt.Errorf("%w: line %d: %.40q: nothing may stand here", ErrFormat, number[i], lines[i])
		case lines[i] != again[i]:
			return f, version, fmt.Errorf("%w: line %d: %.40q, want %.40q", ErrFormat, number[i], lines[i], again[i])
		}
	}
	return f, version, nil
}

// withoutComments returns the lines that do not begin with #, and their numbers in the file.
func withoutComments(b []byte) (lines []string, number []int) {
	for i, line := range strings.Split(string(b), "\n") {
		if !strings.HasPrefix(line, "#") {
			lines, number = append(lines, line), append(number, i+1)
		}
	}
	return lines, number
}

func (f *Format) set(key, value string) (err error) {
	if value, err = parseText(value); err != nil {
		return err
	}
	for _, field := range f.fields() {
		if field.key != key {
			continue
		}
		switch v := field.value.(type) {
		case *optional:
			if *v = optional(value); value != StoreWARC && (value != StoreFolders || key == "store") {
				return fmt.Errorf("this program does not know the store %q", value)
			}
		case *spare:
			n := 0
			n, err = strconv.Atoi(value)
			*v = spare(n)
		case *mark:
			*v = value == "yes"
		case *string:
			*v = value
		case *bool:
			*v = value == "yes"
		case *[]string:
			*v = append(*v, value)
		case *int:
			*v, err = strconv.Atoi(value)
		case *int64:
			*v, err = strconv.ParseInt(value, 10, 64)
		}
		return err
	}
	return errors.New("unknown key")
}

// appendText writes plain text as it is, and what could be misread or would end the line quoted.
func appendText(b []byte, key, value string) []byte {
	b = append(append(b, key...), " = "...)
	if isPlain(value) {
		b = append(b, value...)
	} else {
		b = strconv.AppendQuote(b, value)
	}
	return append(b, '\n')
}

func parseText(value string) (string, error) {
	if isPlain(value) {
		return value, nil
	}
	return strconv.Unquote(value)
}

func isPlain(s string) bool {
	if s == "" || s[0] == '"' || strings.TrimSpace(s) != s || !utf8.ValidString(s) {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// StoreName returns the Store by its name.
func (id Identity) StoreName() string { return cmp.Or(id.Store, StoreFolders) }

// SameRules reports whether a tree of identity id can be used with want.
func (id Identity) SameRules(want Identity) error {
	for _, rule := range []struct{ name, has, want string }{
		{"canonical", id.Canonical, want.Canonical},
		{"strip", id.Strip, want.Strip},
		{"partition", id.Partition, want.Partition},
		{"store", id.StoreName(), cmp.Or(want.Store, id.StoreName())},
	} {
		if rule.has != rule.want {
			return fmt.Errorf("%w: %s %q, not %q", ErrIdentity, rule.name, rule.has, rule.want)
		}
	}
	return nil
}
