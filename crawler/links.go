package crawler

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"urltree/crawler/scope"
	"urltree/crawler/weburl"
	"urltree/internal/extract"
	"urltree/internal/robots"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// Reasons why a URL is held: it stays pending, but not in this run.
const (
	heldScope   = "scope"              // outside the scope of this run
	heldRoom    = "no-room"            // the disk was nearly full; it waits and is asked again
	heldAllow   = "not-allowed"        // Options.Allow said no; the next run asks it again
	heldRefused = "refused"            // its host refused it, or could not be reached, too often; a colon and the cause follow
	heldRobots  = "robots-unreachable" // robots.txt gave no answer after all tries; a colon and the cause follow
)

// maxRecord is the longest URL that gets a record, in bytes; the index takes no longer keys.
// What is longer is counted as not followed.
const maxRecord = 8 << 10

// A Linker decides which links of a page become records. It depends on FORMAT and the seeds
// alone, so that a page gives the same links whenever its folder is parsed. Its methods may be
// called from any goroutine.
type Linker struct {
	opts    extract.Options
	strip   weburl.Strip
	scope   *scope.Scope
	limits  storage.Limits
	budgets Budgets
	// forgotten is what is kept out of the tree; nil: nothing is.
	forgotten *iut.Forgotten

	readers sync.Pool // of *reader

	mu       sync.Mutex
	rejected map[string]int64 // guarded by mu; links that got no record, by reason
	err      error            // guarded by mu; the first of a look-up of seeds

	index  *storage.Index // that has the seeds, see Use
	failed func(error)    // called with an error of a look-up; nil: nothing is
}

// Use has the linker look up in an index what was kept of the seeds. It must have returned before
// another method is called: nothing guards it.
func (l *Linker) Use(index *storage.Index) { l.index = index }

// Areas returns what of a seed, or the target of its redirect, decides which links are admitted.
func (l *Linker) Areas(url string) []string { return l.scope.Areas(url) }

// Err returns the first error of a look-up of seeds: after it links may have been left out.
func (l *Linker) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// HasArea implements [scope.Store].
func (l *Linker) HasArea(area string) bool { return l.found(l.index.Seeds().HasArea(area)) }

// IsSeed implements [scope.Store].
func (l *Linker) IsSeed(url string) bool { return l.found(l.index.Seeds().Has(url)) }

// found returns what a look-up of seeds came to, no after an error.
func (l *Linker) found(yes bool, err error) bool {
	if err != nil {
		l.mu.Lock()
		l.err = cmp.Or(l.err, err)
		l.mu.Unlock()
		if l.failed != nil {
			l.failed(err)
		}
	}
	return yes
}

func (l *Linker) reader() *reader {
	if r, ok := l.readers.Get().(*reader); ok {
		return r
	}
	return newReader()
}

// Parse returns the admitted links of a stored page, in page order, repeats left out, and its
// metadata without those that only the header had. A page that makes it panic has neither.
func (l *Linker) Parse(f iut.Facts, body []byte) (parsed iut.Parsed) {
	defer func() {
		if recover() != nil {
			l.count(map[string]int{"panic": 1})
		}
	}()
	reader := l.reader()
	defer l.readers.Put(reader)
	page := reader.Parse(extractFacts(f), body, l.opts)
	return iut.Parsed{Links: l.admit(reader, page, f, nil), Meta: page.Meta, Edges: l.edges(page, f.URL)}
}

// extractFacts are those that a folder has.
func extractFacts(f iut.Facts) extract.Facts {
	return extract.Facts{
		URL: f.URL, Media: f.Media, Charset: f.Charset,
		HeaderLinks: strings.Fields(f.HeaderLinks),
		NoFollow:    strings.Contains(f.Flags, flagNoFollow),
	}
}

// admit makes records' links of what a page named. Those to URLs that are known already are left
// out; nil: none is known.
func (l *Linker) admit(r *reader, page extract.Result, f iut.Facts, known func(url string) bool) []record.Link {
	var (
		links    []record.Link
		rejected = page.NotFollowed
	)
	if known == nil {
		links = make([]record.Link, 0, len(page.Links))
	}
	r.begin()
	for i := range page.Links {
		url := l.strip.Apply(page.Links[i].URL)
		if !r.isNew(url, known) {
			continue
		}
		if reason := l.reject(url); reason != "" {
			if rejected == nil {
				rejected = map[string]int{}
			}
			rejected[reason]++
			continue
		}
		url = strings.Clone(url) // that of the page lies in memory with all others
		links = append(links, record.Link{URL: url, Source: f.URL, Depth: f.PageDepth + 1, Held: l.budgets.form(url)})
	}
	l.count(rejected)
	return links
}

// reject returns the reason why a URL gets no record, or "".
func (l *Linker) reject(url string) string {
	if l.isForgotten(url) {
		return record.Forgotten
	}
	if len(url) > maxRecord {
		return "length"
	}
	return l.scope.Reason(url)
}

// hold returns the reason why a pending row is not asked in this run, or "".
func (l *Linker) hold(row *record.Row) string {
	switch {
	case l.isForgotten(row.URL):
		return record.Forgotten
	case row.Source == record.Seed:
		return ""
	case l.limits.TooDeep(row.Depth):
		return record.HeldDepth
	case l.scope.Reason(row.URL) != "":
		return heldScope
	}
	return l.budgets.form(row.URL)
}

// isForgotten reports whether a URL is kept out of the tree.
func (l *Linker) isForgotten(url string) bool { return l.found(l.forgotten.Has(url)) }

func (l *Linker) count(rejected map[string]int) {
	if len(rejected) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rejected == nil {
		l.rejected = map[string]int64{}
	}
	for reason, n := range rejected {
		l.rejected[reason] += int64(n)
	}
}

// rejections returns the links that got no record in this run, by reason.
func (l *Linker) rejections() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.rejected)
}

// linker makes the Linker of these options; it is still to be told which index has the seeds.
func (o *Options) linker() *Linker {
	l := &Linker{
		opts:   extract.Options{Token: robots.Token(o.UserAgent), NoFollow: string(o.NoFollow), Assets: o.Assets, Accepts: o.accepts},
		strip:  o.Strip,
		limits: o.limits(), budgets: o.Budgets,
	}
	l.scope = scope.New(scope.Options{Mode: o.Scope, Include: o.Include, Exclude: o.Exclude}, l)
	return l
}

// linkOptions are those that FORMAT keeps.
func (o *Options) linkOptions() iut.LinkOptions {
	l := iut.LinkOptions{
		Scope: o.Scope.String(), Include: patterns(o.Include), Exclude: patterns(o.Exclude),
		MaxDepth: o.keptDepth(), NoFollow: string(o.NoFollow), Assets: o.Assets, Robots: "obey", Accept: o.Accept,
		Budgets: iut.Budgets(o.Budgets),
	}
	if o.IgnoreRobots {
		l.Robots = "ignore"
	}
	return l
}

// keptDepth returns the MaxDepth of FORMAT: 0 is the seeds alone, and -1 no limit.
func (o *Options) keptDepth() int {
	if o.MaxDepth == 0 && !o.SeedsOnly {
		return -1
	}
	return o.MaxDepth
}

// NewLinker makes the Linker that FORMAT describes: what merge and check parse pages with. An error
// is about what FORMAT says, as of a pattern that does not compile.
func NewLinker(f iut.Format) (*Linker, error) {
	l := f.Links
	o := Options{
		Bounds: Bounds{MaxDepth: max(l.MaxDepth, 0), SeedsOnly: l.MaxDepth == 0, NoFollow: NoFollow(l.NoFollow), Assets: l.Assets, Accept: l.Accept},
		Limits: Limits{Budgets: Budgets(l.Budgets)},
	}
	var err error
	if o.Strip, err = weburl.ParseStrip(f.Strip); err != nil {
		return nil, fmt.Errorf("FORMAT: %w", err)
	}
	if l.Scope != "" { // a tree that was made, and no run got so far as to set its options
		if o.Scope, err = scope.ParseMode(l.Scope); err != nil {
			return nil, fmt.Errorf("FORMAT: %w", err)
		}
	}
	for _, list := range []struct {
		from []string
		to   *[]*regexp.Regexp
	}{{l.Include, &o.Include}, {l.Exclude, &o.Exclude}} {
		for _, text := range list.from {
			re, err := regexp.Compile(text)
			if err != nil {
				return nil, fmt.Errorf("FORMAT: %w", err)
			}
			*list.to = append(*list.to, re)
		}
	}
	linker := o.linker()
	linker.forgotten = f.Forgotten
	return linker, nil
}

// optionChanges names the options that differ, with both values.
func optionChanges(was, is iut.LinkOptions) string {
	var list []string
	a, b := reflect.ValueOf(was), reflect.ValueOf(is)
	for i := range a.NumField() {
		if from, to := a.Field(i).Interface(), b.Field(i).Interface(); !reflect.DeepEqual(from, to) {
			list = append(list, fmt.Sprintf("%s %+v, now %+v", a.Type().Field(i).Name, from, to))
		}
	}
	return strings.Join(list, "; ")
}

func patterns(list []*regexp.Regexp) []string {
	var texts []string
	for _, re := range list {
		texts = append(texts, re.String())
	}
	return texts
}
