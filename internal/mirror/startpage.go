package mirror

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"html/template"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	_ "embed"
)

// Bounds of the first page of a mirror.
const (
	mostSeeds = 100  // that it lists
	mostHosts = 1000 // on one page; the others are on further ones
)

// A startPage is the first page of a mirror, or one of those that go on with it. Together they lead
// to all that the folder has, whichever run has written it.
type startPage struct {
	Seeds []startSeed
	Hosts []startHost
	Next  string // name of the next one; "": there is none

	folder *Folder
	number int // from 1 on
}

// A startSeed is a seed that has a file.
type startSeed struct{ URL, File string }

// A startHost is a host with its first page.
type startHost struct {
	folder string // of its files
	place  string // of File among those of the others
	Origin string
	File   string // name of its first page, or, without pages, file
	Pages  int64
	Files  int64 // that are no pages
}

//go:embed startpage.html
var startText string

var startTemplate = template.Must(template.New("").Parse(startText))

// Link returns the reference to a file.
func (*startPage) Link(file string) template.URL { return template.URL(Relative(startName(1), file)) }

// startName returns the name of the first pages, numbered from 1 on.
func startName(n int) string {
	if n == 1 {
		return index + ".html"
	}
	return index + strconv.Itoa(n) + ".html"
}

// isStart reports whether a name is one that startName returns.
var isStart = regexp.MustCompile(`^index[0-9]*\.html$`).MatchString

// writeStart writes the first pages at the end of a run, see [Folder.isLeft].
func (f *Folder) writeStart(complete bool) error {
	p, host := &startPage{folder: f, number: 1}, startHost{}
	first := p // it waits for the seeds
	hasFile := map[string]bool{}
	for _, s := range f.seeds {
		hasFile[s.File] = false
	}
	flush := func() (err error) {
		if host.File == "" {
			return nil
		}
		if len(p.Hosts) == mostHosts {
			p.Next = startName(p.number + 1)
			if p != first {
				err = p.write()
			}
			p = &startPage{folder: f, number: p.number + 1}
		}
		p.Hosts = append(p.Hosts, host)
		return err
	}
	err := f.list.items(func(name string, it item) error {
		part := strings.SplitN(name, "/", 3) // scheme, host and file
		if len(part) < 3 || len(it.lines) == 0 || !f.isLeft(it, complete) {
			return nil
		}
		if _, ok := hasFile[name]; ok {
			hasFile[name] = true
		}
		if folder := part[0] + "/" + part[1]; folder != host.folder {
			if err := flush(); err != nil {
				return err
			}
			host = startHost{folder: folder, Origin: part[0] + "://" + shownHost(part[1])}
		}
		host.add(name, part[2])
		return nil
	})
	if err == nil {
		err = flush()
	}
	for _, s := range f.seeds {
		if hasFile[s.File] && len(first.Seeds) < mostSeeds && !slices.Contains(first.Seeds, s) {
			first.Seeds = append(first.Seeds, s)
		}
	}
	if err == nil {
		err = first.write()
	}
	if err == nil && p != first {
		err = p.write()
	}
	return err
}

// shownHost returns the host of a folder, with its port.
func shownHost(dir string) string {
	if i := strings.LastIndexByte(dir, '_'); i >= 0 && strings.IndexByte(dir, mark) < 0 {
		return dir[:i] + ":" + dir[i+1:]
	}
	host, _, _ := strings.Cut(dir, string(mark)) // what is readable of it
	return host
}

// add counts a file of a host.
func (h *startHost) add(name, file string) {
	ext := strings.TrimPrefix(path.Ext(file), ".")
	isPage := kindOf("text/html").takes(ext) || kindOf("application/xhtml+xml").takes(ext)
	place := strings.TrimSuffix(file, index+"."+ext) // that of a folder is its own first page
	if h.File == "" || isPage && h.Pages == 0 || isPage && place < h.place {
		h.File, h.place = name, place
	}
	if isPage {
		h.Pages++
	} else {
		h.Files++
	}
}

// write writes the page.
func (p *startPage) write() error {
	var b bytes.Buffer
	if err := startTemplate.Execute(&b, p); err != nil {
		return err
	}
	f, name := p.folder, startName(p.number)
	if err := f.file(&Entry{Name: name}, &counted{r: &b, n: &f.Bytes, sum: sha256.New()}); err != nil {
		return fmt.Errorf("%s: %w", name, cause(err))
	}
	f.Files.Add(1)
	f.Own.Add(1)
	return nil
}
