package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A name in a comment: of another package of ours, and in brackets.
var (
	qualified = regexp.MustCompile(`\b([a-z]+)\.([A-Z][A-Za-z0-9]+)\b`)
	bracketed = regexp.MustCompile(`\[([A-Z][A-Za-z]+)(?:\.[A-Za-z]+)?\]`)
)

// TestReferences: what comments name as pkg.Name, where pkg is a package of ours, and what they
// name in brackets, is there.
func TestReferences(t *testing.T) {
	exported := map[string]map[string]bool{} // by package; those of one name together
	type file struct {
		*ast.File
		set *token.FileSet
	}
	var files []file
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "bin" || name == ".git" || name == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		names := exported[parsed.Name.Name]
		if names == nil {
			names = map[string]bool{}
			exported[parsed.Name.Name] = names
		}
		declared(parsed, names)
		files = append(files, file{parsed, set})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(exported, "main")
	for _, f := range files {
		if strings.HasSuffix(f.set.Position(f.Pos()).Filename, "_test.go") {
			continue
		}
		imported := map[string]bool{} // packages that are not ours, by name
		for _, i := range f.Imports {
			if path := strings.Trim(i.Path.Value, `"`); !strings.HasPrefix(path, "urltree/") {
				imported[path[strings.LastIndexByte(path, '/')+1:]] = true
			}
		}
		for _, group := range f.Comments {
			text := group.Text()
			for _, m := range qualified.FindAllStringSubmatch(text, -1) {
				if names := exported[m[1]]; names != nil && !imported[m[1]] && !names[m[2]] {
					t.Errorf("%s: there is no %s", f.set.Position(group.Pos()), m[0])
				}
			}
			for _, m := range bracketed.FindAllStringSubmatch(text, -1) {
				if !exported[f.Name.Name][m[1]] && f.Name.Name != "main" {
					t.Errorf("%s: there is no %s", f.set.Position(group.Pos()), m[0])
				}
			}
		}
	}
}

// declared adds what a file declares, methods among it.
func declared(f *ast.File, names map[string]bool) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names[d.Name.Name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names[n.Name] = true
					}
				}
			}
		}
	}
}
