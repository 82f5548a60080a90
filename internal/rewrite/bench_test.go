package rewrite

import (
	"io"
	"strings"
	"testing"
)

func BenchmarkCopy(b *testing.B) {
	page := strings.Repeat(`<p class="x"><a class="reference" href="../library/x.html#y">text of it</a> and <em>more</em> text</p>`+"\n", 1000)
	d := Document{URL: home, Media: "text/html", Replace: mark}
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		if err := d.Copy(io.Discard, strings.NewReader(page)); err != nil {
			b.Fatal(err)
		}
	}
}
