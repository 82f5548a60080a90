package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage/record"
)

// why says in sentences what happened to a URL, or what it waits for. A URL without a record
// is answered as well: the absence is explained.
func (i *Inspector) why(ctx context.Context, url string, w *bufio.Writer) error {
	say := func(format string, args ...any) { fmt.Fprintln(w, clean(fmt.Sprintf(format, args...))) }
	r, err := i.record(url)
	sitemap, serr := i.sitemap(url, say)
	if serr == nil && errors.Is(err, ErrNotFound) {
		var outside bool
		outside, serr = i.outside(url, say)
		sitemap = sitemap || outside
	}
	if serr != nil || sitemap && errors.Is(err, ErrNotFound) {
		return serr
	}
	if errors.Is(err, ErrNotFound) {
		if reason, rule := i.Scope(url); reason == record.Forgotten {
			say("Nothing is known of %s: %s.", url, rule)
			return nil
		}
		say("%s is not known: it is no seed, and no answer so far named it as a link that counts.", url)
		i.admission(url, say)
		if err := i.budgets(ctx, url, say); err != nil {
			return err
		}
		return i.host(url, say)
	}
	if err != nil {
		return err
	}
	switch r.State {
	case record.Pending:
		i.waits(&r, say)
		i.admission(r.URL, say)
		if err := i.budgets(ctx, r.URL, say); err != nil {
			return err
		}
	case record.Stored:
		say("%s is stored: status %d, %s, %d bytes, %s.", url, r.Status, orDash(r.Media), r.Bytes, stamp(r.Time))
		if where, err := i.Tree.Where(iut.FactsOf(&r)); err == nil {
			say("Its page is in %s.", where)
		}
		if words := flagWords(r.Flags); words != "-" {
			say("Its links were not all followed: %s.", words)
		}
		switch l, ok, err := i.Index.Revisits().Look(url); {
		case err != nil && !errors.Is(err, record.ErrCorrupt):
			return err
		case ok && l.Since != 0:
			say("Since %s looks do not find it any more: %s. What is stored stays.", stamp(l.Since), l.Reason)
		}
	case record.Redirected:
		say("%s redirected with status %d to %s, %s.", url, r.Status, orDash(r.HeaderLinks), stamp(r.Time))
		if r.Reason != "" {
			say("That URL does not belong to this crawl.")
			explain(r.Reason, say)
		}
	case record.Failed:
		say("%s failed: %s, %s.", url, orDash(r.Reason), after(&r))
		explain(r.Reason, say)
		say("`crawler retry` opens it again.")
	case record.Refused:
		say("%s was refused: %s, %s.", url, orDash(r.Reason), stamp(r.Time))
		if follows := i.Tree.Format().Links.NoFollow != "none"; r.GaveLinks() && follows && strings.Contains(r.Flags, "n") {
			say("%s", strings.Replace(meaning(r.Reason), "its links count all the same", "its links do not count, for it says nofollow as well", 1))
		} else {
			explain(r.Reason, say)
		}
		if r.Reason == record.Duplicate {
			first, err := i.duplicateOf(ctx, &r)
			if err != nil {
				return err
			}
			if first != "" {
				say("That page is %s.", first)
			}
		}
		i.admission(url, say)
	}
	if r.Cut > 0 {
		say("%d of its links got no record: their hosts have as many held URLs as -max-held allows.", r.Cut)
	}
	i.origin(&r, say)
	return i.host(url, say)
}

func (i *Inspector) waits(r *record.Record, say func(string, ...any)) {
	now := time.Now()
	switch {
	case r.Range == record.Held:
		say("%s is held, not asked in this run: %s.", r.URL, orDash(r.Reason))
		explain(r.Reason, say)
		say("The next run looks at it again.")
	case r.Range == record.Later && r.Due > now.UnixNano():
		say("%s is open, but is not asked before %s.", r.URL, instant(r.Due))
	default:
		say("%s is open and waits for its turn.", r.URL)
	}
	if i.Pause != nil {
		if why := i.Pause(); why != "" {
			say("Fetching pauses: %s.", why)
		}
	}
	if r.Tries == 0 {
		say("It has not been asked since it was found or opened again.")
	} else {
		say("It has been asked %s%s.", times(r.Tries), spared(r))
		if r.Range != record.Held && r.Reason != "" {
			say("The last time it came to: %s.", r.Reason)
			explain(r.Reason, say)
		}
	}
}

func (i *Inspector) host(url string, say func(string, ...any)) error {
	host, err := i.Index.Hosts().Get(record.Host(url))
	if err != nil || host.Records() == 0 {
		return err
	}
	say("Its host %s has %d open and %d held.", host.Name, host.Now+host.Later, host.Held)
	rests := host.Next > time.Now().UnixNano()
	switch {
	case rests:
		say("The host may be asked again at %s.", instant(host.Next))
	case host.Fails == 0:
		say("The host may be asked now.")
	}
	failed := "request"
	if host.Fails > 1 {
		failed = words.Count(host.Fails, "request")
	}
	switch backoff := time.Duration(host.Backoff).Round(time.Millisecond); {
	case host.Fails > 0 && rests:
		say("Its last %s failed; its back-off is %s.", failed, backoff)
	case host.Fails > 0:
		say("Its last %s failed; its back-off of %s is over.", failed, backoff)
	case backoff > 0:
		say("It failed lately, so there are %s between two requests.", backoff)
	}
	if host.Pace > 0 {
		say("It has refused requests that came sooner, so there are %s between two of them.", time.Duration(host.Pace).Round(time.Millisecond))
	}
	return nil
}

// budgets says how full the budgets are that a URL needs a place of.
func (i *Inspector) budgets(ctx context.Context, url string, say func(string, ...any)) error {
	if reason := i.Form(url); reason != "" {
		say("%s", meaning(reason))
	}
	host, err := i.Index.Hosts().Get(record.Host(url))
	if err != nil {
		return err
	}
	l := &i.Limits
	// Of budgets that are nearly empty it is not worth to tell.
	worth := func(used, most int64) bool { return most > 0 && used*10 >= most }
	domain, err := i.Index.Hosts().Domain(record.Domain(host.Name))
	if err != nil {
		return err
	}
	if worth(domain.Hosts, l.Domain) {
		say("Its domain %s has %d of %d hosts (-budget-domain).", record.Domain(host.Name), domain.Hosts, l.Domain)
	}
	if l.Host > 0 {
		say("Its host has %d of %d URLs (-budget-host).", host.Used(), l.Host)
	}
	if l.MaxHeld > 0 && host.Held >= l.MaxHeld {
		say("Its host has %s, and -max-held allows no more.", words.Count(host.Held, "held URL"))
	}
	// No other budget is fuller than that of its host.
	if worth(host.Used(), l.Prefix) {
		if err := i.Index.Settle(ctx); err != nil {
			return err
		}
	}
	for _, place := range record.Places(url) {
		most, name := l.Prefix, "-budget-prefix"
		if place.Query {
			most, name = l.Query, "-budget-query"
		}
		if !worth(host.Used(), most) {
			continue
		}
		used, err := i.Index.Folders().Used(place)
		if err != nil {
			return err
		}
		if worth(used, most) {
			say("%s has %d of %d URLs (%s).", place.Name, used, most, name)
		}
	}
	return nil
}

// admission says what scope and robots.txt say of a URL.
func (i *Inspector) admission(url string, say func(string, ...any)) {
	if reason, rule := i.Scope(url); reason != "" {
		say("Scope rejects it: %s.", rule)
	} else {
		say("Scope admits it: %s.", rule)
	}
	ok, line, known := i.Robots(url)
	verdict := "disallows"
	if ok {
		verdict = "allows"
	}
	switch {
	case !known:
		say("What robots.txt says of it is not known.")
	case line == "":
		say("robots.txt %s it.", verdict)
	default:
		say("robots.txt %s it by the line: %s", verdict, line)
	}
}

func (i *Inspector) origin(r *record.Record, say func(string, ...any)) {
	switch {
	case r.Via != "":
		say("It was found as the target of a redirect from %s.", r.Via)
	case r.Source == record.Seed:
		say("It is a seed.")
	case i.isSitemap(r.Source):
		say("It was found in the sitemap %s.", r.Source)
	default:
		say("It was found as a link on %s, at depth %d.", orDash(r.Source), r.Depth)
	}
}

// after says when a record got its outcome, with how many requests.
func after(r *record.Record) string {
	text := stamp(r.Time)
	if r.Tries > 0 {
		text += ", asked " + times(r.Tries) + spared(r)
	}
	if r.Status > 0 {
		text += fmt.Sprintf(", status %d", r.Status)
	}
	return text
}

func spared(r *record.Record) string {
	if r.Spared == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d of them count on its host, which refused them or could not be reached)", r.Spared)
}

func times(n uint16) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func explain(reason string, say func(string, ...any)) {
	// Some reasons have their cause behind a colon.
	for part := range strings.SplitSeq(reason, ":") {
		if text := meaning(part); text != "" {
			say("%s", text)
		}
	}
}
