package inspect

import (
	"fmt"
	"time"

	"urltree/internal/words"
	"urltree/storage/record"
)

// sitemap says in sentences what became of a sitemap, or what it waits for; false: it is none.
func (i *Inspector) sitemap(url string, say func(string, ...any)) (bool, error) {
	s, ok, err := i.Index.Sitemaps().Get(url)
	if err != nil || !ok {
		return false, err
	}
	switch s.State {
	case record.Read:
		say("%s was read as a sitemap, %s: %s.", url, stamp(s.Time), named(&s))
	case record.Failed:
		say("%s could not be read as a sitemap: %s, %s.", url, s.Reason, stamp(s.Time))
	default:
		say("%s is a sitemap that is still to be read.", url)
		if s.Due > time.Now().UnixNano() {
			say("It is not asked before %s.", instant(s.Due))
		}
		if s.Tries > 0 {
			say("It has been asked %s. The last time it came to: %s.", times(s.Tries), orDash(s.Reason))
		}
	}
	explain(s.Reason, say)
	if s.Source == "" {
		say("It was looked for because sitemaps usually have this name.")
	} else {
		say("It is named by %s.", s.Source)
	}
	return true, nil
}

func named(s *record.Record) string {
	switch {
	case s.Reason == "redirect":
		return "it redirects"
	case s.Cut > 0:
		return fmt.Sprintf("it names %s, %d of them outside of this crawl or beyond -max-held", words.Count(s.Bytes, "URL"), s.Cut)
	}
	return "it names " + words.Count(s.Bytes, "URL")
}

// isSitemap reports whether a source is a sitemap, from which links came.
func (i *Inspector) isSitemap(source string) bool {
	s, ok, err := i.Index.Sitemaps().Get(source)
	return err == nil && ok && s.State != record.Failed
}
