package crawler

import (
	"urltree/internal/disk"
	"urltree/internal/extract"
	"urltree/internal/simhash"
	"urltree/iut"
	"urltree/storage/record"
)

// mostCompared is the size in bytes up to which a stored page is read to be compared with what it
// has become.
const mostCompared = 4 << 20

// difference returns how much the content of an item, a page that was asked again, differs from
// what is stored. The stored page is still there then, so nothing is kept for this before. What
// cannot be read, or panics, is not compared.
func (c *crawler) difference(item *iut.Item, body []byte) (d record.Difference) {
	was, err := c.store.index.Record(item.Row.URL)
	if err != nil || was.State != record.Stored || was.Bytes > mostCompared {
		return record.Difference{}
	}
	old, before, err := c.store.tree.Load(iut.FactsOf(&was))
	if err != nil {
		return record.Difference{} // damage is for check to name
	}
	now := iut.Facts{URL: item.Row.URL, Source: item.Row.Source, Page: item.Outcome.Page}
	if err := c.ends.foreign("compare", item.Row.URL, 0, func(*disk.Step) error {
		a, textBefore := textPrint(&old, before)
		b, textNow := textPrint(&now, body)
		if textBefore && textNow {
			d.Bits = int64(simhash.Distance(a, b)) + 1
		}
		d.Added, d.Removed = c.rules.linker.compareLinks(&old, before, &now, body)
		return nil
	}); err != nil {
		return record.Difference{}
	}
	return d
}

// textPrint returns the fingerprint of what a page shows; ok is false if it has no text.
func textPrint(f *iut.Facts, body []byte) (fingerprint uint64, ok bool) {
	var h simhash.Hash
	extract.Words(extract.Facts{Media: f.Media, Charset: f.Charset}, body, h.Add)
	return h.Sum()
}

// compareLinks returns the number of URLs that only the second page refers to, and of those that
// only the first one does.
func (l *Linker) compareLinks(old *iut.Facts, before []byte, now *iut.Facts, body []byte) (added, removed int64) {
	refers := map[string]bool{} // whether the second page does as well
	for _, e := range l.EdgesOf(*old, before, false) {
		refers[e.To] = false
	}
	for _, e := range l.EdgesOf(*now, body, false) {
		if _, known := refers[e.To]; !known {
			added++
		}
		refers[e.To] = true
	}
	for _, stays := range refers {
		if !stays {
			removed++
		}
	}
	return added, removed
}
