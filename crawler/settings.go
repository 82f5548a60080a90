package crawler

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"urltree/crawler/scope"
	"urltree/internal/words"
	"urltree/iut"
)

// Settings are the options that [Crawler.Set] changes while a crawl goes on. Each value means what
// it does in the field of Options of the same name.
type Settings struct {
	Delay     time.Duration
	PerHost   int
	LimitRate int64
	// Next counts from the next run with the tree on. In this one it changes nothing.
	Next NextSettings
}

// NextSettings are the part of Settings that says which URLs belong to the crawl. A change of these
// has stored pages and held URLs looked at again, which is done as a run begins.
type NextSettings struct {
	Scope     scope.Mode
	Include   []*regexp.Regexp
	Exclude   []*regexp.Regexp
	MaxDepth  int
	SeedsOnly bool
	Budgets   Budgets
}

// Settings returns the present ones, with defaults filled in.
func (c *Crawler) Settings() Settings {
	c.setting.Lock()
	defer c.setting.Unlock()
	return c.settings
}

// Set changes the settings to s, all of them: s is what [Crawler.Settings] returned, but for what
// is to change. Delay, PerHost and LimitRate count for each request, and each part of a body, that
// begins after Set has returned; Next counts from the next run on.
//
// What changes is kept in the tree before it counts. Then a later run has it as well, where its
// Options leave the field zero; a kill leaves all of one Set to the next run, or nothing. The
// command takes it as an option that was given to a run before. With NoTree or External nothing is
// kept.
//
// The errors are ErrOptions, for a setting that cannot work, or of Next where nothing is kept;
// ErrOver; iut.ErrFormat, if there are more patterns than the tree can keep; all of these change
// nothing. iut.ErrDisk ends the run.
func (c *Crawler) Set(s Settings) error {
	e := c.e
	o := e.opts
	if err := o.set(s); err != nil {
		return err
	}
	s = o.settings()
	c.setting.Lock()
	defer c.setting.Unlock()
	return c.use(func() error {
		changed := map[string][]string{}
		was, now := c.settings.kept(), s.kept()
		next := false
		for i := range now {
			if texts := now[i].texts(); !slices.Equal(was[i].texts(), texts) {
				changed[now[i].name] = texts
				next = next || now[i].next
			}
		}
		switch {
		case !o.keeps() && next:
			return fmt.Errorf("%w: Next is for the next run, and with NoTree or External nothing is kept for one", ErrOptions)
		case o.keeps():
			err := e.store.tree.Keep(keepSettings(e.store.tree.Format().Kept, changed))
			if errors.Is(err, iut.ErrDisk) {
				e.ends.fail(err)
			}
			if err != nil {
				return err
			}
		}
		c.settings = s
		e.frontier.SetPace(max(s.Delay, 0), s.Delay == 0, s.PerHost)
		e.network.client.SetLimitRate(s.LimitRate)
		return nil
	})
}

// keeps reports whether settings are kept in the tree for a later run.
func (o *Options) keeps() bool { return !o.NoTree && !o.External }

// asGiven returns the settings as they stand in the options.
func (o *Options) asGiven() Settings {
	return Settings{o.Delay, o.PerHost, o.LimitRate, NextSettings{o.Scope, o.Include, o.Exclude, o.MaxDepth, o.SeedsOnly, o.Budgets}}
}

// put puts settings into the options as they are.
func (o *Options) put(s Settings) {
	o.Delay, o.PerHost, o.LimitRate = s.Delay, s.PerHost, s.LimitRate
	n := s.Next
	o.Scope, o.Include, o.Exclude, o.MaxDepth, o.SeedsOnly, o.Budgets = n.Scope, n.Include, n.Exclude, n.MaxDepth, n.SeedsOnly, n.Budgets
}

// settings returns those of options that have their defaults.
func (o *Options) settings() Settings {
	s := o.asGiven()
	for _, p := range s.Next.Budgets.all() {
		if *p == 0 {
			*p = -1 // here no limit is 0, see defaults
		}
	}
	return s
}

// set puts settings into options that have their defaults, or says what is wrong with them.
func (o *Options) set(s Settings) error {
	with := *o
	with.put(s)
	if err := with.asks(); err != nil {
		return err
	}
	with.fill()
	for _, p := range with.Budgets.all() {
		*p = max(*p, 0)
	}
	if err := errors.Join(with.checkNumbers(), with.checkContents()); err != nil {
		return err
	}
	o.put(with.asGiven())
	return nil
}

// recall has what an earlier run has kept count where the options of this one leave a field zero.
// Who uses Keep reads it alone.
func (o *Options) recall(kept iut.Kept) error {
	if o.Keep != nil || !o.keeps() {
		return nil
	}
	s, was := o.given, Settings{}
	if err := was.read(kept); err != nil {
		return err
	}
	if s.Next.MaxDepth != 0 || s.Next.SeedsOnly { // of the two that exclude each other
		was.Next.MaxDepth, was.Next.SeedsOnly = 0, false
	}
	fillStruct(reflect.ValueOf(&s).Elem(), reflect.ValueOf(was))
	if reflect.DeepEqual(s, o.given) {
		return nil
	}
	if err := o.set(s); err != nil {
		return fmt.Errorf("%w: kept option: %w", iut.ErrFormat, err)
	}
	return nil
}

// A keptSetting is a setting as FORMAT keeps it: as the option of the command of this name.
type keptSetting struct {
	name  string
	texts func() []string         // nil: the default, which is not kept
	set   func(text string) error // is called with each text
	next  bool                    // it is one of Settings.Next
}

// kept returns all settings of s, always in the same order.
func (s *Settings) kept() []keptSetting {
	n, b := &s.Next, &s.Next.Budgets
	list := []keptSetting{
		amountKept("delay", &s.Delay, time.Duration.String, words.ParseDuration),
		amountKept("per-host", &s.PerHost, strconv.Itoa, strconv.Atoi),
		amountKept("limit-rate", &s.LimitRate, number, words.ParseSize),
		{name: "scope", texts: func() []string {
			if n.Scope == scope.Any {
				return nil
			}
			return []string{n.Scope.String()}
		}, set: func(text string) (err error) { n.Scope, err = scope.ParseMode(text); return err }},
		patternsKept("include", &n.Include),
		patternsKept("exclude", &n.Exclude),
		{name: "max-depth", texts: func() []string {
			if n.MaxDepth == 0 && !n.SeedsOnly {
				return nil
			}
			return []string{strconv.Itoa(n.MaxDepth)}
		}, set: func(text string) (err error) {
			n.MaxDepth, err = strconv.Atoi(text)
			n.SeedsOnly = n.MaxDepth == 0
			return err
		}},
	}
	for i, name := range []string{"budget-domain", "budget-host", "budget-prefix", "budget-query", "budget-repeat", "budget-depth", "max-held"} {
		list = append(list, amountKept(name, b.all()[i], number, func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }))
	}
	for i := range list[3:] {
		list[3+i].next = true
	}
	return list
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// amountKept is a setting of which 0 is the default and any negative value is kept as 0: no delay,
// no limit.
func amountKept[N ~int | ~int64](name string, p *N, text func(N) string, parse func(string) (N, error)) keptSetting {
	return keptSetting{name: name, texts: func() []string {
		if *p == 0 {
			return nil
		}
		return []string{text(max(*p, 0))}
	}, set: func(t string) error {
		if t == "auto" {
			return nil
		}
		n, err := parse(t)
		if *p = n; n == 0 {
			*p = -1
		}
		return err
	}}
}

func patternsKept(name string, p *[]*regexp.Regexp) keptSetting {
	return keptSetting{name: name, texts: func() []string { return patterns(*p) }, set: func(text string) error {
		re, err := regexp.Compile(text)
		*p = append(*p, re)
		return err
	}}
}

// read takes the settings out of what FORMAT keeps.
func (s *Settings) read(kept iut.Kept) error {
	all := s.kept()
	for _, option := range kept.Options {
		name, text, _ := strings.Cut(option, "=")
		if i := slices.IndexFunc(all, func(k keptSetting) bool { return k.name == name }); i >= 0 {
			if err := all[i].set(text); err != nil {
				return fmt.Errorf("%w: kept option -%s: %q: %w", iut.ErrFormat, name, text, err)
			}
		}
	}
	return nil
}

// keepSettings returns what FORMAT keeps with other texts of some options.
func keepSettings(was iut.Kept, changed map[string][]string) iut.Kept {
	next := iut.Kept{Secrets: was.Secrets}
	for _, option := range was.Options {
		name, _, _ := strings.Cut(option, "=")
		if _, ok := changed[name]; !ok {
			next.Options = append(next.Options, option)
		}
	}
	for _, k := range new(Settings).kept() {
		for _, text := range changed[k.name] {
			next.Options = append(next.Options, k.name+"="+text)
		}
	}
	return next
}
