package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestFlagsOfRequests: what the flags about requests say is what requests do. Each case is a page that is stored
// without the flag, or not, and with it the other way round.
func TestFlagsOfRequests(t *testing.T) {
	t.Parallel()
	untrusted := httptest.NewUnstartedServer(http.HandlerFunc(tell("text")))
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	by1 := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			http.NotFound(w, r)
			return
		}
		tell("text")(w, r)
	}))
	by1.EnableHTTP2 = true
	by1.StartTLS()
	t.Cleanup(by1.Close)
	six := &httptest.Server{Config: &http.Server{Handler: http.HandlerFunc(tell("text"))}}
	var err error
	if six.Listener, err = net.Listen("tcp", "[::1]:0"); err != nil {
		t.Log("no IPv6 here: ", err)
		six = nil
	} else {
		six.Start()
		t.Cleanup(six.Close)
	}
	four := httptest.NewServer(http.HandlerFunc(tell("text")))
	t.Cleanup(four.Close)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)
	for _, tt := range []struct {
		name string
		args []string
		url  string
		want string // of the line of -verbose
	}{
		{"certificate", nil, untrusted.URL, "failed tls"},
		{"certificate -insecure", []string{"-insecure"}, untrusted.URL, "stored"},
		{"HTTP/2", []string{"-insecure"}, by1.URL, "failed http-4xx"},
		{"HTTP/2 -http1", []string{"-insecure", "-http1"}, by1.URL, "stored"},
		{"IPv6", nil, urlOf(six), "stored"},
		{"IPv6 -4", []string{"-4"}, urlOf(six), "failed dns"},
		{"IPv4 -6", []string{"-6"}, four.URL, "failed dns"},
		{"silent -first-byte", []string{"-first-byte", "50ms", "-timeout", "1h"}, silent.URL, "failed timeout"},
		{"slow -min-rate", []string{"-min-rate", "1KiB", "-timeout", "1h"}, slow.URL, "failed timeout"},
	} {
		if tt.url == "" {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := child(t.TempDir(), append(tt.args, "-verbose", "-robots", "ignore", "-retries", "0", "-sync", "none", tt.url+"/")...)
			out, ended := endOf(t, cmd)
			if !ended || !strings.Contains(out, tt.url+"/ "+tt.want+" ") {
				t.Errorf("ended: %v, %s; want %s", ended, out, tt.want)
			}
		})
	}
}

func tell(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, text)
	}
}

func urlOf(s *httptest.Server) string {
	if s == nil {
		return ""
	}
	return s.URL
}

// endOf runs a command and gives what it printed. One that does not end is killed.
func endOf(t *testing.T, cmd *exec.Cmd) (out string, ended bool) {
	t.Helper()
	var b strings.Builder
	cmd.Stdout, cmd.Stderr = &b, &b
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	return b.String(), late.Stop()
}

// A 206 is a page if it covers the whole body, and a failure else.
func TestPartialContent(t *testing.T) {
	t.Parallel()
	site := &recorder{page: func(w http.ResponseWriter, r *http.Request) {
		const body = "<a href=/whole>w</a><a href=/part>p</a>"
		switch r.URL.Path {
		case "/whole":
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(body)-1, len(body)))
			w.WriteHeader(http.StatusPartialContent)
		case "/part":
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(body)-1, len(body)+1))
			w.WriteHeader(http.StatusPartialContent)
		}
		fmt.Fprint(w, body)
	}}
	server := httptest.NewServer(site)
	defer server.Close()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-delay", "1ms", server.URL+"/")
	got := urlsOf(t, filepath.Join(dir, "res.txt"))
	if want := []string{server.URL + "/", server.URL + "/whole"}; !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
}

// A chain of redirects that sets a cookie at any hop and comes back is followed there once more, and not
// again and again.
func TestCookieAtAnyHop(t *testing.T) {
	t.Parallel()
	chains := map[string]string{ // path: where it redirects to without its cookie
		"/first": "/first/1", "/first/1": "/first/2", "/first/2": "/first",
		"/middle": "/middle/set", "/middle/set": "/middle/2", "/middle/2": "/middle",
		"/none": "/none/1", "/none/1": "/none",
		"/always": "/always/1", "/always/1": "/always",
	}
	cookies := map[string]string{"/first": "first", "/middle/set": "middle", "/always": "always"}
	site := &recorder{page: func(w http.ResponseWriter, r *http.Request) {
		name := strings.Split(r.URL.Path, "/")[1]
		_, err := r.Cookie(name)
		switch {
		case r.URL.Path == "/":
			fmt.Fprint(w, "<a href=/first>f</a><a href=/middle>m</a><a href=/none>n</a><a href=/always>a</a>")
		case err == nil && name != "always" && r.URL.Path == "/"+name:
			fmt.Fprint(w, "a page")
		default:
			if name := cookies[r.URL.Path]; name != "" {
				http.SetCookie(w, &http.Cookie{Name: name, Value: "1", Path: "/"})
			}
			http.Redirect(w, r, chains[r.URL.Path], http.StatusFound)
		}
	}}
	server := httptest.NewServer(site)
	defer server.Close()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-delay", "1ms", server.URL+"/")
	got := urlsOf(t, filepath.Join(dir, "res.txt"))
	slices.Sort(got)
	if want := []string{server.URL + "/", server.URL + "/first", server.URL + "/middle"}; !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
	for path, most := range map[string]int{"/first": 2, "/middle": 2, "/none": 1, "/always": 3} {
		if n := len(site.requests(path)); n == 0 || n > most {
			t.Errorf("%d requests for %s, at most %d are right", n, path, most)
		}
	}
}
