package crawler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/fetch"
	"urltree/storage/record"
)

// A sky is some made-up sites in virtual time: each has a front page with links to its other pages.
type sky struct {
	mu    sync.Mutex
	began time.Time
	pages int // of a site, the front page included
	// fails returns the status or the error that a request comes to, or neither. It is called one
	// at a time.
	fails func(url string, since time.Duration) (status int, err error)
	stop  time.Duration           // after which the crawl is stopped; 0: never
	moved func(url string) string // where a URL redirects to, or ""; nil: none does
	log   []glimpse               // guarded by mu; all requests
}

type glimpse struct {
	url    string
	at     time.Duration
	status int // 0: no answer
}

func (s *sky) answer(_ context.Context, url string) (*http.Response, error) {
	time.Sleep(5 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	since := time.Since(s.began)
	status, err := s.fails(url, since)
	body, header := "", http.Header{"Content-Type": {"text/html"}}
	switch {
	case err != nil || status != 0:
	case s.moved != nil && s.moved(url) != "":
		status = http.StatusFound
		header.Set("Location", s.moved(url))
	case strings.Contains(url, "/robots.txt"), strings.HasSuffix(url, "/sitemap.xml"):
		status = http.StatusNotFound
	default:
		status = http.StatusOK
		for i := 1; i < s.pages && strings.Count(url, "/") == 3 && strings.HasSuffix(url, "/"); i++ {
			body += fmt.Sprintf("<a href=p%d>", i)
		}
	}
	s.log = append(s.log, glimpse{url, since, status})
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}, nil
}

// crawl crawls sites from their front pages, without a tree unless opts has one, and returns what
// became of each page.
func (s *sky) crawl(t *testing.T, opts Options, sites ...string) (outcomes map[string]string, res Result) {
	t.Helper()
	s.began, outcomes = time.Now(), map[string]string{}
	opts.NoTree, opts.network, opts.AllowPrivate, opts.NoSitemaps = opts.Tree == "", s.answer, true, true
	for _, site := range sites {
		opts.Seeds = append(opts.Seeds, "http://"+site+"/")
	}
	opts.OnOutcome = func(o Outcome) {
		s.mu.Lock()
		defer s.mu.Unlock()
		outcomes[o.URL] = strings.TrimSpace(o.State.String() + " " + o.Reason)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if s.stop > 0 {
		time.AfterFunc(s.stop, stop)
	}
	res, err := Run(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	return outcomes, res
}

// refused counts the requests with one of these statuses.
func (s *sky) refused(status ...int) (n int) {
	for _, g := range s.log {
		for _, st := range status {
			if g.status == st {
				n++
			}
		}
	}
	return n
}

// whole complains unless all pages of all sites are stored.
func (s *sky) whole(t *testing.T, outcomes map[string]string, res Result, sites int) {
	t.Helper()
	for url, outcome := range outcomes {
		if outcome != record.Stored.String() {
			t.Errorf("%s: %s", url, outcome)
		}
	}
	if len(outcomes) != sites*s.pages {
		t.Errorf("%d pages, want %d; ended by %q, waits for %q", len(outcomes), sites*s.pages, res.Ended, res.Waits)
	}
}

// TestRateLimit: a server that takes ten requests a minute and refuses the others, without a word
// of when to come again, loses no page, not even the seed.
func TestRateLimit(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		for _, per := range []int{1, 4} {
			synctest.Test(t, func(t *testing.T) {
				last := -time.Hour
				s := sky{pages: 60, fails: func(_ string, at time.Duration) (int, error) {
					if at-last < 6*time.Second {
						return status, nil
					}
					last = at
					return 0, nil
				}}
				outcomes, res := s.crawl(t, Options{Politeness: Politeness{PerHost: per}}, "a.test")
				s.whole(t, outcomes, res, 1)
				if n := s.refused(status); n > 15 {
					t.Errorf("%d of %d requests were refused, want at most 15", n, len(s.log))
				}
				t.Logf("%d: %d requests, %d refused, in %v", status, len(s.log), s.refused(status), time.Since(s.began))
			})
		}
	}
}

var (
	errNoConn    = &fetch.Error{Reason: fetch.Connect, Passing: true, Err: errors.New("connection refused")}
	errNoAddress = &fetch.Error{Reason: fetch.DNS, Passing: false, Err: errors.New("no such host")}
	errNoServer  = &fetch.Error{Reason: fetch.DNS, Passing: true, Err: errors.New("server misbehaving")}
)

// TestRestartingServer: a server that is away for ten seconds loses no page, whenever that is and
// however it shows.
func TestRestartingServer(t *testing.T) {
	for _, from := range []time.Duration{0, 50 * time.Millisecond, 2 * time.Second} {
		for _, how := range []struct {
			status int
			err    error
		}{{err: errNoConn}, {err: errNoServer}, {status: 503}, {status: 502}, {status: 429}} {
			synctest.Test(t, func(t *testing.T) {
				s := sky{pages: 40, fails: func(_ string, at time.Duration) (int, error) {
					if at >= from && at < from+10*time.Second {
						return how.status, how.err
					}
					return 0, nil
				}}
				outcomes, res := s.crawl(t, Options{}, "a.test")
				s.whole(t, outcomes, res, 1)
			})
			if t.Failed() {
				t.Fatalf("away from %v, %+v", from, how)
			}
		}
	}
}

// TestDeadSeed: where the host of the only seed cannot be reached, a line says so at once, and the
// run ends with the last try, not after the rest behind it. A host that answers is not named, nor
// one that fails later.
func TestDeadSeed(t *testing.T) {
	for _, tt := range []struct {
		err  error
		most time.Duration
	}{
		{errNoConn, 23 * time.Second},
		{errNoServer, 23 * time.Second},
		{errNoAddress, 5 * time.Second},
		{&fetch.Error{Reason: fetch.TLS, Err: errors.New("certificate is for b.test")}, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := sky{pages: 1, fails: func(string, time.Duration) (int, error) { return 0, tt.err }}
			log := &lines{began: time.Now()}
			_, res := s.crawl(t, Options{Log: slog.New(slog.NewTextHandler(log, nil))}, "a.test")
			if took := time.Since(s.began); res.Run.Stored != 0 || took > tt.most {
				t.Errorf("%v: took %v, want at most %v", tt.err, took, tt.most)
			}
			if len(log.list) != 1 || !strings.Contains(log.list[0], "host=a.test") || !strings.Contains(log.list[0], tt.err.Error()) || log.at[0] > time.Second {
				t.Errorf("%v: the log is %q, at %v", tt.err, log.list, log.at)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := sky{pages: 3, fails: func(url string, at time.Duration) (int, error) {
			if strings.Contains(url, "dead") && at > time.Second {
				return 0, errNoAddress
			}
			return 0, nil
		}}
		log := &lines{began: time.Now()}
		s.crawl(t, Options{Log: slog.New(slog.NewTextHandler(log, nil))}, "a.test", "dead.test")
		if len(log.list) > 0 {
			t.Errorf("the log is %q", log.list)
		}
	})
}

// lines are those of a log.
type lines struct {
	mu    sync.Mutex
	began time.Time
	list  []string
	at    []time.Duration
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list, l.at = append(l.list, string(b)), append(l.at, time.Since(l.began))
	return len(b), nil
}

// TestNameComesBack: that a name has no address is no verdict about a page of a host that has
// answered before.
func TestNameComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sky{pages: 40, fails: func(_ string, at time.Duration) (int, error) {
			if at >= 2*time.Second && at < 12*time.Second {
				return 0, errNoAddress
			}
			return 0, nil
		}}
		outcomes, res := s.crawl(t, Options{}, "a.test")
		s.whole(t, outcomes, res, 1)
	})
}

// TestPageAlwaysRefused: a page that its server always refuses waits for the next run, and keeps
// the others of its host for no longer than the run waits for it.
func TestPageAlwaysRefused(t *testing.T) {
	for _, bad := range []string{"/p1", "/p39"} {
		synctest.Test(t, func(t *testing.T) {
			last := time.Duration(0)
			s := sky{pages: 40, fails: func(url string, at time.Duration) (int, error) {
				if strings.HasSuffix(url, bad) {
					return http.StatusServiceUnavailable, nil
				}
				last = at
				return 0, nil
			}}
			outcomes, _ := s.crawl(t, Options{}, "a.test")
			for url, outcome := range outcomes {
				want := record.Stored.String()
				if strings.HasSuffix(url, bad) {
					want = "pending refused:http-5xx"
				}
				if outcome != want {
					t.Errorf("%s: %s, want %s", url, outcome, want)
				}
			}
			if n := s.refused(503); len(outcomes) != 40 || n != mostSpared || last > time.Minute || time.Since(s.began) > 6*time.Minute {
				t.Errorf("%d pages; the bad one asked %d times; the others took %v, all %v", len(outcomes), n, last, time.Since(s.began))
			}
		})
	}
}

// TestHostAlwaysRefuses: after ten refusals in a row nothing more is asked of a host, and its pages
// wait for the next run.
func TestHostAlwaysRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sky{pages: 40, fails: func(url string, at time.Duration) (int, error) {
			if at > time.Second {
				return http.StatusTooManyRequests, nil
			}
			return 0, nil
		}}
		outcomes, _ := s.crawl(t, Options{}, "a.test")
		for url, outcome := range outcomes {
			if outcome != record.Stored.String() && outcome != "pending host given up:http-4xx" {
				t.Errorf("%s: %s", url, outcome)
			}
		}
		if n := s.refused(http.StatusTooManyRequests); n != 10 || len(outcomes) != 40 {
			t.Errorf("%d refusals, want 10; %d pages", n, len(outcomes))
		}
	})
}

// TestRobotsRedirectsTakeTurns: where robots.txt redirects, each request waits for the turn of the
// host that it asks, be it another one that has pages of its own, or the same.
func TestRobotsRedirectsTakeTurns(t *testing.T) {
	for _, order := range []Order{"", OrderTree} {
		synctest.Test(t, func(t *testing.T) {
			const sites = 60
			s := sky{pages: 3, fails: func(string, time.Duration) (int, error) { return 0, nil }}
			s.moved = func(url string) string {
				host := record.Host(url)
				switch {
				case !strings.HasSuffix(url, "/robots.txt") && !strings.Contains(url, "/hop"):
					return ""
				case host == "victim.test":
					return ""
				case strings.HasSuffix(url, "/robots.txt"):
					return "/hop1"
				case strings.HasSuffix(url, "/hop1"):
					return "http://" + host + "/hop2"
				}
				return "http://victim.test/robots.txt?" + host
			}
			names := []string{"victim.test"}
			for i := range sites {
				names = append(names, fmt.Sprintf("s%d.test", i))
			}
			outcomes, res := s.crawl(t, Options{Ordering: Ordering{Order: order}}, names...)
			s.whole(t, outcomes, res, sites+1)
			last, victim := map[string]time.Duration{}, 0
			for _, g := range s.log {
				host := record.Host(g.url)
				if host == "victim.test" {
					victim++
				}
				if at, asked := last[host]; asked && g.at-at < 100*time.Millisecond {
					t.Fatalf("%s is asked %v after the last answer of its host", g.url, g.at-at)
				}
				last[host] = g.at
			}
			if want := sites + 1 + s.pages; victim != want {
				t.Errorf("the victim has %d requests, want %d", victim, want)
			}
		})
	}
}

// TestRobotsRedirectToDeadHost: pages of a host whose robots.txt leads to one that cannot be
// reached wait for the next run, and keep nobody.
func TestRobotsRedirectToDeadHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sky{pages: 3, fails: func(url string, _ time.Duration) (int, error) {
			if record.Host(url) == "dead.test" {
				return 0, errNoConn
			}
			return 0, nil
		}}
		s.moved = func(url string) string {
			if url == "http://a.test/robots.txt" {
				return "http://dead.test/robots.txt"
			}
			return ""
		}
		outcomes, _ := s.crawl(t, Options{}, "a.test", "b.test")
		if got := outcomes["http://a.test/"]; got != "pending robots-unreachable:connect" || len(outcomes) != 4 {
			t.Errorf("%s; %d outcomes; %v", got, len(outcomes), outcomes)
		}
		if time.Since(s.began) > 2*time.Minute {
			t.Errorf("took %v", time.Since(s.began))
		}
	})

	// Once it is given up, after six requests, those whose robots.txt leads to it wait without one.
	synctest.Test(t, func(t *testing.T) {
		const sites = 40
		asked := 0
		s := sky{pages: 3, stop: 2 * time.Minute, fails: func(url string, _ time.Duration) (int, error) {
			if record.Host(url) == "dead.test" {
				asked++
				return 0, errNoConn
			}
			return 0, nil
		}}
		s.moved = func(url string) string {
			if host, ok := strings.CutSuffix(url, "/robots.txt"); ok && !strings.HasSuffix(host, "b.test") {
				return "http://dead.test/robots.txt?" + record.Host(url)
			}
			return ""
		}
		names := []string{"b.test"}
		for i := range sites {
			names = append(names, fmt.Sprintf("s%d.test", i))
		}
		outcomes, _ := s.crawl(t, Options{}, names...)
		given := 0
		for url, outcome := range outcomes {
			if strings.HasPrefix(outcome, "pending robots-unreachable:host given up:connect") {
				given++
			} else if record.Host(url) != "b.test" && outcome != "pending robots-unreachable:connect" {
				t.Errorf("%s: %s", url, outcome)
			}
		}
		if asked > 6 || given < sites/2 || len(outcomes) != sites+s.pages {
			t.Errorf("%d requests of a dead host; %d of %d outcomes tell that it is given up", asked, given, len(outcomes))
		}
	})
}

// TestOutage: while no host can be reached fetching pauses and asks one URL now and then, and no
// page is lost, however long that takes and however it shows. One host that is away makes none of
// it.
func TestOutage(t *testing.T) {
	for _, away := range []time.Duration{25 * time.Second, 90 * time.Second, 9 * time.Minute} {
		for _, err := range []error{errNoConn, errNoServer, errNoAddress} {
			for _, from := range []time.Duration{0, time.Second} {
				if from == 0 && (away > time.Minute || err == errNoAddress) {
					continue // a host that was never reached is held some time
				}
				synctest.Test(t, func(t *testing.T) {
					s := sky{pages: 40, fails: func(_ string, at time.Duration) (int, error) {
						if at >= from && at < from+away {
							return 0, err
						}
						return 0, nil
					}}
					outcomes, res := s.crawl(t, Options{}, "a.test", "b.test", "c.test", "d.test")
					s.whole(t, outcomes, res, 4)
					asked := 0
					for _, g := range s.log {
						if g.status == 0 {
							asked++
						}
					}
					if most := 15 + int(away/mostProbe); asked > most {
						t.Errorf("%d requests in an outage of %v, want at most %d", asked, away, most)
					}
				})
				if t.Failed() {
					t.Fatalf("away for %v from %v: %v", away, from, err)
				}
			}
		}
	}
}

// TestOutageEnds: an outage that does not end ends the run after -max-wait, and -time and a stop
// end it before. All pages wait for the next run.
func TestOutageEnds(t *testing.T) {
	for _, tt := range []struct {
		ends  string
		opts  Options
		stop  time.Duration // after which Run's context is cancelled; 0: never
		after time.Duration
	}{
		{ends: "no host can be reached", after: 10 * time.Minute},
		{ends: "no host can be reached", opts: Options{Politeness: Politeness{MaxWait: time.Minute}}, after: time.Minute},
		{ends: "time is up", opts: Options{Limits: Limits{Time: 2 * time.Minute}}, after: 2 * time.Minute},
		{ends: "stopped", stop: 90 * time.Second, after: 90 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := sky{pages: 40, stop: tt.stop, fails: func(_ string, at time.Duration) (int, error) {
				if at >= time.Second {
					return 0, errNoConn
				}
				return 0, nil
			}}
			outcomes, res := s.crawl(t, tt.opts, "a.test", "b.test", "c.test")
			for url, outcome := range outcomes {
				if outcome != record.Stored.String() && outcome != "pending connect" {
					t.Errorf("%s: %s", url, outcome)
				}
			}
			if took := time.Since(s.began); res.Ended != tt.ends || took < tt.after || took > tt.after+time.Minute {
				t.Errorf("ended by %q after %v, want %q after %v", res.Ended, took, tt.ends, tt.after)
			}
		})
	}
}

// TestDeadHostsAreNoOutage: hosts that are not there hold up neither those that are nor the end.
func TestDeadHostsAreNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sky{pages: 3, fails: func(url string, _ time.Duration) (int, error) {
			if strings.Contains(url, "dead") {
				return 0, errNoAddress
			}
			return 0, nil
		}}
		outcomes, _ := s.crawl(t, Options{}, "a.test", "dead1.test", "dead2.test", "dead3.test", "dead4.test")
		for url, outcome := range outcomes {
			if want := map[bool]string{true: "pending robots-unreachable:dns", false: "stored"}[strings.Contains(url, "dead")]; outcome != want {
				t.Errorf("%s: %s, want %s", url, outcome, want)
			}
		}
		if took := time.Since(s.began); len(outcomes) != s.pages+4 || took > 40*time.Second {
			t.Errorf("%d outcomes after %v", len(outcomes), took)
		}
	})
}

// TestClosedPortOfAHost: a host that answers at one port, and cannot be reached at another, is
// asked for robots.txt there a few times and no more, and goes on with its pages.
func TestClosedPortOfAHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sky{pages: 20, fails: func(url string, _ time.Duration) (int, error) {
			if strings.HasPrefix(url, "https://") {
				return 0, &fetch.Error{Reason: fetch.Connect, Passing: true, Err: errors.New("refused")}
			}
			return 0, nil
		}}
		outcomes, res := s.crawl(t, Options{Seeds: []string{"https://a.example/x"}}, "a.example")
		asked, last := 0, time.Duration(0)
		for _, g := range s.log {
			if strings.HasPrefix(g.url, "https://") {
				asked++
			}
			last = g.at
		}
		if res.Run.Stored != 20 || asked > 5 || last > 2*time.Minute {
			t.Errorf("%d pages, %d requests to the port that is closed, the last one after %v: %v", res.Run.Stored, asked, last, outcomes)
		}
	})
}
