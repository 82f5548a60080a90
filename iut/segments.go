package iut

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"urltree/internal/archive"
	"urltree/internal/warc"
	"urltree/storage/record"
)

// An Answer is how a page came, for a tree of segments.
type Answer = archive.Answer

// SegmentOptions say how new segments are written.
type SegmentOptions struct {
	Size  int64       // a segment with more bytes is closed; 0: 1 GiB
	Plain bool        // without compression
	About warc.Header // what the first record says of the crawl
	// NoRevisit keeps a body again that is kept already.
	NoRevisit bool
}

const (
	segmentFolder = "warc"
	segmentSize   = 1 << 30
	segmentBuffer = 256 << 10
)

// segments are pages in WARC files, as records. A page is a group of them: its answer, a response
// or a revisit, or a resource where the answer is not known; its request; and a metadata record
// with its facts, which ends the group. Redirects are groups without facts.
//
// A segment is written by one call of store at a time, and never again once it is closed, by a
// later process neither. So what no commit covers stands behind the committed part of each, or is a
// segment of its own, see Recover.
type segments struct {
	fs   FS
	opts SegmentOptions
	made time.Time

	mu     sync.Mutex
	names  map[uint32]string // guarded by mu; all segments that are known
	latest uint32            // guarded by mu; the highest number of them
	free   []*segment        // guarded by mu; open ones that nobody writes
	loose  map[string]Facts  // guarded by mu; whole pages of earlier runs that the index does not know
	dirty  map[string]bool   // guarded by mu; names of what may not be synced
	named  bool              // guarded by mu; the names of segments of earlier processes are durable
	kept   bodies            // guarded by mu
	// waiting says where the pages begin that no transaction has, of each segment in the order of the
	// file; guarded by mu. Builders share segments, and commit in another order.
	waiting map[uint32][]int64
	tracks  bool // new pages are among those; set before the first one, where there is a Committer
}

func newSegments(disk FS, opts SegmentOptions) *segments {
	if opts.Size <= 0 {
		opts.Size = segmentSize
	}
	return &segments{
		fs: disk, opts: opts, made: time.Now().UTC(), names: map[uint32]string{}, loose: map[string]Facts{}, waiting: map[uint32][]int64{}, dirty: map[string]bool{},
		kept: bodies{at: map[[sha1.Size]byte]record.Extent{}},
	}
}

// find finds the segments, and makes their folder if create is set. The processes that made them
// may not have synced them: the next sync does, unless recover says which of them need it.
func (s *segments) find(create bool) error {
	if create {
		if err := s.fs.Mkdir(segmentFolder); err != nil && !errors.Is(err, fs.ErrExist) {
			return DiskError("make "+segmentFolder, err)
		}
	}
	_, err := s.list()
	for _, name := range s.names {
		s.dirty[name] = true
	}
	s.named = len(s.names) == 0
	return err
}

// list finds the segments, and returns the names of what else is in their folder.
func (s *segments) list() (foreign []string, err error) {
	entries, err := s.fs.List(segmentFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, DiskError("list", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		if number, ok := segmentNumber(e.Name); ok && e.Type == 0 && s.names[number] == "" {
			s.names[number], s.latest = segmentFolder+"/"+e.Name, max(s.latest, number)
		} else if !ok || e.Type != 0 || path.Base(s.names[number]) != e.Name {
			foreign = append(foreign, segmentFolder+"/"+e.Name)
		}
	}
	return foreign, nil
}

// segmentName returns the name of a segment below the root.
func (s *segments) segmentName(number uint32) string {
	name := fmt.Sprintf("%s/pages-%s-%05d.warc", segmentFolder, s.made.Format("20060102150405"), number)
	if !s.opts.Plain {
		name += ".gz"
	}
	return name
}

// segmentNumber returns the number in the name of a segment.
func segmentNumber(name string) (uint32, bool) {
	name, ok := strings.CutSuffix(strings.TrimSuffix(name, ".gz"), ".warc")
	if !ok || !strings.HasPrefix(name, "pages-") {
		return 0, false
	}
	number, err := strconv.ParseUint(name[strings.LastIndexByte(name, '-')+1:], 10, 32)
	return uint32(number), err == nil && number > 0
}

// A segment is an open one. It has one owner at a time.
type segment struct {
	number uint32
	name   string
	file   File
	buf    *bufio.Writer
	out    *archive.Writer
}

// take returns a segment to write to.
func (s *segments) take() (*segment, error) {
	s.mu.Lock()
	if n := len(s.free); n > 0 {
		g := s.free[n-1]
		s.free = s.free[:n-1]
		s.mu.Unlock()
		return g, nil
	}
	s.latest++
	g := &segment{number: s.latest, name: s.segmentName(s.latest)}
	s.names[g.number] = g.name
	s.mu.Unlock()
	var err error
	if g.file, err = s.fs.Open(g.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL); err != nil {
		return nil, DiskError("make a segment", err)
	}
	g.buf = bufio.NewWriterSize(g.file, segmentBuffer)
	if g.out, err = archive.NewWriter(g.buf, s.opts.Plain, path.Base(g.name), s.made, s.opts.About); err != nil {
		return nil, errors.Join(DiskError("write "+g.name, err), g.file.Close())
	}
	return g, nil
}

// give takes a segment back, and closes one that is large enough.
func (s *segments) give(g *segment) error {
	s.mu.Lock()
	full := g.out.Size() >= s.opts.Size
	if !full {
		s.free = append(s.free, g)
	}
	s.mu.Unlock()
	if full {
		return DiskError("close "+g.name, g.file.Close())
	}
	return nil
}

func (s *segments) store(p *Page, line []byte) (Result, error) {
	s.mu.Lock()
	f, loose := s.loose[p.URL]
	s.mu.Unlock()
	if loose && !p.Earlier {
		switch f, err := s.facts(f, true); {
		case err == nil:
			return Result{Facts: f, Adopted: true}, s.dropTemp(p)
		case errors.Is(err, ErrDisk):
			return Result{}, err
		}
	}
	f = p.Facts
	var err error
	f.Extent, err = s.append(p, line)
	return Result{Facts: f}, err
}

func (s *segments) keepAnswer(p *Page) (record.Extent, error) { return s.append(p, nil) }

func (s *segments) dropTemp(p *Page) error {
	if p.Temp == "" || p.lasts {
		return nil
	}
	return DiskError("drop body", s.fs.Remove(p.Temp))
}

// append appends the group of a page; with a nil line it has no facts. After an error, which is
// ErrDisk, the segment is not used again.
func (s *segments) append(p *Page, line []byte) (record.Extent, error) {
	c := archive.Capture{
		URL: p.URL, Time: time.Unix(p.Time, 0), Answer: p.Answer, Truncated: strings.Contains(p.Flags, "t"), About: aboutOf(p, line),
	}
	if c.Media = p.Media; p.Charset != "" {
		c.Media += "; charset=" + p.Charset
	}
	if p.Answer != nil {
		c.Coded = len(archive.Codings(p.Answer.Head)) > 0
	}
	file, err := s.open(p, &c)
	if err != nil {
		return record.Extent{}, err
	}
	if file != nil {
		defer file.Close()
	}
	if c.Same, err = s.same(&c); err != nil {
		return record.Extent{}, err
	}
	g, err := s.take()
	if err != nil {
		return record.Extent{}, err
	}
	at, err := g.out.Write(&c)
	if err == nil {
		err = g.buf.Flush()
	}
	e := record.Extent{Segment: g.number, Offset: at.Offset, Length: at.Length, About: at.About}
	if err != nil {
		return e, errors.Join(DiskError("write "+g.name, err), g.file.Close())
	}
	s.mu.Lock()
	s.dirty[g.name] = true // before another page names this body
	if s.tracks && line != nil {
		s.waiting[e.Segment] = append(s.waiting[e.Segment], e.Offset)
	}
	if c.Same == nil && c.Answer != nil && c.Size > 0 && !s.opts.NoRevisit {
		s.kept.put(c.Digest, e)
	}
	s.mu.Unlock()
	if err := s.give(g); err != nil {
		return e, err
	}
	return e, s.dropTemp(p)
}

// open sets the body of a capture, with its digest and size; file is that of a body in a file.
func (s *segments) open(p *Page, c *archive.Capture) (file File, err error) {
	if p.Temp == "" {
		c.Body, c.Size, c.Digest = bytes.NewReader(p.Body), int64(len(p.Body)), sha1.Sum(p.Body)
		return nil, nil
	}
	if file, err = s.fs.Open(p.Temp, os.O_RDONLY); err != nil {
		return nil, DiskError("read body", err)
	}
	if err = c.Sum(file); err != nil {
		return nil, errors.Join(DiskError("read body", err), file.Close())
	}
	c.Body = io.NewSectionReader(file, 0, c.Size)
	return file, nil
}

// Fields of a metadata record.
const (
	viaField   = "via"             // source, but for a seed
	fromField  = "redirected-from" // the URL that redirected to it
	factsField = "facts"           // the line of source.txt, without its end
)

// aboutOf returns the block of the record with the facts of a page.
func aboutOf(p *Page, line []byte) []byte {
	var h warc.Header
	if p.Source != record.Seed {
		h = append(h, warc.Field{Name: viaField, Value: p.Source})
	}
	h = append(h, warc.Field{Name: fromField, Value: p.Via})
	if line == nil { // no page; facts have the depth
		h = append(h, warc.Field{Name: "depth", Value: strconv.FormatUint(uint64(p.PageDepth), 10)})
	}
	return archive.Fields(append(h, warc.Field{Name: factsField, Value: strings.TrimSuffix(string(line), "\n")}))
}

// mostBodies is how many bodies are remembered, to be named in place of being kept again.
const mostBodies = 1 << 17

// bodies are the latest bodies that were kept, by their digest.
type bodies struct {
	at   map[[sha1.Size]byte]record.Extent
	ring [][sha1.Size]byte // in the order of arrival
	next int               // the one to forget next, once there are mostBodies
}

func (b *bodies) put(digest [sha1.Size]byte, at record.Extent) {
	if _, ok := b.at[digest]; ok {
		return
	}
	b.at[digest] = at
	if len(b.ring) < mostBodies {
		b.ring = append(b.ring, digest)
		return
	}
	delete(b.at, b.ring[b.next])
	b.ring[b.next] = digest
	b.next = (b.next + 1) % mostBodies
}

// same returns the record that has the body of a capture already, nil if none is known. A record
// that cannot be read any more is none: the body is kept once more. The error is ErrDisk.
func (s *segments) same(c *archive.Capture) (*archive.Same, error) {
	if c.Answer == nil || c.Size == 0 {
		return nil, nil
	}
	s.mu.Lock()
	at, ok := s.kept.at[c.Digest]
	s.mu.Unlock()
	if !ok {
		return nil, nil
	}
	r, err := s.record(at)
	if errors.Is(err, ErrDisk) {
		return nil, err
	}
	if err != nil {
		return nil, nil
	}
	defer r.close()
	return &archive.Same{
		ID: r.rec.Get(warc.FieldID), URL: r.rec.Target(), Date: r.rec.Get(warc.FieldDate), File: path.Base(r.name), Offset: at.Offset,
	}, nil
}

// sync syncs what was written since the last call, where SyncAll works file by file: it knows of no
// file that is still open.
func (s *segments) sync() error {
	s.mu.Lock()
	dirty, named := s.dirty, s.named
	s.dirty, s.named = make(map[string]bool, len(dirty)), true
	s.mu.Unlock()
	if s.fs.SyncMode() != "fsync" {
		return nil
	}
	if !named {
		if err := s.fs.SyncDir(segmentFolder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := s.fs.SyncDir("."); err != nil {
			return err
		}
	}
	for name := range dirty {
		f, err := s.fs.Open(name, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a conversion has removed it
		}
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// committed takes pages for committed, and returns what is open in their segments then, as an
// Outcome has it.
func (s *segments) committed(set []record.Extent) map[uint32]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := map[uint32]int64{}
	for _, e := range set {
		if i, ok := slices.BinarySearch(s.waiting[e.Segment], e.Offset); ok {
			s.waiting[e.Segment] = slices.Delete(s.waiting[e.Segment], i, i+1)
		}
		first[e.Segment] = -1
		if left := s.waiting[e.Segment]; len(left) > 0 {
			first[e.Segment] = left[0]
		}
	}
	return first
}

func (s *segments) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, g := range s.free {
		err = errors.Join(err, DiskError("close "+g.name, g.file.Close()))
	}
	s.free = nil
	return err
}

// adopt has nothing more to be synced, see find and recover.
func (s *segments) adopt(at Facts) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.loose, at.URL)
	return nil
}

// removeTorn removes nothing: what stands in a segment stays there, and a new page behind it.
func (s *segments) removeTorn(at Facts, stored bool) (kept bool, err error) {
	_, err = s.facts(at, true)
	if err == nil || errors.Is(err, ErrDisk) {
		return false, err
	}
	s.mu.Lock()
	delete(s.loose, at.URL)
	s.mu.Unlock()
	return stored, nil
}

func (s *segments) where(at Facts) (string, error) {
	name, err := s.nameOf(at.Extent.Segment)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d %d", name, at.Extent.Offset, at.Extent.Length), nil
}

// nameOf returns the name of a segment, which another process may have made meanwhile.
func (s *segments) nameOf(number uint32) (string, error) {
	for again := range 2 {
		s.mu.Lock()
		name := s.names[number]
		s.mu.Unlock()
		if name != "" {
			return name, nil
		}
		if number == 0 || again == 1 {
			break
		}
		if _, err := s.list(); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("iut: segment %d: %w", number, fs.ErrNotExist)
}
