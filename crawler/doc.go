// Package crawler is the crawler as a library: the engine that the command runs.
//
// [Run] takes [Options], whose zero value but for the seeds is a polite crawl of the web into the
// folder iut, and returns when nothing is left, the time is up, a limit is reached or its context
// ends:
//
//	result, err := crawler.Run(ctx, crawler.Options{
//		Seeds:  []string{"https://example.org/"},
//		Bounds: crawler.Bounds{Scope: scope.Host},
//		OnPage: func(p crawler.Page) error {
//			fmt.Println(p.Depth, p.URL, p.Meta.Title)
//			return nil
//		},
//	})
//
// Call-backs are called from many goroutines at a time, but those of one page, OnPage and then
// Edge, by one. One that returns an error or panics ends the crawl, see [Run].
//
// The same call with the same tree goes on where the last one stopped, however it did. With
// [Options].NoTree nothing is kept. What a page is, where it comes from and what becomes of it
// can be had by call-backs: Fetch in place of the network, OnPage, Edge and OnOutcome to be told,
// Allow and Score to decide.
//
// # Two pools
//
// A crawl has Crawlers x Downloads download workers and Parsers parse workers. Between them stand
// the two queues of source C's framework (docs/sources.md), which QueueSize bounds:
//
//	frontier ─▶ URLs taken ─▶ download workers ─▶ pages ─▶ parse workers ─▶ buffers ─▶ index
//	    ▲                      Fetch                        OnPage, Edge, Score            │
//	    └───────────────────────────── new URLs, once they are in the index ───────────────┘
//
// Nobody who holds a place waits for one further back: a parse worker puts its links into a
// buffer, which the committer empties into the index, and the index has no bound in memory. So no
// size is too small, 1 included. Run returns when source C's four conditions hold: no URL waits, no
// page does, nothing is asked and nothing is parsed.
//
// # Packages
//
// The library is this package, crawler/tree, which reads the pages of a tree, and what their types
// name: [scope.Mode], [weburl.Strip], of storage/record State, Record, Run, Totals, Meta and
// ErrDamaged, of storage ErrSchema and ErrOlder, of cleaner Files, Stage and Failures, of iut FS
// and the errors. What these packages and buffer export besides is for each other and for the
// command, and changes with the engine. [NewLinker], [NewGraph], [NewInspector], [Ask], [WithIndex]
// and [Segments] are for commands that work on a tree at rest.
package crawler
