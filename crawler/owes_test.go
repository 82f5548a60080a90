package crawler_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"urltree/crawler"
	"urltree/internal/faultfs"
	"urltree/iut"
)

// A markedDisk has as much room as it is told, and does not fill up.
type markedDisk struct {
	iut.FS
	room atomic.Uint64 // bytes
}

func (d *markedDisk) Free() (bytes, inodes uint64, err error) { return d.room.Load(), 1 << 40, nil }

// TestRoomForTheInbox: with exactly as much room as is to stay free a crawl goes on only as long as
// nothing waits in the inbox of the index, for what moving that takes is to stay free besides.
func TestRoomForTheInbox(t *testing.T) {
	t.Parallel()
	const mark, links = 1 << 30, 500
	var page strings.Builder
	for i := range links {
		fmt.Fprintf(&page, "<a href=/%d>", i)
	}
	dir := t.TempDir()
	disk := &markedDisk{FS: faultfs.NewMem()}
	disk.room.Store(mark)
	pauses := 0 // written in looks, of which there is one at a time, and read after the last
	opts := crawler.Options{
		Tree: filepath.Join(dir, "iut"), Output: filepath.Join(dir, "res.txt"), Seeds: []string{"http://a.test/"},
		Delay: -1, IgnoreRobots: true, NoSync: true, MaxPages: 2, FS: disk, MinFree: mark,
		Fetch: func(context.Context, string) (crawler.Content, error) {
			return crawler.Content{Media: "text/html", Body: []byte(page.String())}, nil
		},
		Log: slog.New(logTo{slog.DiscardHandler, func(r slog.Record) {
			if strings.HasPrefix(r.Message, "fetching pauses") {
				pauses++
				disk.room.Store(2 * mark)
			}
		}}),
	}
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	if pauses != 1 {
		t.Errorf("%d pauses, want 1: %d new URLs wait in the inbox, and no more than the mark is free", pauses, links)
	}
}
