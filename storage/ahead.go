package storage

import "strings"

// MostWeight is how many bytes a transaction should write because of links, as Weight has them.
// Until it has ended, memory holds several copies of its keys and every page of the index that it
// touches.
const MostWeight = 6 << 20

// weigh estimates the bytes that a transaction writes because of a link: its record and pending
// row, and the counts of all folders of its host and path, whose keys begin its own.
func weigh(l *Link) int {
	folders := max(strings.Count(l.URL, "/")-2, 0) + max(strings.Count(authority(l.URL), ".")-2, 0)
	return 400 + 3*len(l.URL) + len(l.Source) + folders*(100+len(l.URL)/2)
}

// Weight estimates the bytes that a transaction writes because of what an outcome names: links,
// sitemaps and the text of a robots.txt.
func (o *Outcome) Weight() int {
	bytes := 0
	if o.Robots != nil {
		bytes += 2 * len(o.Robots.Text)
	}
	for i := range o.Sitemaps {
		bytes += 400 + 3*len(o.Sitemaps[i].URL)
	}
	for i := range o.Links {
		bytes += weigh(&o.Links[i])
	}
	return bytes
}

// TakeAhead takes from an outcome that has more links than one transaction should take the first of
// them, to be committed before it: no URL gets an outcome before its links have records. nil: there
// are no more than that.
func (o *Outcome) TakeAhead() *Outcome {
	bytes := 0
	for i := range o.Links {
		if bytes += weigh(&o.Links[i]); bytes > MostWeight && i > 0 {
			return o.Ahead(i)
		}
	}
	return nil
}

// Ahead takes the first n links from an outcome, to be committed before it.
func (o *Outcome) Ahead(n int) *Outcome {
	ahead := &Outcome{Row: o.Row, Page: Page{PageDepth: o.Page.PageDepth}, Links: o.Links[:n:n], Part: true}
	o.Links = o.Links[n:]
	return ahead
}
