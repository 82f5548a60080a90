package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/text/encoding/unicode"
)

// patience is how long a test waits for what must happen, on a busy machine.
const patience = 3 * time.Minute

// noPause, in GORACE, keeps the race detector from waiting a second at the end of each process.
const noPause = "atexit_sleep_ms=0"

// TestScripts runs testdata/*.txt. Each script has a web server of its own, at $SITE, which serves
// the script's files below site/ and
//
//	/endless/N   a page that leads to /endless/N+1
//	/hang        to the first request, no answer until the client goes away
//	/moved       a redirect to /
//	/old         a redirect to /gone, which is not there
//	/loop        a redirect to itself
//	/login/NAME  status 401, for a login by the scheme NAME
//	/in/LABEL/   the files of that folder, with LABEL as their charset
//	/members/    the files below site/members/ for the user me with the password hunter2, else 401
//
// and these commands besides the usual ones:
//
//	exits CODE ARG...       runs crawler and checks its exit code
//	usage REGEXP ARG...     runs crawler: exit 2, and one line on standard error that matches
//	start NAME ARG...       runs crawler in the background; a first ARG nohup ignores HUP
//	type NAME TEXT          writes a line to its standard input
//	said NAME REGEXP        waits until what it has printed matches; with ! it must not match now
//	signal NAME SIGNAL      sends INT, TERM or HUP
//	ended NAME CODE         waits for its end and checks its exit code
//	browse NAME PATH CODE   asks the server whose address NAME has printed, and checks the status;
//	                        the body is the file page, and its Content-Type the file type
//	asked PATH              waits until the server has been asked for a path
//	objects FILE            checks that each line is a JSON object
//	lines N FILE            checks the number of lines of a file
//	utf16 FILE              makes it UTF-16 with a byte order mark
//	holds FILE TEXT         checks that it is in a file or a folder's files, with ! that it is not
//	fill FILE               puts the server's address for $SITE, its port for $PORT, BOM for \BOM
//	                        and CR for \r
//
// The command is built as users build it: with the race detector, which other tests run it under,
// all scripts together would take minutes.
func TestScripts(t *testing.T) {
	t.Parallel()
	command := builtCommand()
	bin := filepath.Dir(command)
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			s := newSite(filepath.Join(env.WorkDir, "site"))
			server := httptest.NewServer(s)
			env.Defer(server.Close)
			env.Defer(s.end)
			env.Values[siteKey{}] = s
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("SITE", server.URL)
			env.Setenv("HOST", strings.TrimPrefix(server.URL, "http://"))
			env.Setenv("PORT", server.URL[strings.LastIndexByte(server.URL, ':')+1:])
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				checkExit(ts, ts.Exec("crawler", args[1:]...), args[0])
			},
			"usage": func(ts *testscript.TestScript, _ bool, args []string) {
				checkExit(ts, ts.Exec("crawler", args[1:]...), "2")
				text := ts.ReadFile("stderr")
				if !strings.HasPrefix(text, "crawler: ") || strings.Count(text, "\n") != 1 {
					ts.Fatalf("not one line of ours: %q", text)
				}
				if !regexp.MustCompile(args[0]).MatchString(text) {
					ts.Fatalf("%q does not match %s", text, args[0])
				}
			},
			"start": func(ts *testscript.TestScript, _ bool, args []string) {
				cmd := exec.Command(command, args[1:]...)
				if args[1] == "nohup" {
					cmd = exec.Command("nohup", append([]string{command}, args[2:]...)...)
				}
				cmd.Dir = ts.MkAbs(".")
				p, err := start(cmd)
				ts.Check(err)
				siteOf(ts).children[args[0]] = p
			},
			"type": func(ts *testscript.TestScript, _ bool, args []string) {
				_, err := io.WriteString(siteOf(ts).children[args[0]].stdin, args[1]+"\n")
				ts.Check(err)
			},
			"said": func(ts *testscript.TestScript, neg bool, args []string) {
				p, re := siteOf(ts).children[args[0]], regexp.MustCompile("(?m)"+args[1])
				if neg && p.printed.matches(re) {
					ts.Fatalf("%s said %q", args[0], p.printed.text)
				}
				if !neg && !p.printed.wait(re) {
					ts.Fatalf("%s never said %s, but %q", args[0], re, p.printed.text)
				}
			},
			"signal": func(ts *testscript.TestScript, _ bool, args []string) {
				sent := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}[args[1]]
				ts.Check(siteOf(ts).children[args[0]].cmd.Process.Signal(sent))
			},
			"ended": func(ts *testscript.TestScript, _ bool, args []string) {
				p := siteOf(ts).children[args[0]]
				select {
				case <-p.done:
					checkExit(ts, p.err, args[1])
				case <-time.After(patience):
					ts.Fatalf("%s does not end", args[0])
				}
			},
			"browse": func(ts *testscript.TestScript, _ bool, args []string) {
				p, re := siteOf(ts).children[args[0]], regexp.MustCompile(`http://[0-9.:]+/`)
				if !p.printed.wait(re) {
					ts.Fatalf("%s never said where it is, but %q", args[0], p.printed.text)
				}
				r, err := http.Get(strings.TrimSuffix(p.printed.find(re), "/") + args[1])
				ts.Check(err)
				defer r.Body.Close()
				body, err := io.ReadAll(r.Body)
				ts.Check(err)
				ts.Check(os.WriteFile(ts.MkAbs("page"), body, 0o666))
				ts.Check(os.WriteFile(ts.MkAbs("type"), []byte(r.Header.Get("Content-Type")+"\n"), 0o666))
				if strconv.Itoa(r.StatusCode) != args[2] {
					ts.Fatalf("%s: status %d, want %s: %s", args[1], r.StatusCode, args[2], body)
				}
			},
			"asked": func(ts *testscript.TestScript, _ bool, args []string) {
				select {
				case <-siteOf(ts).asked(args[0]):
				case <-time.After(patience):
					ts.Fatalf("never asked for %s", args[0])
				}
			},
			"fill": func(ts *testscript.TestScript, _ bool, args []string) {
				text := strings.NewReplacer("$SITE", ts.Getenv("SITE"), "$HOST", ts.Getenv("HOST"), "$PORT", ts.Getenv("PORT"), `\BOM`, "\ufeff", `\r`, "\r").Replace(ts.ReadFile(args[0]))
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o666))
			},
			"utf16": func(ts *testscript.TestScript, _ bool, args []string) {
				text, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(ts.ReadFile(args[0]))
				ts.Check(err)
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o666))
			},
			"holds": func(ts *testscript.TestScript, neg bool, args []string) {
				found := ""
				ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(path string, d fs.DirEntry, err error) error {
					if err != nil || !d.Type().IsRegular() {
						return err
					}
					text, err := os.ReadFile(path)
					if bytes.Contains(text, []byte(args[1])) {
						found = path
					}
					return err
				}))
				if neg != (found == "") {
					ts.Fatalf("%q: found in %q", args[1], found)
				}
			},
			"objects": func(ts *testscript.TestScript, _ bool, args []string) {
				for line := range strings.Lines(ts.ReadFile(args[0])) {
					if err := json.Unmarshal([]byte(line), &map[string]any{}); err != nil {
						ts.Fatalf("%q: %v", line, err)
					}
				}
			},
			"lines": func(ts *testscript.TestScript, _ bool, args []string) {
				if n := strings.Count(ts.ReadFile(args[1]), "\n"); strconv.Itoa(n) != args[0] {
					ts.Fatalf("%s has %d lines, want %s", args[1], n, args[0])
				}
			},
		},
	})
}

func checkExit(ts *testscript.TestScript, err error, want string) {
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != want {
		ts.Fatalf("exit code %d, want %s", code, want)
	}
}

// A site is the web of one script, and the processes that the script has started.
type site struct {
	files http.Handler
	over  chan struct{} // closed at the end of the script

	children map[string]*process // used by the script alone

	mu   sync.Mutex
	seen map[string]chan struct{} // guarded by mu; closed when the path has been asked for
}

// A process is a crawler in the background.
type process struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	printed *transcript
	done    chan struct{} // closed when it has ended
	err     error         // valid then
}

func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, printed: &transcript{more: make(chan struct{})}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.printed, p.printed
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// A transcript is what a process has printed.
type transcript struct {
	mu   sync.Mutex
	text []byte        // guarded by mu
	more chan struct{} // guarded by mu; closed when there is more
}

func (t *transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	close(t.more)
	t.more = make(chan struct{})
	return len(b), nil
}

func (t *transcript) matches(re *regexp.Regexp) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return re.Match(t.text)
}

// find returns what matches.
func (t *transcript) find(re *regexp.Regexp) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(re.Find(t.text))
}

// wait waits until the text matches.
func (t *transcript) wait(re *regexp.Regexp) bool {
	late := time.After(patience)
	for {
		t.mu.Lock()
		more, ok := t.more, re.Match(t.text)
		t.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-more:
		case <-late:
			return false
		}
	}
}

type siteKey struct{}

func siteOf(ts *testscript.TestScript) *site { return ts.Value(siteKey{}).(*site) }

func newSite(dir string) *site {
	return &site{
		files: http.FileServer(http.Dir(dir)), over: make(chan struct{}),
		children: map[string]*process{}, seen: map[string]chan struct{}{},
	}
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	first := s.mark(r.URL.Path)
	switch {
	case r.URL.Path == "/hang" && first:
		select {
		case <-r.Context().Done():
		case <-s.over:
		}
	case r.URL.Path == "/moved":
		http.Redirect(w, r, "/", http.StatusMovedPermanently)
	case strings.HasPrefix(r.URL.Path, "/members/"):
		if user, password, _ := r.BasicAuth(); user != "me" || password != "hunter2" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.files.ServeHTTP(w, r)
	case r.URL.Path == "/old":
		http.Redirect(w, r, "/gone", http.StatusFound)
	case r.URL.Path == "/loop":
		http.Redirect(w, r, "/loop", http.StatusFound)
	case strings.HasPrefix(r.URL.Path, "/login/"):
		w.Header().Set("WWW-Authenticate", strings.TrimPrefix(r.URL.Path, "/login/")+` realm="a, b"`)
		w.WriteHeader(http.StatusUnauthorized)
	case strings.HasPrefix(r.URL.Path, "/in/"):
		media, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(r.URL.Path)), ";")
		w.Header().Set("Content-Type", media+"; charset="+strings.Split(r.URL.Path, "/")[2])
		s.files.ServeHTTP(w, r)
	case strings.HasPrefix(r.URL.Path, "/endless/"):
		n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/endless/"))
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<title>%d</title><a href=%d>on</a>\n", n, n+1)
	default:
		s.files.ServeHTTP(w, r)
	}
}

// asked returns a channel that is closed once the path has been asked for.
func (s *site) asked(path string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[path] == nil {
		s.seen[path] = make(chan struct{})
	}
	return s.seen[path]
}

// mark notes a request and tells whether it is the first for its path.
func (s *site) mark(path string) bool {
	c := s.asked(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-c:
		return false
	default:
		close(c)
		return true
	}
}

// end kills what a script that failed has left running.
func (s *site) end() {
	close(s.over)
	for _, p := range s.children {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}
