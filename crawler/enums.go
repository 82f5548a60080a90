package crawler

import (
	prio "urltree/internal/frontier/queue"
	"urltree/internal/score"
	"urltree/iut"
)

// An Order says which URL is next, as [Ordering].Order.
type Order string

// The orders in which URLs are asked.
const (
	OrderBreadth  Order = "breadth"  // of a host, by links from a seed, then as they were found
	OrderPriority Order = "priority" // of a host, by score
	OrderTree     Order = "tree"     // source B's: each crawler walks its part of the tree
)

// A ScoreBy says what the score of a URL is in OrderPriority, as [Ordering].ScoreBy.
type ScoreBy string

// What scores are made of.
const (
	ScoreOPIC    = ScoreBy(score.OPIC)     // pages hand theirs to what they link to
	ScoreInlinks = ScoreBy(score.Inlinks)  // the number of links to it
	ScoreRank    = ScoreBy(score.PageRank) // what crawler rank has found in the tree
	ScoreDepth   = ScoreBy("depth")        // links from a seed
)

// A Queue is a kind of queue of OrderPriority, as [Ordering].Queue.
type Queue string

// The kinds of queues.
const (
	QueueCBT       Queue = prio.CBT
	QueueQuickHeap Queue = prio.QuickHeap
)

// A Pick says how a crawler takes URLs, as [Ordering].Pick.
type Pick string

// The ways of taking URLs.
const (
	PickExtended Pick = "extended" // more while it has some
	PickBatch    Pick = "batch"    // several when it has none left
	PickSingle   Pick = "single"   // one after the other
)

// A Store is where the pages of a tree are kept, as [Storage].Store.
type Store string

// The stores.
const (
	StoreFolders Store = iut.StoreFolders // each page in a folder, decoded
	StoreWARC    Store = iut.StoreWARC    // in WARC files, as they came
)

// A NoFollow says whose nofollow is obeyed, as [Bounds].NoFollow.
type NoFollow string

// Whose nofollow is obeyed.
const (
	NoFollowPage NoFollow = "page" // that of header and page
	NoFollowAll  NoFollow = "all"  // that of single links too
	NoFollowNone NoFollow = "none" // none
)

// A Network is a family of addresses, as [HTTP].Network.
type Network string

// The families of addresses.
const (
	NetworkIPv4 Network = "tcp4"
	NetworkIPv6 Network = "tcp6"
)

// The values of Order, ScoreBy, Queue, Pick and Store; the first is the default.
var (
	Orders = []Order{OrderBreadth, OrderPriority, OrderTree}
	Scores = []ScoreBy{ScoreOPIC, ScoreInlinks, ScoreRank, ScoreDepth}
	Queues = []Queue{QueueCBT, QueueQuickHeap}
	Picks  = []Pick{PickExtended, PickBatch, PickSingle}
	Stores = []Store{StoreFolders, StoreWARC}
)
