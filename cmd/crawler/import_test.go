package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/internal/testweb"
	"urltree/internal/warc"
	"urltree/iut"
)

// importColumns are those of a URL that an import brings back: all but where a page is and when the
// URL became known.
const importColumns = "url,state,reason,status,tries,source,via,depth,bytes,time,type,charset,sha256,target,title,description,language,canonical"

// ledger returns the rows of an export of a tree: of one state, or of all.
func ledger(t *testing.T, dir, state string) []string {
	t.Helper()
	return rowsOf(t, dir, "-state", state)
}

// ledgerOf returns all rows of an export of a tree.
func ledgerOf(t *testing.T, dir, tree string) []string {
	t.Helper()
	return rowsOf(t, dir, "-tree", tree)
}

func rowsOf(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	text := must(t, dir, append([]string{"export", "-columns", importColumns}, args...)...)
	_, rows, _ := strings.Cut(text, "\n")
	return slices.Sorted(strings.Lines(rows))
}

// pick returns rows with the named columns alone.
func pick(rows []string, columns ...string) (list []string) {
	names := strings.Split(importColumns, ",")
	for _, row := range rows {
		fields := strings.Split(strings.TrimSuffix(row, "\n"), "\t")
		var kept []string
		for _, c := range columns {
			kept = append(kept, fields[slices.Index(names, c)])
		}
		list = append(list, strings.Join(kept, "\t"))
	}
	return list
}

// importSite crawls a web with pages of many kinds into a tree of a store, and returns the folder
// that it is in.
func importSite(t *testing.T, store string) (dir string, web *testweb.Web) {
	t.Helper()
	web = testweb.New(testweb.Options{Hosts: 3, Pages: 300, Seed: 4, MaxSize: 9 << 10, Redirects: .1, Texts: .1, NoIndex: .05, Images: .05})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.Stop)
	dir = t.TempDir()
	seeds := filepath.Join(dir, "seed.txt")
	if err := os.WriteFile(seeds, []byte(strings.Join(web.Seeds(), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "-quiet", "-store", store, "-delay", "0", "-allow-private", "-input", seeds)
	return dir, web
}

// archivesOf returns the WARC files of a tree: an export, and its segments.
func archivesOf(t *testing.T, dir, store string) map[string][]string {
	t.Helper()
	file := filepath.Join(dir, "pages.warc.gz")
	must(t, dir, "export", "-what", "warc", "-output", file)
	files := map[string][]string{"export": {file}}
	if store == iut.StoreWARC {
		segments, err := filepath.Glob(filepath.Join(dir, "iut", "warc", "*"))
		if err != nil || len(segments) == 0 {
			t.Fatal(segments, err)
		}
		files["segments"] = segments
	}
	return files
}

// requireImported checks that an import has brought back pages: all columns are the same, but that
// a shorter way may have been found to one.
func requireImported(t *testing.T, want, got []string) {
	t.Helper()
	columns := slices.DeleteFunc(strings.Split(importColumns, ","), func(c string) bool { return c == "depth" })
	if diff := cmp.Diff(pick(want, columns...), pick(got, columns...)); diff != "" {
		t.Fatal(diff)
	}
	after := pick(got, "depth")
	for i, before := range pick(want, "depth") {
		if len(before) < len(after[i]) || len(before) == len(after[i]) && before < after[i] {
			t.Errorf("%s: the depth was %s", got[i], before)
		}
	}
}

// TestImportOwn: what a tree exports, and its segments, make the same tree again, in either store:
// its pages are the same in all columns, but that a shorter way may be found to one, and of a tree
// of segments so are its redirects.
func TestImportOwn(t *testing.T) {
	for _, from := range iut.Stores {
		dir, _ := importSite(t, from)
		want, redirects := ledger(t, dir, "stored"), ledger(t, dir, "redirected")
		for what, files := range archivesOf(t, dir, from) {
			for _, to := range iut.Stores {
				t.Run(from+" "+what+" "+to, func(t *testing.T) {
					into := t.TempDir()
					must(t, into, append([]string{"import", "-quiet", "-store", to}, files...)...)
					requireImported(t, want, ledger(t, into, "stored"))
					if from == iut.StoreWARC {
						columns := []string{"url", "status", "time", "target"}
						if diff := cmp.Diff(pick(redirects, columns...), pick(ledger(t, into, "redirected"), columns...)); diff != "" {
							t.Error(diff)
						}
					}
					must(t, into, "check")
				})
			}
		}
	}
}

// killImport runs an import with -verbose and kills it after so many outcomes. It reports whether
// the kill came before the end.
func killImport(t *testing.T, dir string, outcomes int, args ...string) bool {
	t.Helper()
	cmd := child(dir, append([]string{"import", "-verbose"}, args...)...)
	lines, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewScanner(lines); outcomes > 0 && in.Scan(); {
		if strings.HasPrefix(in.Text(), "http") {
			outcomes--
		}
	}
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
	return outcomes == 0 && cmd.ProcessState.ExitCode() == -1
}

// TestImportKilled: an import that is killed again and again, at the first outcome and later ones,
// makes the same tree in the end as one that is not: each row is the same, also of what is pending.
func TestImportKilled(t *testing.T) {
	dir, _ := importSite(t, iut.StoreWARC)
	for _, store := range iut.Stores {
		t.Run(store, func(t *testing.T) {
			args := []string{"-store", store, "-buffer-size", "20", "-flush-interval", "20ms", "-tree"}
			files := archivesOf(t, dir, iut.StoreWARC)["segments"]
			into := t.TempDir()
			must(t, into, append(append([]string{"import", "-quiet"}, append(args, "once")...), files...)...)
			kills := 0
			for _, after := range []int{1, 30, 7, 64, 64, 2} {
				if killImport(t, into, after, append(append(args, "iut"), files...)...) {
					kills++
				}
				must(t, into, "check")
			}
			if kills < 3 {
				t.Errorf("only %d kills came before the end", kills)
			}
			must(t, into, append(append([]string{"import", "-quiet"}, append(args, "iut")...), files...)...)
			must(t, into, "check", "-links")
			if diff := cmp.Diff(ledgerOf(t, into, "once"), ledgerOf(t, into, "iut")); diff != "" {
				t.Error(diff)
			}
			requireWholeSegments(t, filepath.Join(into, "iut"))
		})
	}
}

// TestImportGoesOn: a crawl goes on from an imported tree. It asks for nothing that was imported,
// and ends with all pages of the web; ranks can be had before.
func TestImportGoesOn(t *testing.T) {
	for _, store := range iut.Stores {
		t.Run(store, func(t *testing.T) {
			web := testweb.New(testweb.Options{Hosts: 3, Pages: 300, Seed: 5, MaxSize: 5 << 10, Redirects: .05})
			if err := web.Start(0); err != nil {
				t.Fatal(err)
			}
			defer web.Stop()
			dir := t.TempDir()
			writeSeeds(t, dir, web.Seeds())
			must(t, dir, "-quiet", "-store", store, "-delay", "0", "-allow-private", "-input", "seed.txt", "-max-pages", "120")
			files := archivesOf(t, dir, store)["export"]
			into := t.TempDir()
			must(t, into, append([]string{"import", "-quiet", "-edges"}, files...)...)
			must(t, into, "rank")
			imported := urlsOf(t, filepath.Join(into, "res.txt"))
			before := web.Requests()
			must(t, into, "-quiet", "-delay", "0", "-allow-private")
			requireSame(t, urlsOf(t, filepath.Join(into, "res.txt")), web.Answer().Stored)
			after := web.Requests()
			for _, url := range imported {
				if after[url] != before[url] {
					t.Errorf("%s was asked for again", url)
				}
			}
			if len(imported) < 120 {
				t.Errorf("only %d pages imported", len(imported))
			}
			must(t, into, "check", "-links")
		})
	}
}

// TestImportWget: the archive of a recursive wget makes the tree that a crawl would have made:
// the same pages and failures, with what led to them.
func TestImportWget(t *testing.T) {
	wget, err := exec.LookPath("wget")
	if err != nil {
		t.Skip("wget is missing: apt-get install wget")
	}
	web := testweb.New(testweb.Options{Pages: 120, Seed: 6, MaxSize: 5 << 10, Texts: .05})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	defer web.Stop()
	dir := t.TempDir()
	cmd := exec.Command(wget, append([]string{"-q", "-r", "-l", "inf", "--no-proxy", "--warc-file=wget"}, web.Seeds()...)...)
	cmd.Dir = dir
	_ = cmd.Run() // status 8 if something was not found
	must(t, dir, "import", "-quiet", "-scope", "host", "wget.warc.gz")
	asked := web.Asked()
	rows := ledger(t, dir, "stored")
	requireSame(t, pick(rows, "url"), web.Answer().Stored)
	if web.Asked() != asked {
		t.Error("the web was asked")
	}
	for _, row := range pick(rows, "url", "source", "depth") {
		fields := strings.Split(row, "\t")
		isSeed := slices.Contains(web.Seeds(), fields[0])
		if isSeed != (fields[1] == "seed") || isSeed != (fields[2] == "0") {
			t.Errorf("%q: seed %v", row, isSeed)
		}
	}
	must(t, dir, "check", "-links")
	crawled := t.TempDir()
	writeSeeds(t, crawled, web.Seeds())
	must(t, crawled, "-quiet", "-delay", "0", "-allow-private", "-scope", "host", "-input", "seed.txt")
	same := []string{"url", "state", "reason", "status", "bytes", "type", "charset", "sha256", "title"}
	if diff := cmp.Diff(pick(ledger(t, crawled, "stored"), same...), pick(rows, same...)); diff != "" {
		t.Error(diff)
	}
}

// archived writes a record of an archive.
func archived(kind, fields, block string) string {
	return fmt.Sprintf("WARC/1.1\r\nWARC-Type: %s\r\nWARC-Date: 2021-02-03T04:05:06.789Z\r\n%s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n",
		kind, strings.ReplaceAll(fields, "\n", "\r\n"), len(block), block)
}

// answered writes the record of an answer.
func answered(url, head, body string) string {
	return archived("response", "Content-Type: application/http;msgtype=response\nWARC-Record-ID: <"+url+">\nWARC-Target-URI: "+url+
		"\nWARC-Payload-Digest: "+warc.Digest([]byte(body)), "HTTP/1.1 "+strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"+body)
}

// revisited writes the record of an answer whose body is that of another one.
func revisited(url, fields, body string) string {
	return archived("revisit", "Content-Type: application/http;msgtype=response\nWARC-Target-URI: "+url+
		"\nWARC-Profile: http://netpreserve.org/warc/1.0/revisit/identical-payload-digest\nWARC-Payload-Digest: "+warc.Digest([]byte(body))+fields,
		"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Of: revisit\r\n\r\n")
}

const html = "200 OK\nContent-Type: text/html"

func writeArchive(t *testing.T, dir, name string, records ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(records, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestImportOutcomes: what becomes of each kind of capture, in either store.
func TestImportOutcomes(t *testing.T) {
	for _, store := range iut.Stores {
		t.Run(store, func(t *testing.T) {
			dir := t.TempDir()
			writeArchive(t, dir, "a.warc",
				archived("warcinfo", "WARC-Record-ID: <i>", "x: y\r\n"),
				answered("http://a.example/", html, "<a href=/found>a</a> <a href=/busy>b</a> <a href=/new>c</a>"),
				answered("http://a.example/robots.txt", "200 OK\nContent-Type: text/plain", "User-agent: *\nDisallow: /"),
				answered("http://a.example/found", html, "first"),
				answered("http://a.example/found", html, "second"),
				answered("http://a.example/gone", "404 Not Found", ""),
				answered("http://a.example/busy", "503 Busy", ""),
				answered("http://a.example/late", "500 No", ""),
				answered("http://a.example/late", html, "late"),
				answered("http://a.example/better", "500 No", ""),
				archived("metadata", "WARC-Target-URI: http://a.example/better", "via: http://a.example/other\r\ndepth: 3\r\n"),
				answered("http://a.example/better", html, "better"),
				archived("metadata", "WARC-Target-URI: http://a.example/better", "via: http://a.example/other\r\ndepth: 3\r\n"),
				answered("http://a.example/moved", "301 Moved\nLocation: /target", ""),
				answered("http://a.example/part", "206 Part\nContent-Type: text/html\nContent-Range: bytes 0-1/9", "ab"),
				answered("http://a.example/same", "304 Not Modified", ""),
				answered("http://a.example/image", "200 OK\nContent-Type: image/png", "png"),
				answered("http://a.example/hidden", html, "<meta name=robots content=noindex>"),
				answered("dns:a.example", html, "x"),
				answered("http://a.example/posted", html, "x"),
				archived("request", "WARC-Concurrent-To: <http://a.example/posted>\nWARC-Target-URI: http://a.example/posted", "POST /posted HTTP/1.1\r\n\r\n"),
				answered("http://a.example/deep", html, "deep"),
				archived("metadata", "WARC-Concurrent-To: <http://a.example/deep>\nWARC-Target-URI: http://a.example/deep", "via: http://a.example/other\r\nhopsFromSeed: LLLE\r\n"),
			)
			_, stderr, code := call(t, dir, "import", "-store", store, "a.warc")
			if code != 0 || !strings.Contains(stderr, "\narchives  9 captures imported, 1 of URLs that were there already, 3 left to a crawl (429, 5xx), 5 of other kinds\n") {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			got := pick(ledgerOf(t, dir, "iut"), "url", "state", "reason", "source", "depth", "time", "target")
			const at = "2021-02-03T04:05:06Z"
			want := []string{
				"http://a.example/\tstored\t-\tseed\t0\t" + at + "\t-",
				"http://a.example/better\tstored\t-\thttp://a.example/other\t3\t" + at + "\t-",
				"http://a.example/busy\tpending\t-\tseed\t0\t-\t-",
				"http://a.example/deep\tstored\t-\thttp://a.example/other\t4\t" + at + "\t-",
				"http://a.example/found\tstored\t-\tseed\t0\t" + at + "\t-",
				"http://a.example/gone\tfailed\thttp-4xx\tseed\t0\t" + at + "\t-",
				"http://a.example/hidden\trefused\tnoindex\tseed\t0\t" + at + "\t-",
				"http://a.example/image\trefused\ttype\tseed\t0\t" + at + "\t-",
				"http://a.example/late\tstored\t-\tseed\t0\t" + at + "\t-",
				"http://a.example/moved\tredirected\t-\tseed\t0\t" + at + "\thttp://a.example/target",
				"http://a.example/new\tpending\t-\thttp://a.example/\t1\t-\t-",
				"http://a.example/target\tpending\t-\tseed\t0\t-\t-",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if body := must(t, dir, "cat", "http://a.example/found"); body != "first" {
				t.Errorf("%q", body)
			}
			must(t, dir, "check", "-links")
		})
	}
}

// TestImportHeaders: what headers said that a tree of folders does not keep comes back from its
// export, by the metadata of a page.
func TestImportHeaders(t *testing.T) {
	dir, into := t.TempDir(), t.TempDir()
	writeArchive(t, dir, "a.warc",
		answered("http://a.example/", html+"; charset=iso-8859-1\nLink: </next>; rel=next, </style.css>; rel=stylesheet\nLink: </feed>; rel=alternate; type=\"application/rss+xml\"", "<title>\xe4</title><a href=/found>"),
		answered("http://a.example/end", html+"\nX-Robots-Tag: nofollow\nLink: </hidden>; rel=next", "<a href=/hidden>"),
		answered("http://a.example/created", "201 Created\nContent-Type: text/plain", "a text"),
	)
	must(t, dir, "import", "-quiet", "-assets", "-accept", "text/*", "a.warc")
	must(t, dir, "export", "-what", "warc", "-output", filepath.Join(into, "b.warc.gz"))
	must(t, into, "import", "-quiet", "-assets", "-accept", "text/*", "b.warc.gz")
	rows := ledgerOf(t, into, "iut")
	if diff := cmp.Diff(ledgerOf(t, dir, "iut"), rows); diff != "" {
		t.Error(diff)
	}
	want := []string{"created\tstored", "end\tstored", "feed\tpending", "found\tpending", "next\tpending", "style.css\tpending"}
	if got := pick(rows, "url", "state")[1:]; !slices.Equal(got, prefixed("http://a.example/", want)) {
		t.Errorf("%q", got)
	}
}

func prefixed(prefix string, texts []string) (list []string) {
	for _, text := range texts {
		list = append(list, prefix+text)
	}
	return list
}

// TestImportRevisits: the body of a revisit is found behind it or before it, in another file, or in
// the tree; the header is that of the revisit. One whose body is nowhere is named.
func TestImportRevisits(t *testing.T) {
	for _, store := range iut.Stores {
		for _, pack := range []bool{false, true} {
			t.Run(fmt.Sprint(store, pack), func(t *testing.T) {
				dir := t.TempDir()
				const body = "<title>the body</title><a href=/linked>a</a>"
				one := []string{
					revisited("http://a.example/before", "\nWARC-Refers-To: <none>", body),
					revisited("http://a.example/lost", "", "another body"),
					archived("revisit", "Content-Type: application/http\nWARC-Target-URI: http://a.example/unchanged\nWARC-Profile: http://netpreserve.org/warc/1.1/revisit/server-not-modified", "HTTP/1.1 304 Not Modified\r\n\r\n"),
				}
				two := []string{answered("http://a.example/original", html, body), revisited("http://a.example/behind", "", body)}
				later := []string{
					revisited("http://a.example/later", "\nWARC-Refers-To-Target-URI: http://a.example/original", body),
					revisited("http://a.example/wrong", "\nWARC-Refers-To-Target-URI: http://a.example/original", "not that body"),
				}
				writeArchive(t, dir, "1.warc", packedAs(t, pack, one)...)
				writeArchive(t, dir, "2.warc", packedAs(t, pack, two)...)
				writeArchive(t, dir, "3.warc", packedAs(t, pack, later)...)
				_, stderr, code := call(t, dir, "import", "-store", store, "1.warc", "2.warc")
				if code != 0 || !strings.Contains(stderr, "archives  3 captures imported, 2 without the body that they name\n") ||
					strings.Count(stderr, "url=http://a.example/lost ")+strings.Count(stderr, "url=http://a.example/unchanged ") != 2 {
					t.Fatalf("exit %d: %s", code, stderr)
				}
				if _, stderr, code = call(t, dir, "import", "3.warc"); code != 0 || !strings.Contains(stderr, "archives  1 capture imported, 1 without") {
					t.Fatalf("exit %d: %s", code, stderr)
				}
				for _, path := range []string{"before", "behind", "later", "original"} {
					if got := must(t, dir, "cat", "http://a.example/"+path); got != body {
						t.Errorf("%s: %q", path, got)
					}
				}
				if got := pick(ledger(t, dir, "stored"), "title"); !slices.Equal(got, slices.Repeat([]string{"the body"}, 4)) {
					t.Errorf("%q", got)
				}
				if store == iut.StoreWARC {
					must(t, dir, "export", "-what", "warc", "-format", "plain", "-output", "all.warc", "http://a.example/later")
					if text, err := os.ReadFile(filepath.Join(dir, "all.warc")); err != nil || !strings.Contains(string(text), "X-Of: revisit") {
						t.Errorf("%v: %s", err, text)
					}
				}
				must(t, dir, "check", "-links")
			})
		}
	}
}

// packedAs returns records as they are, or all of them in one member of gzip.
func packedAs(t *testing.T, pack bool, records []string) []string {
	t.Helper()
	if !pack {
		return records
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, strings.Join(records, ""))
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return []string{b.String()}
}

// TestImportDamaged: a file that is cut off is imported up to there, and so are the others; the
// message names file and place, and the status is 1. What is no archive is refused before anything
// is made.
func TestImportDamaged(t *testing.T) {
	dir := t.TempDir()
	first := answered("http://a.example/1", html, "one")
	second := answered("http://a.example/2", html, "two")
	writeArchive(t, dir, "cut.warc", first, second[:len(second)-len("wo\r\n\r\n")]) // in its body
	writeArchive(t, dir, "whole.warc", answered("http://a.example/3", html, "three"))
	writeArchive(t, dir, "not.txt", "http://a.example/\n")
	writeArchive(t, dir, "empty.warc")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"whole.warc", "not.txt"}, `crawler: not.txt: not a WARC file: it begins with "http://a.e", and WARC/1.0 or WARC/1.1 is read` + "\n"},
		{[]string{"empty.warc"}, `crawler: empty.warc: not a WARC file: it begins with "", and WARC/1.0 or WARC/1.1 is read` + "\n"},
		{[]string{"none.warc"}, "crawler: open none.warc: no such file or directory\n"},
		{[]string{"."}, "crawler: .: not a WARC file but a folder or a pipe\n"},
		{[]string{"-"}, "crawler: import -: archives are read twice, which standard input cannot be; name a file\n"},
	} {
		_, stderr, code := call(t, dir, append([]string{"import"}, tt.args...)...)
		if code != exitUsage || stderr != tt.want {
			t.Errorf("%q: exit %d, %q, want %q", tt.args, code, stderr, tt.want)
		}
		if list, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(list) != 4 {
			t.Errorf("%q has made something: %q, %v", tt.args, list, err)
		}
	}
	_, stderr, code := call(t, dir, "import", "-quiet", "cut.warc", "whole.warc")
	want := fmt.Sprintf("crawler: imported up to where a file is damaged: cut.warc: torn record: at %d: unexpected EOF\n", len(first))
	if code != exitOther || stderr != want {
		t.Errorf("exit %d, %q, want %q", code, stderr, want)
	}
	if got := pick(ledgerOf(t, dir, "iut"), "url", "state"); !slices.Equal(got, []string{"http://a.example/1\tstored", "http://a.example/3\tstored"}) {
		t.Errorf("%q", got)
	}
	must(t, dir, "check", "-links")
	// The same command with the whole file adds what is missing.
	writeArchive(t, dir, "cut.warc", first, second)
	must(t, dir, "import", "-quiet", "cut.warc", "whole.warc")
	if got := pick(ledgerOf(t, dir, "iut"), "url", "state"); len(got) != 3 {
		t.Errorf("%q", got)
	}
}

// TestImportScope: what does not belong to the crawl by its flags is left out, and counted. Flags
// of the crawl that have no effect are not there.
func TestImportScope(t *testing.T) {
	dir := t.TempDir()
	of := func(url, via string) []string {
		return []string{
			answered(url, html, "page"), archived("metadata", "WARC-Concurrent-To: <"+url+">\nWARC-Target-URI: "+url, "via: "+via+"\r\n"),
		}
	}
	writeArchive(t, dir, "a.warc", slices.Concat(
		[]string{answered("http://a.example/", html, "seed")}, of("http://a.example/in", "http://a.example/"), of("http://b.example/out", "http://a.example/"),
		of("http://a.example/left", "http://a.example/"),
	)...)
	_, stderr, code := call(t, dir, "import", "-scope", "host", "-exclude", "/left", "a.warc")
	if code != 0 || !strings.Contains(stderr, "archives  2 captures imported, 2 outside of the crawl\n") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if got := pick(ledgerOf(t, dir, "iut"), "url", "source", "depth"); !slices.Equal(got, []string{"http://a.example/\tseed\t0", "http://a.example/in\thttp://a.example/\t1"}) {
		t.Errorf("%q", got)
	}
	if text := must(t, dir, "options"); !regexp.MustCompile(`(?m)^-scope +host +kept$`).MatchString(text) {
		t.Error(text)
	}
	for _, flag := range []string{"-delay", "-input", "-crawlers"} {
		if _, stderr, code := call(t, dir, "import", flag, "1", "a.warc"); code != exitUsage || !strings.Contains(stderr, "no flag "+flag) {
			t.Errorf("%s: exit %d: %s", flag, code, stderr)
		}
	}
}

// TestImportStopped: a signal, or a limit of pages, ends an import in order; the command that the
// summary shows goes on. An archive is no result file.
func TestImportStopped(t *testing.T) {
	dir, _ := importSite(t, iut.StoreWARC)
	file := archivesOf(t, dir, iut.StoreWARC)["export"][0]
	into := t.TempDir()
	_, stderr, code := call(t, into, "import", "-max-pages", "40", file)
	if code != 0 || !strings.Contains(stderr, "crawler: page limit reached\n") || !regexp.MustCompile(`(?m)^to go on  .* import -max-pages 40 .*pages\.warc\.gz$`).MatchString(stderr) {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if n := len(ledger(t, into, "stored")); n != 40 {
		t.Errorf("%d pages, want 40", n)
	}
	cmd := child(into, "import", "-verbose", file)
	lines, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	in, told := bufio.NewScanner(lines), ""
	for in.Scan() {
		if told += in.Text() + "\n"; strings.Count(told, "\nhttp") == 5 {
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(told, "\ncrawler: stopped\n") && !strings.Contains(told, "\ncrawler: all archives read\n") {
		t.Fatalf("%v: %s", err, told)
	}
	must(t, into, "check")
	stdout, stderr, code := call(t, into, "import", file)
	if code != 0 || !regexp.MustCompile(`(?m)^to go on  \S+ -tree iut$`).MatchString(stderr) {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	requireImported(t, ledger(t, dir, "stored"), ledger(t, into, "stored"))
	_, stderr, code = call(t, into, "import", "-output", file, file)
	if code != exitUsage || !strings.Contains(stderr, "the archive "+file+" would be replaced by the result file") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// TestImportSeedRedirect: the target of a seed's redirect widens the scope as in a crawl, also if
// only its page is in the archive, or Heritrix says that it was redirected to.
func TestImportSeedRedirect(t *testing.T) {
	about := func(url, fields string) string { return archived("metadata", "WARC-Target-URI: "+url, fields) }
	for name, records := range map[string][]string{
		"export": {
			answered("http://b.example/", html, "<a href=/new>a</a>"), about("http://b.example/", "via: seed\r\nredirected-from: http://a.example/\r\ndepth: 0\r\n"),
			answered("http://b.example/in", html, "in"), about("http://b.example/in", "via: http://b.example/\r\ndepth: 1\r\n"),
		},
		"Heritrix": {
			answered("http://a.example/", "301 Moved\nLocation: http://b.example/", ""), about("http://a.example/", "seed: \r\n"),
			answered("http://b.example/", html, "<a href=/new>a</a>"), about("http://b.example/", "via: http://a.example/\r\nhopsFromSeed: R\r\n"),
			answered("http://b.example/in", html, "in"), about("http://b.example/in", "via: http://b.example/\r\nhopsFromSeed: RL\r\n"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeArchive(t, dir, "a.warc", records...)
			must(t, dir, "import", "-quiet", "-scope", "host", "a.warc")
			want := []string{
				"http://b.example/\tstored\tseed\thttp://a.example/\t0",
				"http://b.example/in\tstored\thttp://b.example/\t-\t1",
				"http://b.example/new\tpending\thttp://b.example/\t-\t1",
			}
			if name == "Heritrix" {
				want = append([]string{"http://a.example/\tredirected\tseed\t-\t0"}, want...)
			}
			if got := pick(ledgerOf(t, dir, "iut"), "url", "state", "source", "via", "depth"); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			must(t, dir, "check", "-links")
		})
	}
}
