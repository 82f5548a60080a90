package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRooms: the table of docs/architecture.md names each package, above those that it imports, and
// all of these. Imports of tests do not count.
func TestRooms(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| room | what it is | may import |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var rooms []string           // from the top down
	may := map[string][]string{} // imports, by room
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\|.*\\| (.*) \\|$").FindAllStringSubmatch(table, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
			may[row[1]] = append(may[row[1]], name[1])
		}
		rooms = append(rooms, row[1])
	}
	for name, problem := range compareRooms(rooms, may, packages(t, root)) {
		t.Errorf("docs/architecture.md, table of rooms: %s: %s", name, problem)
	}
}

// compareRooms returns what is wrong with a table, by room.
func compareRooms(rooms []string, may, imports map[string][]string) map[string]string {
	wrong := map[string]string{}
	for name, list := range imports {
		at := slices.Index(rooms, name)
		if at < 0 {
			wrong[name] = "is not there"
			continue
		}
		for _, i := range list {
			switch {
			case !slices.Contains(may[name], i):
				wrong[name] = "may not import " + i
			case !slices.Contains(rooms[at+1:], i):
				wrong[name] = "imports " + i + ", which is not below it"
			}
		}
	}
	for _, name := range rooms {
		if _, ok := imports[name]; !ok {
			wrong[name] = "there is no such package"
		}
		for _, i := range may[name] {
			if !slices.Contains(imports[name], i) {
				wrong[name] = "does not import " + i
			}
		}
	}
	return wrong
}

// packages returns the packages of this module, each with those that it imports, on any system.
func packages(t *testing.T, root string) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root {
			_, module := os.Stat(filepath.Join(path, "go.mod"))
			if name := entry.Name(); module == nil || name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
				return filepath.SkipDir
			}
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(folder)
		imports[name] = slices.Grow(imports[name], 1) // there, even without imports
		for _, i := range file.Imports {
			of, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if of, ours := strings.CutPrefix(of, "urltree/"); ours && !slices.Contains(imports[name], of) {
				imports[name] = append(imports[name], of)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}

// TestCompareRooms takes a table that is right, and makes one mistake in it.
func TestCompareRooms(t *testing.T) {
	imports := map[string][]string{"top": {"middle", "low"}, "middle": {"low"}, "low": nil}
	for _, tt := range []struct {
		rooms, may, wrong string
	}{
		{"top middle low", "middle low", ""},
		{"top middle", "middle low", "low: is not there"},
		{"top middle low", "low", "top: may not import middle"},
		{"middle top low", "middle low", "top: imports middle, which is not below it"},
		{"top middle low", "middle low low2", "top: does not import low2"},
		{"top middle low attic", "middle low", "attic: there is no such package"},
	} {
		wrong := compareRooms(strings.Fields(tt.rooms), map[string][]string{"top": strings.Fields(tt.may), "middle": {"low"}}, imports)
		name, problem, _ := strings.Cut(tt.wrong, ": ")
		if tt.wrong == "" && len(wrong) > 0 || tt.wrong != "" && wrong[name] != problem {
			t.Errorf("%q, %q: %q, want %q", tt.rooms, tt.may, wrong, tt.wrong)
		}
	}
}
