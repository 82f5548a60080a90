package storage

// The index is opened, read and committed to by its own methods. What else it keeps is reached by
// groups, each a view of the same index: for errors, and what may run at the same time, see
// [Index].
type (
	// Seeds are what is asked of seeds besides their records.
	Seeds struct{ x *Index }
	// Runs are the runs of the crawl, and their figures by the hour.
	Runs struct{ x *Index }
	// Marks are single facts about the whole index.
	Marks struct{ x *Index }
	// Queues are the pending rows, as the frontier reads them. Functions handed to their methods are
	// called in a transaction, and must not use the index.
	Queues struct {
		x     *Index
		apart bool // see Apart
	}
	// Hosts are the hosts, their domains and their robots.txt answers.
	Hosts struct{ x *Index }
	// Sitemaps are the sitemaps of all hosts.
	Sitemaps struct{ x *Index }
	// Outside are the targets outside. It is read by the frontier as Queues is.
	Outside struct{ x *Index }
	// Revisits are the stored pages of which another look is, or will be, due.
	Revisits struct{ x *Index }
	// Versions are the earlier versions of stored pages that are kept.
	Versions struct{ x *Index }
	// Folders are the folders of the tree, by the records in them.
	Folders struct{ x *Index }
	// Outbox is what waits for other processes of the crawl.
	Outbox struct{ x *Index }
	// Steps are the supersteps of a crawl in bulk.
	Steps struct{ x *Index }
)

// Seeds and the methods below return the groups of the index.
func (x *Index) Seeds() Seeds       { return Seeds{x} }
func (x *Index) Runs() Runs         { return Runs{x} }
func (x *Index) Marks() Marks       { return Marks{x} }
func (x *Index) Queues() Queues     { return Queues{x: x} }
func (x *Index) Hosts() Hosts       { return Hosts{x} }
func (x *Index) Sitemaps() Sitemaps { return Sitemaps{x} }
func (x *Index) Outside() Outside   { return Outside{x} }
func (x *Index) Revisits() Revisits { return Revisits{x} }
func (x *Index) Versions() Versions { return Versions{x} }
func (x *Index) Folders() Folders   { return Folders{x} }
func (x *Index) Outbox() Outbox     { return Outbox{x} }
func (x *Index) Steps() Steps       { return Steps{x} }

// Stats are what the index has done since it was opened, and what it still has to do.
type Stats struct {
	Written int64 // pages, of the system's page size, that transactions have written to the file
	Looked  int64 // keys that scans of any sort have looked at
	Waiting int   // rows of the inbox
}

// Stats returns the present figures.
func (x *Index) Stats() Stats {
	filling, moving := x.inbox.Rows()
	return Stats{x.file.Written(), x.file.Looked(), filling + moving}
}
