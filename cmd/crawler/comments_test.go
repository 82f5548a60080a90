package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestComments: in the whole repository no line that is a comment has more than 100 characters, and
// no doc comment says that something gives, tells or wants: it returns, reports whether, requires.
func TestComments(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "bin" || name == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		checked++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		bad, err := badComments(path, text)
		for _, b := range bad {
			t.Error(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 400 {
		t.Errorf("only %d files were looked at", checked)
	}
}

// badVerb matches the beginning of a doc comment with a verb that is not to be used there.
var badVerb = regexp.MustCompile(`^(?:(?:A|An|The|Package) )?[\w.]+ (?:\w+ )?(?:gives|tells|wants|is told)\b`)

// badComments returns the comments of a file that are too long or begin in the wrong way, each with
// its place. Directives, and comments behind code in the same line, may be of any length.
func badComments(path string, text []byte) (bad []string, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	complain := func(pos token.Pos, problem string) {
		bad = append(bad, set.Position(pos).String()+": "+problem)
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			at := set.Position(c.Pos())
			before := text[at.Offset-at.Column+1 : at.Offset]
			if len(bytes.TrimSpace(before)) == 0 && !strings.HasPrefix(c.Text, "//go:") &&
				utf8.RuneCount(before)+utf8.RuneCountInString(c.Text) > 100 {
				complain(c.Pos(), "the comment has more than 100 characters")
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		var doc *ast.CommentGroup
		switch n := n.(type) {
		case *ast.File:
			doc = n.Doc
		case *ast.FuncDecl:
			doc = n.Doc
		case *ast.GenDecl:
			doc = n.Doc
		case *ast.TypeSpec:
			doc = n.Doc
		case *ast.ValueSpec:
			doc = n.Doc
		case *ast.Field:
			doc = n.Doc
		}
		if doc != nil && badVerb.MatchString(doc.Text()) {
			first, _, _ := strings.Cut(doc.Text(), "\n")
			complain(doc.Pos(), "the doc comment begins with "+first)
		}
		return true
	})
	return bad, nil
}

func TestBadComments(t *testing.T) {
	long := strings.Repeat("x", 100)
	got, err := badComments("a.go", []byte(`// Package a gives what it has.
package a

// F tells whether it does.
func F() bool { return true } // `+long+`

// `+long+`

//go:generate `+long+`

// A T is told of all. `+"\n"+`type T struct {
	// G returns what it gives.
	G func() int
	// H wants nothing.
	H int
}

var s = `+"`\n// "+long+"`\n"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	want := []string{
		"a.go:11:1: the doc comment begins with A T is told of all.",
		"a.go:15:2: the doc comment begins with H wants nothing.",
		"a.go:1:1: the doc comment begins with Package a gives what it has.",
		"a.go:4:1: the doc comment begins with F tells whether it does.",
		"a.go:7:1: the comment has more than 100 characters",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
