package crawler_test

import (
	"bytes"
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestOtherModule builds and runs bench/linkcheck, which is a module of its own and so cannot
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
	mod := bytes.ReplaceAll(read("bench/linkcheck/go.mod"), []byte("=> ../.."), []byte("=> "+strconv.Quote(root)))
	for name, text := range map[string][]byte{"main.go": read("bench/linkcheck/main.go"), "go.mod": mod, "go.sum": read("go.sum")} {
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
			for _, name := range []string{"os.Exit(", "os.Args", "os.Stdout", "os.Stderr", "slog.Default(", "slog.SetDefault("} {
				if bytes.Contains(text, []byte(name)) {
					t.Errorf("%s has %s", path, name)
				}
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
			if err != nil {
				return err
			}
			checked++
			for _, i := range file.Imports {
				name, err := strconv.Unquote(i.Path.Value)
				if err != nil {
					return err
				}
				if slices.Contains([]string{"flag", "log", "github.com/urfave/cli/v2"}, name) || strings.HasPrefix(name, "urltree/cmd/") {
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
