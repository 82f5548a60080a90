package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"urltree/internal/testshare"
)

// pick replaces the packages at the end of args by those that have tests to be run, and puts -run
// with the names of these before them: with long only tests that have a short form, with share only
// the part of them that the environment names. There may be none: the result is nil then.
func pick(args []string, long, share bool) ([]string, error) {
	first := len(args)
	for first > 0 && strings.HasPrefix(args[first-1], ".") {
		first--
	}
	cmd := exec.Command("go", append([]string{
		"list", "-f",
		"{{.ImportPath}}\t{{.Dir}}{{range .TestGoFiles}}\t{{.}}{{end}}{{range .XTestGoFiles}}\t{{.}}{{end}}",
	}, args[first:]...)...)
	cmd.Stderr = os.Stderr
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages, names []string
	n := 0
	for line := range strings.Lines(string(list)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		var files []*ast.File
		for _, name := range fields[2:] {
			src, err := os.ReadFile(filepath.Join(fields[1], name))
			if err != nil {
				return nil, err
			}
			file, err := parse(name, src)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
		had := len(names)
		for _, name := range testsOf(files, long) {
			if n++; !share || testshare.Mine(n) {
				names = append(names, name)
			}
		}
		if len(names) > had {
			packages = append(packages, fields[0])
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	return slices.Concat(args[:first], []string{"-run", "^(" + strings.Join(names, "|") + ")$"}, packages), nil
}

// parse parses a file if it may have tests or functions that they call.
func parse(name string, src []byte) (*ast.File, error) {
	if !bytes.Contains(src, []byte("func ")) {
		return &ast.File{}, nil
	}
	return parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
}

// testsOf returns the names of the tests in the files of a package, sorted; with long only those
// that call testing.Short, themselves or through functions of these files.
func testsOf(files []*ast.File, long bool) (names []string) {
	calls := map[string]map[string]bool{} // names that the body of a function has
	for _, file := range files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil || f.Recv != nil {
				continue
			}
			has := map[string]bool{}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok {
						has[x.Name+"."+n.Sel.Name] = true
					}
				case *ast.Ident:
					has[n.Name] = true
				}
				return true
			})
			calls[f.Name.Name] = has
		}
	}
	short := map[string]bool{"testing.Short": true} // functions that call testing.Short in the end
	for found := true; found; {
		found = false
		for name, has := range calls {
			for called := range has {
				if short[called] && !short[name] {
					short[name], found = true, true
				}
			}
		}
	}
	for name := range calls {
		rest, ok := strings.CutPrefix(name, "Test")
		if r, _ := utf8.DecodeRuneInString(rest); ok && name != "TestMain" && !unicode.IsLower(r) && (short[name] || !long) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
