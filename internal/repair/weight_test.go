package repair

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"urltree/internal/testsite"
	"urltree/iut"
	"urltree/storage/record"
)

// A longParser finds so many long links in each page, with a few folders each.
type longParser struct {
	testsite.Parser
	links int
}

func (p *longParser) Parse(f iut.Facts, _ []byte) (parsed iut.Parsed) {
	for i := range p.links {
		url := fmt.Sprintf("%s/%s%d", f.URL, strings.Repeat(strings.Repeat("long", 50)+"/", 9), i)
		parsed.Links = append(parsed.Links, record.Link{URL: url, Source: f.URL, Depth: f.PageDepth + 1})
	}
	return parsed
}

// TestTransactionsOfLongLinks: no transaction of a rebuild, nor of one that looks for links again,
// takes more than it should because of links, whether many pages give them or one.
func TestTransactionsOfLongLinks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ pages, links int }{{1, 1500}, {15, 100}} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			s := testsite.New(t, filepath.Join(t.TempDir(), "iut"))
			defer s.Close()
			for i := range tt.pages {
				s.Write(fmt.Sprintf("http://a.org/%d", i), record.Seed, 0)
			}
			p := &longParser{links: tt.links}
			weight := p.weight() * tt.pages
			least := uint64(weight/record.MostWeight) + 1
			for _, step := range []struct {
				name string
				run  func() (int, error)
			}{
				{"rebuild", func() (int, error) {
					report, err := newRebuild(s.Tree, s.Index, p, nil).run(context.Background())
					return report.Found, err
				}},
				{"relink", func() (int, error) {
					return Relink(context.Background(), s.Tree, s.Index, p, false, nil, nil)
				}},
			} {
				before, err := s.Index.Transaction()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := step.run(); err != nil {
					t.Fatal(err)
				}
				after, err := s.Index.Transaction()
				if err != nil {
					t.Fatal(err)
				}
				if least < 5 || after-before < least {
					t.Errorf("%s: links of %d bytes in %d transactions, want at least %d", step.name, weight, after-before, least)
				}
				if n := s.Index.Totals().Pending(); n != int64(tt.pages*tt.links) {
					t.Errorf("%s: %d URLs are pending, want %d", step.name, n, tt.pages*tt.links)
				}
			}
			noFaults(t, s, CheckOptions{Links: true}, p)
		})
	}
}

// weight is that of a page.
func (p *longParser) weight() int {
	o := record.Outcome{Links: p.Parse(iut.Facts{URL: "http://a.org/0"}, nil).Links}
	return o.Weight()
}
