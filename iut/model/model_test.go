package model_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// folders says where the packages are that the models name.
var folders = map[string]string{
	"buffer":   "../../buffer",
	"cleaner":  "../../cleaner",
	"cluster":  "../../internal/cluster",
	"crawler":  "../../crawler",
	"frontier": "../../internal/frontier",
	"iut":      "..",
	"storage":  "../../storage",
	"record":   "../../storage/record",
}

var (
	goComment = regexp.MustCompile(`Go: ([^*]+)\*/`)
	goName    = regexp.MustCompile(`\b[a-z]+(\.\w+)+`)
	brokenRE  = regexp.MustCompile(`\bBREAK_[a-z_]{2,}\b`)
)

// TestNames fails when a step of a model stands for a function that is gone.
func TestNames(t *testing.T) {
	used := make(map[string]bool)
	have := make(map[string]map[string]bool) // by folder
	for _, model := range models(t) {
		comments := goComment.FindAllStringSubmatch(read(t, model), -1)
		if len(comments) == 0 {
			t.Errorf("%s names no function", model)
		}
		for _, comment := range comments {
			names := goName.FindAllString(comment[1], -1)
			if len(names) == 0 {
				t.Errorf("%s: %q names no function", model, comment[0])
			}
			for _, name := range names {
				pkg, function, _ := strings.Cut(name, ".")
				folder, ok := folders[pkg]
				if !ok {
					t.Errorf("%s: %s: unknown package", model, name)
					continue
				}
				used[pkg] = true
				if have[folder] == nil {
					have[folder] = functions(t, folder)
				}
				if !have[folder][function] {
					t.Errorf("%s: there is no function %s", model, name)
				}
			}
		}
	}
	for pkg := range folders {
		if !used[pkg] {
			t.Errorf("no model names a function of package %s", pkg)
		}
	}
}

// TestReadme fails when the section of a model in README.md tells of other rules than the model
// has.
func TestReadme(t *testing.T) {
	sections := map[string]string{}
	for _, section := range strings.Split(read(t, "README.md"), "\n## ")[1:] {
		model, _, _ := strings.Cut(section, ":")
		sections[model] = section
	}
	for _, model := range models(t) {
		told := distinct(brokenRE.FindAllString(sections[model], -1))
		have := distinct(brokenRE.FindAllString(read(t, model), -1))
		if len(have) == 0 || !slices.Equal(told, have) {
			t.Errorf("README.md tells of\n%s\n%s has\n%s", told, model, have)
		}
	}
}

// TestTable fails when docs/verification.md lacks a rule, or names another line for it than the
// model has.
func TestTable(t *testing.T) {
	row := regexp.MustCompile(`\| (\w+) \| .*-D(BREAK_\w+)\b.* \|.*, \w+\.pml:(\d+) \|`)
	told := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(read(t, "../../docs/verification.md"), -1) {
		told[m[1]+".pml "+m[2]] = m[3]
	}
	for _, model := range models(t) {
		lines := strings.Split(read(t, model), "\n")
		for _, rule := range distinct(brokenRE.FindAllString(read(t, model), -1)) {
			n, err := strconv.Atoi(told[model+" "+rule])
			if err != nil || n > len(lines) || !strings.HasPrefix(lines[n-1], "#") || !slices.Contains(brokenRE.FindAllString(lines[n-1], -1), rule) {
				t.Errorf("docs/verification.md: the line of %s in %s is not %q", rule, model, told[model+" "+rule])
			}
		}
	}
}

func models(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("*.pml")
	if err != nil || len(names) == 0 {
		t.Fatalf("models: %v, %v", names, err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// functions returns the functions of a folder's package, methods as Type.Method, without tests.
func functions(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				found[receiver(f)+f.Name.Name] = true
			}
		}
	}
	return found
}

// receiver returns the type of a method and a dot, or "".
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	return typ.(*ast.Ident).Name + "."
}
