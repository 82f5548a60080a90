package crawler_test

import (
	"testing"

	"urltree/crawler"
)

// TestMemoryOfDefaults: a field that is zero counts as its default, each by itself.
func TestMemoryOfDefaults(t *testing.T) {
	all := crawler.Options{
		Resources: crawler.Resources{
			Buffers:       6,
			BufferBytes:   16 << 20,
			Crawlers:      12,
			Downloads:     4,
			MemoryBodies:  64 << 20,
			FrontierBytes: 64 << 20,
			SeenBytes:     256 << 20,
		},
	}
	want := all.Memory()
	if got := (crawler.Options{}).Memory(); got != want {
		t.Errorf("Options{}.Memory() = %d, with all defaults written out %d", got, want)
	}
	for name, unset := range map[string]func(*crawler.Options){
		"Buffers":       func(o *crawler.Options) { o.Buffers = 0 },
		"BufferBytes":   func(o *crawler.Options) { o.BufferBytes = 0 },
		"Crawlers":      func(o *crawler.Options) { o.Crawlers = 0 },
		"Downloads":     func(o *crawler.Options) { o.Downloads = 0 },
		"MemoryBodies":  func(o *crawler.Options) { o.MemoryBodies = 0 },
		"FrontierBytes": func(o *crawler.Options) { o.FrontierBytes = 0 },
		"SeenBytes":     func(o *crawler.Options) { o.SeenBytes = 0 },
	} {
		opts := all
		if unset(&opts); opts.Memory() != want {
			t.Errorf("without %s: %d, want %d", name, opts.Memory(), want)
		}
	}
}
