package storage

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// TestGrowth commits links of all shapes: the file grows by no more than was said before.
func TestGrowth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = 'a' + byte(r.IntN(26))
		}
		return string(b)
	}
	path := func(segments, size int) string {
		var b strings.Builder
		for range segments {
			b.WriteString("/" + word(size))
		}
		return b.String()
	}
	long := path(20, 90)
	for _, shape := range []struct {
		name string
		link func(i int) string
	}{
		{"short", func(int) string { return path(2, 8) }},
		{"long", func(int) string { return path(2, 900) }},
		{"deep", func(int) string { return path(20, 90) }},
		{"in one folder", func(i int) string { return fmt.Sprint(long, "/", i) }},
		{"query", func(int) string { return "/a?" + word(1800) }},
	} {
		for _, inbox := range []int{0, 1000} {
			for _, prefix := range []int64{0, 3000} {
				if testing.Short() && (inbox > 0) != (prefix > 0) {
					continue
				}
				t.Run(fmt.Sprint(shape.name, inbox, prefix), func(t *testing.T) {
					x, file := newIndex(t, 0)
					if err := x.Close(); err != nil {
						t.Fatal(err)
					}
					x = open(t, file, Options{NoSync: true, SeenMemory: 16 << 20, Inbox: inbox, Limits: Limits{Prefix: prefix}})
					x.Filter().SetComplete()
					size := func() int64 {
						info, err := os.Stat(file)
						if err != nil {
							t.Fatal(err)
						}
						return info.Size()
					}
					for n := range 4 {
						o := &Outcome{}
						for i, weight := 0, 0; i < 1500 && weight < MostWeight/2; i++ {
							url := "http://a.org" + shape.link(n*1500+i)
							o.Links = append(o.Links, Link{URL: url, Source: "http://a.org" + long, Depth: 1})
							weight += weigh(&o.Links[i])
						}
						said, err := x.Growth([]*Outcome{o})
						if err != nil {
							t.Fatal(err)
						}
						before := size()
						if _, err := x.Commit([]*Outcome{o}); err != nil {
							t.Fatal(err)
						}
						if grown := size() - before; grown > said {
							t.Errorf("commit %d of %d links: grown by %d bytes, at most %d were said", n, len(o.Links), grown, said)
						}
					}
				})
			}
		}
	}
}
