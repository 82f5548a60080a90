package crawler

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// Whatever the spelling, a seed's user name and password are those that net/url finds, and its
// canonical URL has none.
func TestLoginOfSeeds(t *testing.T) {
	none := (*url.Userinfo)(nil)
	for seed, want := range map[string]*url.Userinfo{
		"http://me:pass@a.test/x":        url.UserPassword("me", "pass"),
		"https://me@a.test":              url.UserPassword("me", ""),
		"http://me:p%40ss%3A@a.test":     url.UserPassword("me", "p@ss:"),
		"http://me:p:a@s@a.test/":        url.UserPassword("me", "p:a@s"),
		"http://me:100%@a.test/":         url.UserPassword("me", "100%"),
		"//me:pass@a.test/":              url.UserPassword("me", "pass"),
		"me@a.test/":                     url.UserPassword("me", ""),
		"http://a.test/x@y":              none,
		"http://a.test?me:pass@b.test":   none,
		"a.test/#me:pass@b.test":         none,
		"a.test/go?http://me:pass@b.org": none,
		"http://@a.test/":                none,
	} {
		var o Options
		o.logins = map[string]*url.Userinfo{}
		canonical, err := o.takeSeed(seed)
		if err != nil || strings.Contains(strings.SplitN(canonical, "/", 4)[2], "@") {
			t.Errorf("%s: %s, %v", seed, canonical, err)
		}
		got := slices.Collect(func(yield func(*url.Userinfo) bool) {
			for _, login := range o.logins {
				yield(login)
			}
		})
		if want == nil && len(got) == 0 {
			continue
		}
		if want == nil || len(got) != 1 || got[0].String() != want.String() {
			t.Errorf("%s: %v, want %v", seed, got, want)
			continue
		}
		if again := loginOf(keepLogin(canonical, seed)); again.String() != want.String() {
			t.Errorf("%s: kept as %v", seed, again)
		}
	}
}

func TestLoginsAreBounded(t *testing.T) {
	o := Options{Seeds: []string{"http://first:1@a.test/", "http://second:2@a.test/"}}
	for i := range mostLogins - 1 {
		o.Seeds = append(o.Seeds, fmt.Sprintf("http://u:p@%d.test/", i))
	}
	if err := o.canonicalSeeds(); err != nil || o.logins["http://a.test"].Username() != "first" {
		t.Errorf("%v of the first origin, %v", o.logins["http://a.test"], err)
	}
	o.Seeds = append(o.Seeds, "http://u:p@too-many.test/")
	o.Seeds[0] = "http://first:1@a.test/"
	o.Seeds[1] = "http://u:p@one-more.test/"
	for i := range o.Seeds[2:] {
		o.Seeds[2+i] = fmt.Sprintf("http://u:p@%d.test/", i)
	}
	if err := o.canonicalSeeds(); !errors.Is(err, ErrOptions) {
		t.Errorf("%d origins: %v", len(o.Seeds), err)
	}
	if _, err := o.takeSeed("ftp://me:secret@a.test/"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("printed %v", err)
	}
}
