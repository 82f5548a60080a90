package inspect

import (
	"errors"
	"fmt"
	"html/template"
	"io"
	"strconv"

	_ "embed"

	"urltree/internal/mirror"
	"urltree/internal/spool"
	"urltree/iut"
	"urltree/storage/record"
)

// Bounds of the first page of a mirror.
const (
	mostStartSeeds = 100    // that it lists
	mostSeedLooks  = 10_000 // seeds that are looked at for these
	mostStartHosts = 1000   // on one page; the others are on further ones
)

// A startPage collects what the first page of a mirror shows: the seeds, and each host with its
// first page. Hosts beyond some memory are in temporary files.
type startPage struct {
	rows *spool.Sorter
	host startHost // the one at hand
}

// A startHost is an origin on the first page.
type startHost struct {
	Origin string
	File   string // name of its first page, or, without pages, file
	Pages  int64
	Files  int64 // that are no pages
}

func (s *startPage) begin() { s.rows = spool.NewSorter(1<<20, 16) }

func (s *startPage) close() error { return s.rows.Close() }

// add adds a file. In the order of the tree other hosts may stand between the files of one.
func (s *startPage) add(r *record.Record, media string) error {
	if origin := record.Origin(r.URL); origin != s.host.Origin {
		if err := s.flush(); err != nil {
			return err
		}
		s.host.Origin = origin
	}
	isPage := media == "text/html" || media == "application/xhtml+xml"
	if s.host.File == "" || isPage && s.host.Pages == 0 {
		s.host.File = mirror.Name(r.URL, media)
	}
	if isPage {
		s.host.Pages++
	} else {
		s.host.Files++
	}
	return nil
}

// flush puts the host at hand to the others.
func (s *startPage) flush() error {
	h := s.host
	s.host = startHost{}
	if h.Origin == "" {
		return nil
	}
	counts := fmt.Sprintf("%d %d", h.Pages, h.Files)
	return s.rows.Add(spool.Row{Key: h.Origin, Values: [2]string{h.File, counts}})
}

// hosts calls fn with each host, sorted.
func (s *startPage) hosts(fn func(startHost) error) error {
	if err := s.flush(); err != nil {
		return err
	}
	next := s.rows.Sorted()
	var at startHost
	for {
		row, err := next()
		if err != nil && err != io.EOF {
			return err
		}
		if at.Origin != "" && (err == io.EOF || row.Key != at.Origin) {
			if err := fn(at); err != nil {
				return err
			}
			at = startHost{}
		}
		if err == io.EOF {
			return nil
		}
		h := startHost{Origin: row.Key, File: row.Values[0]}
		if _, err := fmt.Sscanf(row.Values[1], "%d %d", &h.Pages, &h.Files); err != nil {
			return err
		}
		if at.File == "" || at.Pages == 0 && h.Pages > 0 {
			at.File = h.File
		}
		at.Origin, at.Pages, at.Files = h.Origin, at.Pages+h.Pages, at.Files+h.Files
	}
}

//go:embed startpage.html
var startText string

var startTemplate = template.Must(template.New("").Parse(startText))

// A startView is what one of the first pages shows.
type startView struct {
	Seeds []startLink
	Hosts []startHost
	Next  string // name of the next one; "": there is none
}

type startLink struct{ URL, File string }

// Link returns the reference to a file.
func (*startView) Link(file string) template.URL {
	return template.URL(mirror.Relative(startName(1), file))
}

// startName returns the name of the first pages, numbered from 1 on.
func startName(n int) string {
	if n == 1 {
		return "index.html"
	}
	return "index" + strconv.Itoa(n) + ".html"
}

// write writes the first pages.
func (s *startPage) write(c *copying) error {
	seeds, err := c.startSeeds()
	if err != nil {
		return err
	}
	v, n := &startView{Seeds: seeds}, 1
	flush := func() error {
		err := c.out.File(mirror.Entry{Name: startName(n)}, func(w io.Writer) error { return startTemplate.Execute(w, v) })
		*v, n = startView{}, n+1
		return err
	}
	err = s.hosts(func(h startHost) error {
		if len(v.Hosts) == mostStartHosts {
			v.Next = startName(n + 1)
			if err := flush(); err != nil {
				return err
			}
		}
		v.Hosts = append(v.Hosts, h)
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// startSeeds returns the first seeds that lead to a file.
func (c *copying) startSeeds() (list []startLink, err error) {
	enough := errors.New("enough")
	looks := 0
	err = c.Tree.Seeds(iut.SeedMark{}, func(url string, _ iut.SeedMark) error {
		if looks++; looks > mostSeedLooks || len(list) == mostStartSeeds {
			return enough
		}
		file, err := c.file(url)
		if file != "" {
			list = append(list, startLink{url, file})
		}
		return err
	})
	if err == enough {
		err = nil
	}
	return list, err
}
