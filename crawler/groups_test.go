package crawler

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"
)

// TestZeroAndNegative: each number of Options says what 0 stands for, and is refused when it is
// negative unless it says what that means.
func TestZeroAndNegative(t *testing.T) {
	said := map[string]string{} // of a field, its comments
	for _, name := range []string{"options.go", "groups.go", "budgets.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok {
				for _, id := range f.Names {
					said[id.Name] += f.Doc.Text() + f.Comment.Text()
				}
			}
			return true
		})
	}
	numbers := 0
	var check func(typ reflect.Type, path []int)
	check = func(typ reflect.Type, path []int) {
		for i := range typ.NumField() {
			f, at := typ.Field(i), append(path[:len(path):len(path)], i)
			switch {
			case !f.IsExported():
				continue
			case f.Anonymous, f.Name == "Budgets", f.Name == "WARC":
				check(f.Type, at)
				continue
			case f.Type.Kind() != reflect.Int && f.Type.Kind() != reflect.Int64 || f.Name == "Scope":
				continue
			}
			numbers++
			text := said[f.Name]
			if f.Name == "ExternalAge" {
				text += said["External"]
			}
			budget := typ == reflect.TypeFor[Budgets]() // says it once for all
			if !strings.Contains(text, "0:") && !budget {
				t.Errorf("%s does not say what 0 stands for: %q", f.Name, text)
			}
			opts := Options{Seeds: []string{"http://a.test/"}, Ordering: Ordering{Order: OrderPriority}}
			if f.Name == "StepTime" {
				opts.Step = 1
			}
			if f.Name == "ExternalAge" {
				opts.Seeds, opts.External = nil, true
			}
			reflect.ValueOf(&opts).Elem().FieldByIndex(at).SetInt(-1)
			means := budget || strings.Contains(text, "negative") || f.Name == "Recrawl"
			_, err := opts.defaults()
			if (err == nil) != means || err != nil && !(errors.Is(err, ErrOptions) && strings.Contains(err.Error(), f.Name)) {
				t.Errorf("%s is -1: %v; a negative number has a meaning: %v", f.Name, err, means)
			}
		}
	}
	check(reflect.TypeFor[Options](), nil)
	if numbers < 40 {
		t.Errorf("%d numbers found", numbers)
	}
}
