package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"urltree/crawler/weburl"
	"urltree/internal/words"
)

// An amount is a number of things, of bytes or of nanoseconds, from least on.
type amount[N int | int64 | time.Duration] struct {
	in    measure
	p     *N
	least N
	most  N      // 0: no limit
	unset N      // the value that means none was given
	none  string // what to show for it, and then an empty text sets it; "": the value itself
	word  string // stands for unset; then an amount of 0 is -1
}

// A measure is how amounts are written.
type measure struct {
	allowed string
	parse   func(string) (int64, error)
	text    func(int64) string
}

var (
	numbers  = measure{"a whole number", parseCount, func(n int64) string { return strconv.FormatInt(n, 10) }}
	sizes    = measure{"a size such as 500KiB, 16MiB or 2GB", words.ParseSize, sizeText}
	percents = measure{"a share such as 30%", parsePercent, func(n int64) string { return strconv.FormatInt(n, 10) + "%" }}
	times    = measure{
		"a time such as 300ms, 90s, 20m, 10h, 1d12h or 2w",
		parseTime, func(n int64) string { return words.Duration(time.Duration(n)) },
	}
)

func (v amount[N]) Set(s string) error {
	s = strings.TrimSpace(s)
	if v.word != "" && strings.EqualFold(s, v.word) || s == "" && v.none != "" {
		*v.p = v.unset
		return nil
	}
	n, err := v.in.parse(s)
	if err != nil || int64(N(n)) != n || n < int64(v.least) || v.most > 0 && n > int64(v.most) {
		return v.refuse()
	}
	if *v.p = N(n); n == 0 && v.word != "" {
		*v.p = -1
	}
	return nil
}

func (v amount[N]) refuse() error {
	allowed := v.in.allowed
	if v.word != "" {
		allowed = v.word + " or " + allowed
	}
	allowed += " is allowed, at least " + v.in.text(int64(v.least))
	if v.most > 0 {
		allowed += " and at most " + v.in.text(int64(v.most))
	}
	return errors.New(allowed)
}

func (v amount[N]) String() string {
	if *v.p == v.unset && v.none != "" {
		return v.none
	}
	return v.in.text(int64(max(*v.p, 0)))
}

func parseCount(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }

// parsePercent reads a whole number of hundredths, with or without its sign.
func parsePercent(s string) (int64, error) { return parseCount(strings.TrimSuffix(s, "%")) }

func sizeText(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if bytes := int64(1) << (30 - 10*i); n >= bytes && n%bytes == 0 {
			return strconv.FormatInt(n/bytes, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

func parseTime(s string) (int64, error) {
	d, err := words.ParseDuration(s)
	return int64(d), err
}

// An instant is a moment in Unix seconds, 0 if it is not given. A date, in UTC, is its beginning,
// or, if end is set, that of the next day.
type instant struct {
	p   *int64
	end bool
}

func (v instant) Set(s string) error {
	at, err := time.Parse(time.RFC3339, s)
	if day, wrong := time.Parse(time.DateOnly, s); wrong == nil {
		if at, err = day, nil; v.end {
			at = day.AddDate(0, 0, 1)
		}
	} else if ago, wrong := parseTime(s); wrong == nil && ago >= 0 {
		at, err = time.Now().Add(-time.Duration(ago)), nil
	}
	if err != nil || at.Unix() <= 0 {
		return errors.New("a date such as 2026-11-29, a time such as 2026-11-29T10:00:00Z or, for so long ago, 36h or 7d is allowed, from 1970 on")
	}
	*v.p = at.Unix()
	return nil
}

func (v instant) String() string { return "any" }

// choice is one of a few words.
type choice struct {
	p     *string
	words []string
}

func (v choice) Set(s string) error {
	if !slices.Contains(v.words, s) {
		return fmt.Errorf("one of %s is allowed", strings.Join(v.words, ", "))
	}
	*v.p = s
	return nil
}

func (v choice) String() string { return cmp.Or(*v.p, "any") }

// text is any text but the empty one.
type text struct{ p *string }

func (v text) Set(s string) error {
	if s == "" {
		return fmt.Errorf("a text that is not empty is allowed")
	}
	*v.p = s
	return nil
}

func (v text) String() string { return cmp.Or(*v.p, "none") }

// known is a text that is judged elsewhere, where these words are known.
type known struct {
	text
	words []string
}

// inputs are names of seed files, one for each use of the flag.
type inputs struct{ p *[]string }

func (v inputs) Set(s string) error {
	if s == "-" && slices.Contains(*v.p, s) {
		return fmt.Errorf("standard input is read once")
	}
	var name string
	if err := (text{&name}).Set(s); err != nil {
		return err
	}
	*v.p = append(*v.p, name)
	return nil
}

func (v inputs) String() string { return "none" }

// patterns are regular expressions, one for each use. An empty one removes those before.
type patterns struct{ p *[]*regexp.Regexp }

func (v patterns) Set(s string) error {
	if s == "" {
		*v.p = nil
		return nil
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return fmt.Errorf("a regular expression (RE2) is allowed: %w", err)
	}
	*v.p = append(*v.p, re)
	return nil
}

func (v patterns) String() string { return cmp.Or(shown(v.texts()), "none") }

// headers are header fields, one for each use of the flag.
type headers struct{ p *http.Header }

func (v headers) Set(s string) error {
	name, value, ok := strings.Cut(s, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || name == "" || strings.ContainsFunc(name, notToken) || strings.ContainsAny(value, "\r\n\x00") {
		return fmt.Errorf("a header field such as 'Accept-Language: de' is allowed")
	}
	if *v.p == nil {
		*v.p = http.Header{}
	}
	v.p.Add(name, value)
	return nil
}

func (v headers) String() string { return "none" }

func notToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune("()<>@,;:\\\"/[]?={}", r)
}

// A parsed value is one that parse makes of a text. Its default is shown as usual.
type parsed[T any] struct {
	p     *T
	parse func(string) (T, error)
	usual string
}

func (v parsed[T]) Set(s string) error {
	parsed, err := v.parse(s)
	if err == nil {
		*v.p = parsed
	}
	return err
}

func (v parsed[T]) String() string { return v.usual }

func parseProxy(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err == nil && u.Host != "" && slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
		return u, nil
	}
	return nil, errors.New("an address such as http://127.0.0.1:3128 is allowed (http, https, socks5)")
}

func parseAddress(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		err = errors.New("an IP address such as 192.0.2.7 is allowed")
	}
	return a, err
}

// toggle is a flag without a value.
type toggle struct{ p *bool }

func (v toggle) Set(s string) error {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return fmt.Errorf("true or false is allowed")
	}
	*v.p = b
	return nil
}

func (v toggle) String() string {
	if *v.p {
		return "on"
	}
	return "off"
}

// types are media types, comma-separated. Without any, the default counts.
type types struct{ p *[]string }

func (v types) Set(s string) error {
	if strings.TrimSpace(s) == "" {
		*v.p = nil
		return nil
	}
	var list []string
	for t := range strings.SplitSeq(strings.ToLower(s), ",") {
		t = strings.TrimSpace(t)
		major, minor, ok := strings.Cut(t, "/")
		if !ok || major == "" || minor == "" || strings.ContainsFunc(major+minor, notToken) || major == "*" && minor != "*" {
			return fmt.Errorf("media types such as text/html,text/* are allowed")
		}
		list = append(list, t)
	}
	*v.p = list
	return nil
}

func (v types) String() string { return strings.Join(*v.p, ",") }

// params are names of parameters of URLs, comma-separated.
type params struct{ p *weburl.Strip }

func (v params) Set(s string) error {
	strip, err := weburl.ParseStrip(s)
	if err != nil || len(strip.Params) == 0 || strip.WWW {
		return fmt.Errorf("names of parameters are allowed, a star at the end for any rest: utm_*,PHPSESSID")
	}
	v.p.Params = strip.Params
	return nil
}

func (v params) String() string { return cmp.Or(strings.Join(v.p.Params, ","), "none") }
