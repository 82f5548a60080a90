package crawler

import (
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"time"
)

// DefaultAccept are the media types that are stored.
var DefaultAccept = []string{"text/html", "application/xhtml+xml", "text/plain"}

// DefaultOptions returns what zero fields of Options stand for, where that is not zero. It leaves
// out MinFree and MinFreeInodes, whose defaults follow from other fields.
func DefaultOptions() Options {
	return Options{
		Tree:   "iut",
		Output: "res.txt",
		Bounds: Bounds{MaxURL: 8000, Accept: slices.Clone(DefaultAccept), NoFollow: NoFollowPage},
		Limits: Limits{
			MaxSize: 16 << 20,
			Budgets: Budgets{Domain: 10_000, Host: 1_000_000, Prefix: 500_000, Query: 10_000, Repeat: 3, Depth: 100, MaxHeld: 500_000},
		},
		Politeness: Politeness{PerHost: 1, MaxDelay: time.Minute, MaxWait: 10 * time.Minute},
		HTTP:       HTTP{UserAgent: "urltree/" + Version(), Timeout: 30 * time.Second, Retries: 2},
		Ordering:   Ordering{Order: Orders[0], ScoreBy: Scores[0], Queue: Queues[0], Queues: 1, Pick: Picks[0]},
		Revisits:   Revisits{RecrawlMin: 24 * time.Hour, RecrawlMax: 30 * 24 * time.Hour, Versions: 1},
		Storage:    Storage{WARC: WARC{Size: 1 << 30}},
		Resources: Resources{
			Buffers:       6,
			BufferSize:    1000,
			BufferBytes:   16 << 20,
			FlushInterval: time.Second,
			Crawlers:      12,
			Downloads:     4,
			MemoryBodies:  64 << 20,
			FrontierBytes: 64 << 20,
			SeenBytes:     256 << 20,
		},
	}
}

// fill replaces zero fields by their defaults.
func (o *Options) fill() { fillStruct(reflect.ValueOf(o).Elem(), reflect.ValueOf(DefaultOptions())) }

func fillStruct(v, usual reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Kind() == reflect.Struct:
			fillStruct(f, usual.Field(i))
		case f.CanSet() && f.IsZero():
			f.Set(usual.Field(i))
		}
	}
}

// firstSet returns the first of these fields that is not zero; "": all are.
func (o *Options) firstSet(fields ...string) string {
	for _, name := range fields {
		if !reflect.ValueOf(o).Elem().FieldByName(name).IsZero() {
			return name
		}
	}
	return ""
}

// defaults returns the options with every zero value replaced by its default, and no limit as 0,
// or says what is wrong with them. MinFree and MinFreeInodes get theirs from fit.
func (o Options) defaults() (Options, error) {
	o.given = o.asGiven()
	if err := errors.Join(o.canonicalSeeds(), o.asks(), o.keepsNothing(), o.checkWords(), o.checkOrder()); err != nil {
		return o, err
	}
	if o.Accept == nil && o.Assets {
		o.Accept = []string{"*/*"}
	}
	o.fill()
	o.Retries = max(o.Retries, 0)
	for _, p := range o.Budgets.all() {
		*p = max(*p, 0)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := errors.Join(o.checkArchives(), o.checkExternal(), o.checkCluster(), o.checkStep(), o.checkContents(), o.checkNumbers()); err != nil {
		return o, err
	}
	_, err := o.cookies(func(int, error) {})
	return o, err
}
