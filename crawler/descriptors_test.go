package crawler

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
)

// TestFit: however few files there are, those that crawlers, builders and idle connections may
// open are not more, and some of each are left.
func TestFit(t *testing.T) {
	for files := range int64(1200) {
		var log bytes.Buffer
		opts, err := Options{Log: slog.New(slog.NewTextHandler(&log, nil))}.defaults()
		if err != nil {
			t.Fatal(err)
		}
		err = opts.fit(files)
		if few := files < 35; few != errors.Is(err, ErrOptions) {
			t.Fatalf("%d files: %v", files, err)
		} else if few {
			continue
		}
		need := fixedFiles + opts.Buffers*builderFiles + opts.Crawlers*opts.Downloads*downloadFiles + opts.idle
		if int64(need) > files || opts.Buffers < 1 || opts.Crawlers < 1 || opts.Downloads < 1 || opts.idle < 1 {
			t.Fatalf("%d files, but %d are needed for %d buffers, %d x %d downloads, %d idle connections",
				files, need, opts.Buffers, opts.Crawlers, opts.Downloads, opts.idle)
		}
		if bytes, inodes := opts.reserve(); opts.MinFree != bytes || opts.MinFreeInodes != inodes {
			t.Fatalf("%d files: %d bytes and %d inodes are to stay free, want %d and %d", files, opts.MinFree, opts.MinFreeInodes, bytes, inodes)
		}
		same := opts.Buffers == 6 && opts.Crawlers == 12 && opts.Downloads == 4
		if same != (files >= 28+6*3+48*3+1) || same != (log.Len() == 0) {
			t.Fatalf("%d files: %d buffers, %d x %d downloads, told %q", files, opts.Buffers, opts.Crawlers, opts.Downloads, &log)
		}
	}
}
