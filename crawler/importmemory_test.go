package crawler_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"urltree/crawler"
)

// TestMemoryOfImport imports archives that are made to take memory, with little of it given: own
// memory stays below its bound.
func TestMemoryOfImport(t *testing.T) {
	cmd := buildCommand(t)
	many := strings.Repeat("all that is said besides ", 200_000)
	for _, tt := range []struct {
		name  string
		n     int // captures
		block func(w io.Writer, i int)
		about string
	}{
		{"large pages of links", 6, func(w io.Writer, i int) {
			for j := range 400_000 {
				fmt.Fprintf(w, "<a href='/%d/%d'>a page</a>      ", i, j)
			}
		}, ""},
		{"large headers and metadata", 60, func(w io.Writer, i int) { fmt.Fprintf(w, "<p>%d", i) }, "note: " + many + "\r\nvia: http://a.example/\r\n"},
		{"many captures", 60_000, func(w io.Writer, i int) { fmt.Fprintf(w, "%d", i%10) }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file, err := os.Create(filepath.Join(dir, "a.warc.gz"))
			if err != nil {
				t.Fatal(err)
			}
			out := bufio.NewWriterSize(file, 1<<20)
			z, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
			if err != nil {
				t.Fatal(err)
			}
			record := func(kind, url string, length int64, block func(io.Writer)) {
				z.Reset(out)
				fmt.Fprintf(z, "WARC/1.1\r\nWARC-Type: %s\r\nWARC-Target-URI: %s\r\nWARC-Payload-Digest: sha1:of-%[2]s\r\nContent-Length: %d\r\n\r\n", kind, url, length)
				block(z)
				io.WriteString(z, "\r\n\r\n")
				if err := z.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for i := range tt.n {
				url := fmt.Sprintf("http://a.example/%d", i)
				var size counter
				head := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
				if tt.about != "" {
					head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Long: " + many[:900_000] + "\r\n\r\n"
				}
				block := func(w io.Writer) {
					io.WriteString(w, head)
					tt.block(w, i)
				}
				block(&size)
				record("response", url, int64(size), block)
				if tt.about != "" {
					record("metadata", url, int64(len(tt.about)), func(w io.Writer) { io.WriteString(w, tt.about) })
				}
			}
			if err := out.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
			opts := crawler.Options{Resources: crawler.Resources{Crawlers: 1, Buffers: 1, MemoryBodies: 1 << 20, BufferBytes: 1 << 20, FrontierBytes: 1 << 20, SeenBytes: 1 << 20}}
			peak := cmd.measure(t, dir, nil, "import", "-quiet", "-sync", "none", "-store", "warc", "-budget-prefix", "0",
				"-memory-bodies", "1MiB", "-buffer-bytes", "1MiB", "-frontier-memory", "1MiB", "-seen-memory", "1MiB", "a.warc.gz")
			requireMemory(t, peak, opts)
		})
	}
}

// A counter counts what is written.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
