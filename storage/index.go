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
//	folder   folder key -> counts          of the records strictly below it, if they are many
//	query    record key without query -> counts  of its records with a query, if they are many
//	shorter  record key -> nothing         a shorter way to it was found: its links count anew
//	meta     record key -> page metadata   of stored pages that have any
//	scope    URL -> nothing                targets of seeds' redirects: seeds for scope
//	seed     letter, text -> nothing       what is asked of seeds: o: an origin, a: an area of scope
//	run      number -> run, as JSON
//	hour     number, hour -> figures, as JSON
//	sys      schema, totals, filter key, how much of the file of edges counts, which ranks are
//	         in, link options, how much of seeds.txt is in, that a stop was unclean, what stored
//	         pages and held rows are to be looked at again for
//
// Every value but those of pending, which follow from the records, and of rows that wait to be
// moved, which seal the record alone, ends in a CRC-32C of what stands before it and of its key
// (the schema version, which every program must be able to read, of itself alone). So a change of
// key or value is noticed, if only by one bit, and costs that one entry.
//
// One goroutine writes: [Index.Commit] takes whole sets of outcomes and is the only place that
// decides what is new. Read transactions are short; long scans resume by key.
package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"urltree/internal/seen"

	"urltree/storage/pagefile"
	"urltree/storage/record"
)

// schema is the version of all formats in index.db. [Upgrade] knows the one before.
const schema = 7

var (
	// ErrSchema says that index.db was written by another version of the format, which is not the
	// one before.
	ErrSchema = errors.New("index.db has another format version")
	// ErrOlder says that index.db has the format of the version before: [Upgrade] changes it to this
	// one.
	ErrOlder = errors.New("index.db has the format of the version before")
)

var (
	bucketURL     = []byte("url")
	bucketPending = []byte("pending")
	bucketHost    = []byte("host")
	bucketRobots  = []byte("robots")
	bucketSitemap = []byte("sitemap")
	bucketFolder  = []byte("folder")
	bucketQuery   = []byte("query")
	bucketShorter = []byte("shorter")
	bucketMeta    = []byte("meta")
	bucketScope   = []byte("scope")
	bucketSeed    = []byte("seed")
	bucketDomain  = []byte("domain")
	bucketRun     = []byte("run")
	bucketHour    = []byte("hour")
	bucketSys     = []byte("sys")

	bucketInbox = [2][]byte{[]byte("inbox-a"), []byte("inbox-b")}

	buckets = [][]byte{
		bucketURL, bucketPending, bucketHost, bucketRobots, bucketSitemap, bucketFolder, bucketQuery, bucketShorter,
		bucketMeta, bucketScope, bucketSeed, bucketDomain, bucketRun, bucketHour, bucketSys, bucketInbox[0], bucketInbox[1],
	}

	keySchema  = []byte("schema")
	keyTotals  = []byte("totals")
	keyFilter  = []byte("filter")
	keyUnclean = []byte("unclean")
	keyRelink  = []byte("relink")
	keyEdges   = []byte("edges")
	keyRanked  = []byte("ranked")
	keyOptions = []byte("options")
	keyReview  = []byte("review")
	keySeeds   = []byte("seeds")
)

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
	// Inbox lets new URLs wait in the order of discovery, which makes them cheaper by far, until there
	// are so many, and a quarter of all there are, but no more than a quarter of SeenMemory has place
	// for at 16 bytes each. 0: none; what an earlier run has left there is moved by Open. Negative:
	// none for new URLs; what an earlier run has left stays, and is found, until Settle moves it.
	Inbox int
	// Room is asked before all that an earlier run or commits have left in the inbox is moved, with
	// the bytes by which the file may grow meanwhile; its error gives that up. It may wait, until ctx
	// ends. nil: nobody is asked.
	Room func(ctx context.Context, bytes int64) error
	// Strict makes a put of a new record fail when there is one already. For tests.
	Strict bool
}

// An Index is the open index of one tree. All methods may be called from any goroutine; Commit
// and the other writing methods take turns.
type Index struct {
	db     *bolt.DB
	file   *os.File // of db
	opts   Options
	filter *seen.Filter // nil when read-only
	looked atomic.Int64 // see Looked

	mu     sync.Mutex    // one writer at a time; held over a whole write transaction
	totals record.Totals // guarded by mu; as last committed
	run    record.Run    // guarded by mu; the run that is going on, if ID is not 0
	began  time.Time     // guarded by mu; when run began, by the monotonic clock as well
	// Links that got no record, by the sitemap that is being read and names them; guarded by mu. It is
	// for memory alone to know: after a crash such a sitemap is read again from its beginning.
	cut map[string]uint32
	// The same by the page of which links were committed ahead of it, see Outcome.TakeAhead.
	ahead  map[string]uint32
	inbox  inbox
	over   overlay
	arena  arena  // guarded by mu; blocks for the next transaction
	allocs allocs // guarded by mu
	dated  bool   // guarded by mu; see date
	broken error  // guarded by mu; a write came upon damage, and bbolt may still hold its locks
	// The first commit that failed, ErrDisk; guarded by mu. A sync that is tried again may succeed
	// although the pages of the one that failed are lost: the system gives them up (Rebello et al.,
	// Can Applications Recover from fsync Failures?, USENIX ATC 2020).
	failed error
}

// Exists reports whether there is an index at path.
func Exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Create makes a new empty index at path: under a temporary name first, so that a file of that
// name is always a whole one.
func Create(path string) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bolt.Open(tmp, 0o644, &bolt.Options{Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("create %s: %w", tmp, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		var key [16]byte
		if _, err := rand.Read(key[:]); err != nil {
			return err
		}
		sys := tx.Bucket(bucketSys)
		return errors.Join(
			putSchema(tx),
			sys.Put(keyTotals, (&record.Totals{}).Append(nil, keyTotals)),
			sys.Put(keyFilter, record.Seal(key[:], keyFilter)))
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("create %s: %w", tmp, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// Open opens the index at path, which must exist. ErrDamaged, ErrOlder, ErrSchema and ErrDisk say
// why it cannot.
func Open(path string, opts Options) (*Index, error) {
	info, err := statFile(path)
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return nil, fmt.Errorf("%w: %s is empty", record.ErrDamaged, path) // bbolt would make a new one of it
	}
	bo := &bolt.Options{
		Timeout: 2 * time.Second, ReadOnly: opts.ReadOnly,
		NoSync: opts.NoSync,
	}
	if !opts.ReadOnly {
		// A map that never has to move: growing it would wait for all readers.
		bo.InitialMmapSize = mmapSize
	}
	db, file, err := openWhole(path, bo)
	if err != nil {
		return nil, err
	}
	db.AllocSize = allocated
	x := &Index{db: db, allocs: allocsOf(db), file: file, opts: opts, cut: map[string]uint32{}, ahead: map[string]uint32{}}
	err = x.load(info.Size())
	if err == nil && !opts.ReadOnly {
		err = x.loadInbox()
	}
	if err != nil {
		return nil, errors.Join(onDisk(fmt.Errorf("%s: %w", path, err)), x.Close())
	}
	return x, nil
}

// statFile is os.Stat for a path that must be a file or a link to one: what else is there is
// damage.
func statFile(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		nowhere := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR)
		if link, lerr := os.Lstat(path); nowhere && lerr == nil && link.Mode().Type() == fs.ModeSymlink {
			return nil, fmt.Errorf("%w: a link that leads nowhere: %v", record.ErrDamaged, err)
		}
		return nil, onDisk(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no file", record.ErrDamaged, path)
	}
	return info, nil
}

// openWhole opens a file whose structure is whole. ErrDamaged and ErrDisk say why it cannot.
func openWhole(path string, bo *bolt.Options) (*bolt.DB, *os.File, error) {
	if err := checkBefore(path, bo.ReadOnly); err != nil {
		return nil, nil, err
	}
	db, file, err := openBolt(path, bo)
	switch {
	case err == nil:
		return db, file, nil
	case errors.Is(err, record.ErrDamaged):
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	case errors.Is(err, berrors.ErrTimeout):
		return nil, nil, fmt.Errorf("open %s: %w", path, err)
	}
	// bbolt calls a meta page damaged that it could not read: whether one is, we have seen ourselves.
	if err := checkBefore(path, bo.ReadOnly); err != nil {
		return nil, nil, err
	}
	if !errors.As(err, new(*fs.PathError)) {
		err = fmt.Errorf("open %s: %w", path, err)
	}
	return nil, nil, failure{err}
}

// openBolt opens the file. Where bbolt trusts what it reads, and so panics or faults on a file
// that is damaged, it gives the panic as an error.
func openBolt(path string, bo *bolt.Options) (db *bolt.DB, file *os.File, err error) {
	bo.OpenFile = func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
		f, err = os.OpenFile(name, flag, mode)
		file = f
		return f, err
	}
	panicked := guard(func() { db, err = bolt.Open(path, 0o644, bo) })
	if panicked != nil {
		return nil, nil, errors.Join(panicked, leave(file))
	}
	return db, file, err
}

// leave abandons the file that bbolt cannot close any more. It stays mapped, and the mapping would
// keep the lock.
func leave(file *os.File) error {
	return errors.Join(unix.Flock(int(file.Fd()), unix.LOCK_UN), file.Close())
}

// wholeCheck is the size up to which a file is looked at whole before it is written to: in a
// moment. bbolt trusts what it reads; of a damaged page of records it may free four billion others.
const wholeCheck = 64 << 20

// checkBefore looks at the structure of a file before it is used, unless somebody writes to it:
// bbolt would follow inner pages that lead back to each other without end. For reading, inner pages
// are enough: a hundredth of the file.
func checkBefore(path string, readOnly bool) error {
	f, err := os.Open(path)
	if err != nil {
		return onDisk(err)
	}
	defer f.Close()
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil // bbolt says so, after some time
	case err != nil:
		return onDisk(fmt.Errorf("lock %s: %w", path, err))
	}
	info, err := f.Stat()
	if err != nil {
		return onDisk(err)
	}
	return checkFile(f, !readOnly && info.Size() <= wholeCheck)
}

// checkFile looks at the structure of an open file, see pagefile.Check.
func checkFile(f *os.File, leaves bool) error {
	info, err := f.Stat()
	if err != nil {
		return onDisk(err)
	}
	if err := pagefile.Check(f, info.Size(), leaves); err != nil {
		return onDisk(fmt.Errorf("%s: %w", f.Name(), damaged(err)))
	}
	return nil
}

// damaged makes damage that package pagefile has found ErrDamaged; other errors stay as they are.
func damaged(err error) error {
	if errors.Is(err, pagefile.ErrDamaged) {
		return fmt.Errorf("%w: %w", record.ErrDamaged, err)
	}
	return err
}

// write runs fn in a write transaction. x.mu is held. After a panic bbolt may be left with its
// locks held, so that nothing is written any more; nor is it after a commit that failed.
func (x *Index) write(fn func(*bolt.Tx) error) (err error) {
	switch {
	case x.broken != nil:
		return x.broken
	case x.failed != nil:
		return fmt.Errorf("nothing more is written: %w", x.failed)
	}
	if err := x.date(); err != nil {
		x.failed = failure{fmt.Errorf("date %s: %w", x.db.Path(), err)}
		return x.failed
	}
	done := false
	x.broken = guard(func() {
		err = x.db.Update(func(tx *bolt.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			done = true
			return nil
		})
	})
	if x.broken != nil {
		return x.broken
	}
	if err != nil && done { // what is left after fn is to write and to sync
		x.failed = failure{fmt.Errorf("commit to %s: %w", x.db.Path(), err)}
		return x.failed
	}
	x.allocs.shrink()
	return err
}

// date brings it to the disk that the file changes now, before the first change: bbolt syncs data
// alone, and who reads the tree after a power cut tells by this time which results are older than
// the index.
func (x *Index) date() error {
	if x.dated || x.opts.NoSync {
		return nil
	}
	now := unix.NsecToTimeval(time.Now().UnixNano())
	if err := unix.Futimes(int(x.file.Fd()), []unix.Timeval{now, now}); err != nil {
		return err
	}
	x.dated = true
	return x.file.Sync()
}

// view runs fn, which calls nothing but bbolt and decoders, in a read transaction.
func (x *Index) view(fn func(*bolt.Tx) error) (err error) {
	if panicked := guard(func() { err = x.db.View(fn) }); panicked != nil {
		return panicked
	}
	return err
}

// guard runs fn, which reads the mapped file, and gives its panic or memory fault as an error.
func guard(fn func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", record.ErrDamaged, r)
		}
	}()
	fn()
	return nil
}

func (x *Index) load(size int64) error {
	return x.view(func(tx *bolt.Tx) (err error) {
		if tx.Size() > size {
			return fmt.Errorf("%w: %d bytes, its pages need %d", record.ErrDamaged, size, tx.Size())
		}
		version, err := schemaOf(tx)
		switch {
		case err != nil:
			return err
		case version == schema-1:
			return fmt.Errorf("%w: schema %d, this program reads %d", ErrOlder, version, schema)
		case version != schema:
			return fmt.Errorf("%w: schema %d, this program reads %d", ErrSchema, version, schema)
		}
		for _, name := range buckets {
			if tx.Bucket(name) == nil {
				return fmt.Errorf("%w: no bucket %q", record.ErrDamaged, name)
			}
		}
		sys := tx.Bucket(bucketSys)
		if x.totals, err = record.DecodeTotals(keyTotals, sys.Get(keyTotals)); err != nil {
			return fmt.Errorf("totals: %w", err)
		}
		key, err := record.Unseal(sys.Get(keyFilter), keyFilter)
		if err != nil || len(key) != 16 {
			return fmt.Errorf("%w: filter key", record.ErrDamaged)
		}
		if !x.opts.ReadOnly {
			x.filter, err = seen.New([16]byte(key), seen.Options{Memory: x.inbox.open(&x.opts)})
			return err
		}
		return nil
	})
}

// Close closes the file. No other method may be running.
func (x *Index) Close() error {
	var err error
	if x.filter != nil {
		err = x.filter.Close()
	}
	if x.broken != nil {
		return errors.Join(err, leave(x.file))
	}
	return errors.Join(err, onDisk(x.db.Close()))
}

// Totals returns the counters as last committed.
func (x *Index) Totals() record.Totals {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.totals
}

// NeedsRelink reports whether scope has grown since stored pages were parsed: they may have links
// that belong to the crawl only now, and no record.
func (x *Index) NeedsRelink() (yes bool, err error) {
	err = x.view(func(tx *bolt.Tx) error {
		yes = tx.Bucket(bucketSys).Get(keyRelink) != nil
		return nil
	})
	return yes, err
}

// Relinked says that every stored page has been parsed again.
func (x *Index) Relinked() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.write(func(tx *bolt.Tx) error { return tx.Bucket(bucketSys).Delete(keyRelink) })
}

// Review has the next run look at all held rows, whatever holds them, and at pages whose links were
// cut: where an index is made from folders, or from what is whole of a damaged one, that may have
// been by other options than those of LinkOptions.
func (x *Index) Review() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.write(func(tx *bolt.Tx) error { return tx.Bucket(bucketSys).Put(keyReview, record.Seal(nil, keyReview)) })
}

// NeedsReview reports whether Review was called, and Reviewed was not since.
func (x *Index) NeedsReview() (yes bool, err error) {
	err = x.view(func(tx *bolt.Tx) error {
		yes = tx.Bucket(bucketSys).Get(keyReview) != nil
		return nil
	})
	return yes, err
}

// Reviewed says that this is done.
func (x *Index) Reviewed() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.write(func(tx *bolt.Tx) error { return tx.Bucket(bucketSys).Delete(keyReview) })
}

// Written returns the pages, of the system's page size, that transactions have written to the file
// since Open.
func (x *Index) Written() int64 {
	stats := x.db.Stats()
	return stats.TxStats.GetPageAlloc() / int64(x.db.Info().PageSize)
}

// Filter returns the seen filter: crawlers may drop a link that is Known to it.
func (x *Index) Filter() *seen.Filter { return x.filter }

// Looked returns the number of keys that scans of any sort have looked at.
func (x *Index) Looked() int64 { return x.looked.Load() }

// Transaction returns the number of the last committed transaction.
func (x *Index) Transaction() (id uint64, err error) {
	err = x.view(func(tx *bolt.Tx) error {
		id = uint64(tx.ID())
		return nil
	})
	return id, err
}
