package crawler_test

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestOtherModule builds and runs examples/linkcheck, which is a module of its own and so cannot
// import what is internal. Its go.mod may be behind ours here: the copy that is built is brought
// up to date.
func TestOtherModule(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	mod := bytes.ReplaceAll(read("examples/linkcheck/go.mod"), []byte("=> ../.."), []byte("=> "+strconv.Quote(root)))
	for name, text := range map[string][]byte{"main.go": read("examples/linkcheck/main.go"), "go.mod": mod, "go.sum": read("go.sum")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", "linkcheck", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := httptest.NewServer(http.FileServerFS(os.DirFS("testdata/site")))
	defer server.Close()
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "linkcheck"), server.URL).Output()
	var code *exec.ExitError
	if !errors.As(err, &code) || code.ExitCode() != 1 {
		t.Errorf("exit: %v, want 1", err)
	}
	want := "U/trees/plum.html: http-4xx, on U/ U/trees/\n4 pages, 1 broken link: nothing left\n"
	if got := strings.ReplaceAll(string(out), server.URL, "U"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestLibraryImports: below the commands nothing reads flags, writes to the standard log or ends
// the process, which are the program's that uses the library.
func TestLibraryImports(t *testing.T) {
	checked := 0
	for _, top := range []string{"buffer", "cleaner", "crawler", "internal", "iut", "storage"} {
		err := filepath.WalkDir(filepath.Join("..", top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
			if err != nil || file.Name.Name == "main" {
				return err
			}
			checked++
			for _, name := range []string{"os.Exit(", "os.Args", "os.Stdout", "os.Stderr", "slog.Default(", "slog.SetDefault("} {
				if bytes.Contains(text, []byte(name)) {
					t.Errorf("%s has %s", path, name)
				}
			}
			for _, i := range file.Imports {
				name, err := strconv.Unquote(i.Path.Value)
				if err != nil {
					return err
				}
				if slices.Contains([]string{"flag", "log"}, name) || strings.HasPrefix(name, "urltree/cmd/") {
					t.Errorf("%s imports %s", path, name)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if checked < 100 {
		t.Errorf("only %d files were looked at", checked)
	}
}

// TestLibraryNames: what options and results are made of is the library that docs/library.md
// names, so that nobody needs what is internal or changes with the engine.
func TestLibraryNames(t *testing.T) {
	text, err := os.ReadFile("../docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{} // of each package of the table
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1) {
		names["urltree/"+row[1]] = row[2]
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		imports := map[string]string{}
		for _, i := range file.Imports {
			if name, _ := strconv.Unquote(i.Path.Value); strings.HasPrefix(name, "urltree/") {
				imports[name[strings.LastIndex(name, "/")+1:]] = name
			}
		}
		for _, decl := range file.Decls {
			for name, expr := range exported(decl) {
				if strings.Contains(names["urltree/crawler"], "`"+name+"`") {
					continue // the command's alone
				}
				ast.Inspect(expr, func(n ast.Node) bool {
					if of, ok := n.(*ast.StructType); ok {
						of.Fields.List = slices.DeleteFunc(of.Fields.List, func(f *ast.Field) bool {
							return len(f.Names) > 0 && !f.Names[0].IsExported()
						})
					}
					sel, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					if from, ours := imports[sel.X.(*ast.Ident).Name]; ours {
						found++
						if of := names[from]; of != "all" && !strings.Contains(of, "`"+sel.Sel.Name+"`") {
							t.Errorf("%s: %s needs %s of %s, which docs/library.md does not name", path, name, sel.Sel.Name, from)
						}
					}
					return true
				})
			}
		}
	}
	if found < 9 {
		t.Errorf("only %d types of other packages were met", found)
	}
}

// exported returns the types of what a declaration exports, by name; methods by that of their type.
func exported(decl ast.Decl) map[string]ast.Expr {
	types := map[string]ast.Expr{}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			of := d.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			name = of.(*ast.Ident).Name
		}
		if d.Name.IsExported() && ast.IsExported(name) {
			types[name] = d.Type
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() {
				types[s.Name.Name] = s.Type
			}
		}
	}
	return types
}
