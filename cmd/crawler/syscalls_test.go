package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"urltree/internal/testseed"
	"urltree/internal/testweb"
)

// A change is one system call that changed the folder of a tree, or made changes durable.
type change struct {
	op   string // create, truncate, write, mkdir, rename, remove, sync; sync of "" is of all
	path string // below the root
	to   string // of rename
	at   int64  // of write; for truncate the new length
	data []byte
}

func (c change) String() string { return fmt.Sprintf("%s %s", c.op, c.path) }

// record runs the command under strace and gives, in order, what it changed below the folder root.
func recordCalls(t *testing.T, dir, root string, args ...string) []change {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("there is no strace")
	}
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := child(dir, args...)
	cmd.Args = append([]string{
		strace, "-f", "-y", "-qq", "-xx", "-s", "1000000", "-o", trace,
		"-e", "trace=openat,openat2,mkdirat,pwrite64,write,ftruncate,fsync,fdatasync,syncfs,renameat,renameat2,unlinkat", "--", cmd.Path,
	}, args...)
	cmd.Path = strace
	out, err := cmd.CombinedOutput()
	text, terr := os.ReadFile(trace)
	if terr != nil || len(text) == 0 {
		t.Skipf("strace may not trace here: %v: %.200s", err, out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return parseTrace(t, string(text), root)
}

var (
	callLine = regexp.MustCompile(`^(\w+)\((.*)\)\s+= (\d+)(?:<((?:\\x..)*)>)?$`)
	callText = regexp.MustCompile(`(?:<((?:\\x..)*)>|"((?:\\x..)*)")`)
)

// parseTrace reads what strace wrote. Calls that failed are left out.
func parseTrace(t *testing.T, text, root string) (list []change) {
	t.Helper()
	started := map[string]string{} // first halves of calls, by thread
	offsets := map[string]int64{}  // by descriptor
	sizes := map[string]int64{}
	appends := map[string]bool{}
	for line := range strings.Lines(text) {
		pid, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		call = strings.TrimSpace(call)
		if first, ok := strings.CutSuffix(call, "<unfinished ...>"); ok {
			started[pid] = strings.TrimSpace(first)
			continue
		}
		if _, rest, ok := strings.Cut(call, " resumed>"); ok && strings.HasPrefix(call, "<... ") {
			call = started[pid] + rest
		}
		m := callLine.FindStringSubmatch(call)
		if m == nil {
			continue
		}
		op, args, result := m[1], m[2], m[3]
		var texts []string
		for _, s := range callText.FindAllStringSubmatch(args, -1) {
			texts = append(texts, plain(t, s[1]+s[2]))
		}
		fd, _, _ := strings.Cut(args, "<")
		below := func(path string) (string, bool) {
			rel, err := filepath.Rel(root, path)
			return rel, err == nil && !strings.HasPrefix(rel, "..")
		}
		c := change{}
		switch op {
		case "openat", "openat2":
			rel, ok := below(plain(t, m[4]))
			offsets[result], appends[result] = 0, strings.Contains(args, "O_APPEND")
			if !ok || !strings.Contains(args, "O_CREAT") && !strings.Contains(args, "O_TRUNC") {
				continue
			}
			if strings.Contains(args, "O_CREAT") {
				list = append(list, change{op: "create", path: rel})
			}
			if !strings.Contains(args, "O_TRUNC") {
				continue
			}
			sizes[rel] = 0
			c = change{op: "truncate", path: rel}
		case "write", "pwrite64":
			rel, ok := below(texts[0])
			if !ok {
				continue
			}
			n, err := strconv.Atoi(result)
			if err != nil {
				t.Fatal(err)
			}
			c = change{op: "write", path: rel, data: []byte(texts[1])[:n]}
			switch {
			case op == "pwrite64":
				_, last, _ := cutLast(args, ", ")
				if c.at, err = strconv.ParseInt(last, 10, 64); err != nil {
					t.Fatal(err)
				}
			case appends[fd]:
				c.at = sizes[rel]
			default:
				c.at = offsets[fd]
				offsets[fd] += int64(n)
			}
			sizes[rel] = max(sizes[rel], c.at+int64(n))
		case "ftruncate":
			rel, ok := below(texts[0])
			if !ok {
				continue
			}
			_, last, _ := cutLast(args, ", ")
			n, err := strconv.ParseInt(last, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			c, sizes[rel] = change{op: "truncate", path: rel, at: n}, n
		case "fsync", "fdatasync", "syncfs":
			rel, ok := below(texts[0])
			if op == "syncfs" {
				rel = ""
			} else if !ok {
				continue
			}
			c = change{op: "sync", path: rel}
		case "mkdirat", "unlinkat", "renameat", "renameat2":
			rel, ok := below(join(texts[0], texts[1]))
			if !ok {
				continue
			}
			c = change{op: map[string]string{"mkdirat": "mkdir", "unlinkat": "remove"}[op], path: rel}
			if c.op == "" {
				to, _ := below(join(texts[2], texts[3]))
				c.op, c.to = "rename", to
				sizes[to] = sizes[rel]
			}
			delete(sizes, rel)
		default:
			continue
		}
		list = append(list, c)
	}
	return list
}

func join(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func plain(t *testing.T, text string) string {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, `\x`, ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// apply makes a change below another root.
func (c change) apply(root string) error {
	path := filepath.Join(root, c.path)
	switch c.op {
	case "mkdir":
		return os.Mkdir(path, 0o777)
	case "remove":
		return os.Remove(path)
	case "rename":
		return os.Rename(path, filepath.Join(root, c.to))
	case "truncate":
		return os.Truncate(path, c.at)
	case "create", "write":
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			return err
		}
		if _, err = f.WriteAt(c.data, c.at); err != nil {
			return err
		}
		return f.Close()
	}
	return nil
}

// lose returns changes as a power cut after them leaves them: of the sectors of the index that were
// not synced any were written; of pages that were not, any names are there, empty, in part, as
// zeros or whole; a segment ends where it was synced, or somewhere behind, or has any sectors of
// what came since, or zeros, and may be gone if its folder was not synced. The rest is taken as
// written.
func lose(list []change, rnd *rand.Rand) []change {
	synced := make([]bool, len(list))
	covered := map[string]bool{}
	all := false
	for i, c := range slices.Backward(list) {
		file := c.path
		if isSegment(file) && c.op == "create" {
			file = filepath.Dir(file)
		}
		synced[i] = all || covered[file]
		if c.op == "sync" {
			all = all || c.path == ""
			covered[c.path] = true
		}
	}
	var left []change
	fate := map[string]int{} // of files with pages
	gone := map[string]bool{}
	for i, c := range list {
		segment := isSegment(c.path)
		page := segment || strings.HasPrefix(c.path, "pr-")
		if page && !synced[i] && fate[c.path] == 0 {
			fate[c.path] = gotNothing + rnd.IntN(gotAll)
			gone[c.path] = segment && c.op == "create" && fate[c.path] == gotNothing
		}
		switch {
		case gone[c.path]:
			continue
		case synced[i] || c.op == "sync":
		case c.op == "write" && (strings.HasPrefix(c.path, "index.db") || segment && fate[c.path] == gotSectors):
			const sector = 512
			for at := 0; at < len(c.data); at += sector {
				if part := c.data[at:min(at+sector, len(c.data))]; rnd.IntN(2) == 0 {
					left = append(left, change{op: "write", path: c.path, at: c.at + int64(at), data: part})
				}
			}
			continue
		case page && (c.op == "create" || c.op == "write"):
			switch fate[c.path] {
			case gotNothing: // not even its name
				continue
			case gotName:
				c.data = nil
			case gotHalf:
				c.data = c.data[:len(c.data)/2]
				if segment && c.op == "write" {
					fate[c.path] = gotNothing // of what comes behind
				}
			case gotZeros:
				c.data = make([]byte, len(c.data))
			}
		case page && c.op != "mkdir":
			if fate[c.path] == gotNothing {
				continue
			}
		}
		left = append(left, c)
	}
	return left
}

// What a power cut has left of what was not synced of a file with pages.
const (
	gotNothing = 1 + iota
	gotName
	gotHalf
	gotZeros
	gotSectors // of a segment; of other files all
	gotAll
)

func isSegment(path string) bool { return strings.HasPrefix(path, "warc/") }

// TestEverySystemCall records the system calls of a crawl, and lets it die between any two of them,
// by kill and by power cut: check finds no fault in the tree of that moment, and the same command
// goes on to the known answer.
func TestEverySystemCall(t *testing.T) {
	seed := testseed.Draw(t)
	stores := [][]string{{"-store", "folders"}, {"-store", "warc", "-warc-size", "4k"}, {"-store", "warc", "-warc-size", "16k", "-warc-compression", "none"}}
	for i, store := range stores {
		if !testing.Short() || i == int(seed%uint64(len(stores))) {
			t.Run(strings.Join(store[1:], " "), func(t *testing.T) { everySystemCall(t, store, rand.New(rand.NewPCG(seed, uint64(i)))) })
		}
	}
}

// everySystemCall is TestEverySystemCall for one store.
func everySystemCall(t *testing.T, store []string, rnd *rand.Rand) {
	step, goOn, cuts := 1, 12, 1 // every so many calls it dies, and every so many of these the crawl goes on
	switch {
	case os.Getenv("TEST_URLTREE_FULL") != "":
		goOn, cuts = 1, 2
	case testing.Short():
		step = 16
	}
	web := testweb.New(testweb.Options{Kind: testweb.Linked, Hosts: 2, Pages: 12, Seed: 41, MinSize: 300, MaxSize: 2000, Redirects: .1, NoIndex: .1})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	defer web.Stop()
	dir := t.TempDir()
	writeSeeds(t, dir, web.Seeds())
	args := func(dir string) []string {
		return append([]string{
			"-quiet", "-delay", "0", "-allow-private", "-flush-interval", "20ms", "-crawlers", "2", "-buffers", "1",
			"-tree", filepath.Join(dir, "iut"), "-output", filepath.Join(dir, "res.txt"), "-input", filepath.Join(dir, "seed.txt"),
		}, store...)
	}
	list := recordCalls(t, dir, filepath.Join(dir, "iut"), args(dir)...)
	syncs := 0
	for _, c := range list {
		if c.op == "sync" {
			syncs++
		}
	}
	if syncs < 10 || len(list) < 100 {
		t.Fatalf("%d changes, %d syncs: the record lacks something", len(list), syncs)
	}
	t.Logf("%d changes, %d of them syncs", len(list), syncs)
	requireSame(t, urlsOf(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)

	checked, finished := 0, 0
	probe := func(what string, list []change, finish bool) {
		t.Helper()
		dir := t.TempDir()
		root := filepath.Join(dir, "iut")
		writeSeeds(t, dir, web.Seeds())
		for _, c := range list {
			// What was below a name that is lost is lost with it.
			if err := c.apply(root); err != nil && !os.IsNotExist(err) && !os.IsExist(err) {
				t.Fatalf("%s: %v: %v", what, c, err)
			}
		}
		if _, err := os.Stat(filepath.Join(root, "index.db")); err == nil {
			checked++
			requireExit(t, what, 0, "check", "-links", "-tree", root, "-output", filepath.Join(dir, "res.txt"))
		}
		if finish {
			finished++
			requireExit(t, what, 0, args(dir)...)
			requireExit(t, what, 0, "check", "-links", "-tree", root, "-output", filepath.Join(dir, "res.txt"))
			requireSame(t, urlsOf(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
		}
		if t.Failed() {
			t.Fatalf("%s of %d", what, len(list))
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	for k := rnd.IntN(step); k <= len(list); k += step {
		last := "nothing"
		if k > 0 {
			last = list[k-1].String()
		}
		probe(fmt.Sprintf("killed after call %d (%s)", k, last), list[:k], k/step%goOn == 0)
		for range cuts {
			probe(fmt.Sprintf("power cut after call %d (%s)", k, last), lose(list[:k], rnd), k/step%goOn == goOn/2)
		}
	}
	t.Logf("%d trees checked, %d crawled to the end", checked, finished)
}

// requireExit runs the command in this process.
func requireExit(t *testing.T, what string, want int, args ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(append([]string{"crawler"}, args...), strings.NewReader(""), &stdout, &stderr); code != want {
		t.Fatalf("%s: crawler %s: exit %d, want %d\n%s\n%s", what, strings.Join(args, " "), code, want, &stdout, &stderr)
	}
}
