// Package storage keeps the index of a crawl: what is known of every URL, the queues of
// pending URLs, hosts, robots.txt answers, folder counters and runs, in one bbolt file.
//
// Buckets of index.db:
//
//	url      record key -> record          every URL ever admitted, but for what inbox has
//	inbox-a, inbox-b  number of discovery -> record key, record   of new URLs, for a while
//	pending  pending key -> run number     the rows of all hosts, in the order of asking
//	host     host name -> times, counts    politeness that survives a restart
//	domain   registrable domain -> number of hosts, and of URLs held for it
//	robots   origin -> robots.txt answer
//	sitemap  host name, URL -> sitemap     to be read, or what came of it
//	outside  record key -> target outside  to be asked, or whether it works
//	outside-pending  as pending            the rows of targets outside
//	folder   folder key -> counts          of the records strictly below it, if they are many
//	query    record key without query -> counts  of its records with a query, if they are many
//	revisit  as pending                    the rows of stored pages that are, or will be, asked again
//	look     record key -> look            what the latest looks at a stored page came to
//	shorter  record key -> nothing         a shorter way to it was found: its links count anew
//	meta     record key -> page metadata   of stored pages that have any
//	scope    URL -> nothing                seeds that had a record, and targets of seeds' redirects
//	seed     letter, text -> nothing       what is asked of seeds: o: an origin, a: an area of scope
//	run      number -> run, as JSON
//	hour     number, hour -> figures, as JSON
//	outbox   partition, number -> link     to hosts of other processes, or what these are to know
//	sys      schema, totals, filter key, how much of the file of edges counts, which ranks are
//	         in, link options, how much of seeds.txt is in, that a stop was unclean, what stored
//	         pages and held rows are to be looked at again for
//
// Every value but those of pending, outside-pending and revisit, which follow from the records, and
// of rows that wait to be moved, which seal the record alone, ends in a CRC-32C of what stands
// before it and of its key (the schema version, which every program must be able to read, of itself
// alone). So a change of key or value is noticed, if only by one bit, and costs that one entry.
//
// Writers take turns. [Index.Commit] takes whole sets of outcomes and is the only place that
// decides what is new. Read transactions are short; long scans resume by key.
package storage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/internal/disk"
	"urltree/internal/seen"

	"urltree/storage/boltfile"
	"urltree/storage/inbox"
	"urltree/storage/record"
	"urltree/storage/verify"
)

// Schema is the version of all formats in index.db. [Upgrade] knows the one before.
const Schema = 7

var (
	// ErrSchema says that index.db has another version of the format, which is not the one before.
	ErrSchema = errors.New("index.db has another format version")
	// ErrDisk says that the file system failed, not that the file is damaged.
	ErrDisk = boltfile.ErrDisk
	// ErrOlder says that index.db has the format of the version before: see [Upgrade].
	ErrOlder = errors.New("index.db has the format of the version before")
)

var buckets = [][]byte{
	record.BucketURL, record.BucketPending, record.BucketHost, record.BucketRobots, record.BucketSitemap,
	record.BucketFolder, record.BucketQuery, record.BucketShorter, record.BucketMeta, record.BucketScope, record.BucketSeed,
	record.BucketDomain, record.BucketRun, record.BucketHour, record.BucketSys, inbox.Buckets[0], inbox.Buckets[1],
	record.BucketOutside, record.BucketWaiting, record.BucketRevisit, record.BucketLook,
	record.BucketVersion,
}

// Options say how an index is opened.
type Options struct {
	// ReadOnly opens without writing; several processes may do so at once.
	ReadOnly bool
	// NoSync leaves out all syncing: after a power cut the index must be rebuilt.
	NoSync bool
	// SeenMemory bounds the seen filter in bytes; 0: 256 MiB.
	SeenMemory int64
	// Limits hold back new URLs. With MaxDepth depths are the shortest known.
	Limits Limits
	// Inbox lets new URLs wait in the order of discovery, which makes them cheaper by far: until there
	// are at least so many, and a quarter of all records, but never more than fit into a quarter of
	// SeenMemory at 16 bytes each. 0: none; what an earlier run has left there is moved by Open.
	// Negative: none for new URLs; what an earlier run has left stays, and is found, until Settle
	// moves it.
	Inbox int
	// Away, if set, returns the partition of a host, and whether another process asks that host: links
	// to it go to the outbox in place of making records. It is called in transactions, must not use
	// the index, and changes its mind in Exclusive only.
	Away func(host string) (part uint16, away bool)
	// Bulk has all links go to the outbox, whoever asks their hosts, but those of an outcome that has
	// Arrived: so what a crawl knows changes between its steps only. Repeats are not dropped there.
	Bulk bool
	// Recrawl says when stored pages are asked again; nil: never.
	Recrawl Recrawl
	// Versions is how many versions of a stored page are kept, the newest included; 0: that one alone;
	// AllVersions: all.
	Versions int
	// Watch reports transactions and other calls to the disk that hang. It is asked for room before
	// each transaction that writes records, which takes at most MostWritten: it may wait, and after
	// its error the transaction is not begun. nil: nothing reports, and there is always room.
	Watch *disk.Watch
	// Strict makes a put of a new record fail when there is one already. For tests.
	Strict bool
}

// inboxMemory returns the part of SeenMemory that the inbox gets.
func (o *Options) inboxMemory() int64 {
	if o.Inbox == 0 {
		return 0
	}
	return cmp.Or(o.SeenMemory, seen.DefaultMemory) / 4
}

// An Index is the open index of one tree. Its methods, and those of its groups, may be called from
// any goroutine, but for Close. Those that write take turns, for which Totals and Runs.Current wait
// as well. All others read what was last committed, and neither wait for a writer nor hold one up.
//
// Errors are [ErrDisk] if the file system fails; [record.ErrDamaged] if the structure of the file
// is not sound, or a value that is needed is not what was written, which is [record.ErrCorrupt] as
// well; [record.ErrKey] for a URL that is not canonical; and those of a ctx that has ended and of
// functions handed over, and of Options.Watch, as they are. A transaction that fails has changed
// nothing; those before it in the same call stand. After ErrDisk or ErrDamaged of a method that
// writes the index is to be closed. If it is ReadOnly, nothing can be written, and there is no
// Filter.
//
// Functions handed over are called while no transaction is open, and may use the index, unless the
// method says otherwise.
type Index struct {
	file   *boltfile.File
	opts   Options
	filter *seen.Filter // nil when read-only
	key    [16]byte     // of the filter, drawn when the index was made

	mu     sync.Mutex    // one writer at a time; held over a whole write transaction
	totals record.Totals // guarded by mu; as last committed
	run    record.Run    // guarded by mu; the run that is going on, if ID is not 0
	began  time.Time     // guarded by mu; when run began, by the monotonic clock as well
	// Links that got no record, by the ID of the row whose outcome comes behind them, see
	// Outcome.TakeAhead; guarded by mu. It is for memory alone to know: after a crash such a row is
	// asked again.
	ahead map[string]uint32
	inbox *inbox.Inbox   // its changes are guarded by mu
	arena boltfile.Arena // guarded by mu; blocks for the next transaction

	outbox record.Outbox // guarded by mu; as last committed
	step   record.Step   // likewise
	// revisits is set once a stored page is to be asked again: until then nobody looks for one.
	revisits atomic.Bool
}

// Derive returns what follows from a name and from what was drawn when the index was made: the same
// in all runs, and nothing that a server can foresee.
func (x *Index) Derive(name string) [sha256.Size]byte {
	return sha256.Sum256(append(x.key[:], name...))
}

// MostWritten is the room in bytes that one transaction may need: for pages of up to
// [record.MostWeight] of links and of some thousand outcomes, or for rows moved from the inbox.
const MostWritten = 64 << 20

// Exists reports whether there is an index at path. The error is the system's.
func Exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Create makes a new empty index at path, whole or not at all. The error is [ErrDisk].
func Create(path string) error { return create(path, nil) }

// New makes a new empty index at path, once the disk has room, and opens it as Open does.
func New(path string, opts Options) (*Index, error) {
	if err := opts.waitForRoom(); err != nil {
		return nil, err
	}
	if err := create(path, opts.Watch); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return Open(path, opts)
}

func create(path string, watch *disk.Watch) error {
	return boltfile.Create(path, watch, func(tx *bolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		var key [16]byte
		if _, err := rand.Read(key[:]); err != nil {
			return err
		}
		sys := tx.Bucket(record.BucketSys)
		return errors.Join(
			putSchema(tx),
			sys.Put(record.KeyTotals, (&record.Totals{}).Append(nil, record.KeyTotals)),
			sys.Put(record.KeyFilter, record.Seal(key[:], record.KeyFilter)))
	})
}

// Open opens the index at path, which must exist. [record.ErrDamaged], [ErrOlder], [ErrSchema] and
// [ErrDisk] say why it cannot.
func Open(path string, opts Options) (*Index, error) {
	file, err := boltfile.Open(path, boltfile.Options{ReadOnly: opts.ReadOnly, NoSync: opts.NoSync, Watch: opts.Watch})
	if err != nil {
		return nil, err
	}
	x := &Index{file: file, opts: opts, ahead: map[string]uint32{}}
	err = x.load()
	whole := true
	if err == nil {
		x.inbox, whole, err = inbox.Open(file, inbox.Options{
			Least: opts.Inbox, Memory: opts.inboxMemory(), ReadOnly: opts.ReadOnly, Strict: opts.Strict,
			Records: record.BucketURL, Fingerprint: x.filter.Fingerprint,
		}, x.totals.Records())
	}
	if err == nil && !whole {
		err = x.Settle(context.Background())
	}
	if err != nil {
		return nil, errors.Join(boltfile.OnDisk(fmt.Errorf("%s: %w", path, err)), x.Close())
	}
	return x, nil
}

// WaitForRoom waits until the disk has room for a transaction that writes records.
func (x *Index) WaitForRoom() error { return x.opts.waitForRoom() }

func (o *Options) waitForRoom() error { return o.Watch.Ask() }

// lock takes the turn to write records, once the disk has room.
func (x *Index) lock() error {
	if err := x.WaitForRoom(); err != nil {
		return err
	}
	x.mu.Lock()
	return nil
}

func (x *Index) load() error {
	missing := false
	err := x.file.View(func(tx *bolt.Tx) (err error) {
		version, err := schemaOf(tx)
		switch {
		case err != nil:
			return err
		case version == Schema-1:
			return fmt.Errorf("%w: schema %d, this program reads %d", ErrOlder, version, Schema)
		case version != Schema:
			return fmt.Errorf("%w: schema %d, this program reads %d", ErrSchema, version, Schema)
		}
		for _, name := range buckets {
			switch {
			case tx.Bucket(name) != nil:
			case isLater(name):
				missing = true
			default:
				return fmt.Errorf("%w: no bucket %q", record.ErrDamaged, name)
			}
		}
		sys := tx.Bucket(record.BucketSys)
		if x.totals, err = record.DecodeTotals(record.KeyTotals, sys.Get(record.KeyTotals)); err != nil {
			return err
		}
		x.revisits.Store(x.totals.Revisits > 0)
		key, err := record.Unseal(sys.Get(record.KeyFilter), record.KeyFilter)
		if err != nil || len(key) != 16 {
			return fmt.Errorf("%w: filter key", record.ErrDamaged)
		}
		if x.outbox, err = record.DecodeOutbox(sys.Get(record.KeyPosted)); err != nil {
			return err
		}
		if x.step, err = record.DecodeStep(sys.Get(record.KeyStep)); err != nil {
			return err
		}
		x.key = [16]byte(key)
		if !x.opts.ReadOnly {
			memory := cmp.Or(x.opts.SeenMemory, seen.DefaultMemory) - x.opts.inboxMemory()
			x.filter, err = seen.New([16]byte(key), seen.Options{Memory: memory})
			return err
		}
		return nil
	})
	if err != nil || !missing || x.opts.ReadOnly {
		return err
	}
	return x.file.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
}

// isLater reports whether a bucket is one of targets outside or of revisits, which an index lacks
// that no program has written since there are any.
func isLater(bucket []byte) bool {
	return bytes.HasPrefix(bucket, record.BucketOutside) || bytes.Equal(bucket, record.BucketRevisit) || bytes.Equal(bucket, record.BucketLook) ||
		bytes.Equal(bucket, record.BucketVersion)
}

// Close closes the file. No other method may be running.
func (x *Index) Close() error {
	var err error
	if x.filter != nil {
		err = x.filter.Close()
	}
	return errors.Join(err, x.file.Close())
}

// Verify compares everything in the index that follows from something else, see [verify.Index].
// fault must not use the index.
func (x *Index) Verify(ctx context.Context, fault func(string)) (record.Totals, error) {
	return verify.Index(ctx, x.file, x.inbox, x.Totals(), fault)
}

// Totals returns the counters as last committed.
func (x *Index) Totals() record.Totals {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.totals
}

// Filter returns the seen filter: crawlers may drop a link that is Known to it.
func (x *Index) Filter() *seen.Filter { return x.filter }

// Transaction returns the number of the last committed transaction.
func (x *Index) Transaction() (id uint64, err error) { return x.file.Transaction() }
