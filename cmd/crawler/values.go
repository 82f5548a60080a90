package main

import (
	"cmp"
	"fmt"
	"math"
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

// number is a whole number from least on.
type number[N int | int64] struct {
	p     *N
	least N
	most  N      // 0: no limit
	unset N      // the value that means none was given; one below least is set by an empty text
	none  string // what to show for it; "": the value itself
	word  string // stands for unset; then a number of 0 is -1
}

func (v number[N]) Set(s string) error {
	s = strings.TrimSpace(s)
	if v.word != "" && s == v.word || s == "" && v.unset < v.least {
		*v.p = v.unset
		return nil
	}
	parsed, err := strconv.ParseInt(s, 10, 64)
	n := N(parsed)
	if err != nil || int64(n) != parsed || n < v.least || v.most > 0 && n > v.most {
		if v.most > 0 {
			return fmt.Errorf("a whole number from %d to %d is allowed", v.least, v.most)
		}
		if v.word != "" {
			return fmt.Errorf("%s or a whole number from %d on is allowed", v.word, v.least)
		}
		return fmt.Errorf("a whole number from %d on is allowed", v.least)
	}
	if *v.p = n; n == 0 && v.word != "" {
		*v.p = -1
	}
	return nil
}

func (v number[N]) String() string {
	if *v.p == v.unset && v.none != "" {
		return v.none
	}
	return strconv.FormatInt(int64(*v.p), 10)
}

// size is a number of bytes, with or without a unit.
type size struct {
	p     *int64
	least int64
	zero  string // what to show for 0
	word  string // stands for 0; then a size of 0 is -1
}

var units = []struct {
	name  string
	bytes float64
}{
	{"kib", 1 << 10},
	{"mib", 1 << 20},
	{"gib", 1 << 30},
	{"tib", 1 << 40},
	{"kb", 1e3},
	{"mb", 1e6},
	{"gb", 1e9},
	{"tb", 1e12},
	{"k", 1 << 10},
	{"m", 1 << 20},
	{"g", 1 << 30},
	{"t", 1 << 40},
	{"b", 1},
	{"", 1},
}

func (v size) Set(s string) error {
	text := strings.ToLower(strings.TrimSpace(s))
	if v.word != "" && text == v.word {
		*v.p = 0
		return nil
	}
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || math.IsNaN(n) || n*u.bytes >= 1<<62 || n < 0 {
			break
		}
		if b := int64(n * u.bytes); b >= v.least {
			if *v.p = b; b == 0 && v.word != "" {
				*v.p = -1
			}
			return nil
		}
		break
	}
	if v.word != "" {
		return fmt.Errorf("%s or a size such as 500KiB, 16MiB or 2GB is allowed", v.word)
	}
	return fmt.Errorf("a size such as 500KiB, 16MiB or 2GB is allowed, at least %s", sizeText(v.least))
}

func (v size) String() string {
	if *v.p == 0 {
		return v.zero
	}
	return sizeText(*v.p)
}

func sizeText(n int64) string {
	for _, u := range []struct {
		name  string
		shift uint
	}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if n >= 1<<u.shift && n%(1<<u.shift) == 0 {
			return strconv.FormatInt(n>>u.shift, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// duration is a time such as 90s, 10h or 1d12h; one word may stand for the value 0.
type duration struct {
	p     *time.Duration
	least time.Duration
	zero  string // what to show for 0
	word  string // stands for 0; then a time of 0 is -1
}

func (v duration) Set(s string) error {
	text := strings.TrimSpace(s)
	if v.word != "" && text == v.word {
		*v.p = 0
		return nil
	}
	d, err := parseTime(text)
	if err == nil && d >= v.least {
		if *v.p = d; d == 0 && v.word != "" {
			*v.p = -1
		}
		return nil
	}
	allowed := "a time such as 300ms, 90s, 20m, 10h, 1d12h or 2w is allowed"
	if v.word != "" {
		allowed = v.word + " or " + allowed
	}
	if v.least > 0 {
		allowed += ", at least " + v.least.String()
	}
	return fmt.Errorf("%s", allowed)
}

func (v duration) String() string {
	switch {
	case *v.p == 0:
		return v.zero
	case *v.p < 0:
		return "0s"
	}
	return words.Duration(*v.p)
}

// longUnits are the units that [time.ParseDuration] lacks, in hours.
var longUnits = map[string]float64{"d": 24, "w": 7 * 24}

var inLongUnit = regexp.MustCompile(`([0-9]+|[0-9]*\.[0-9]+)([dw])`)

// parseTime does what [time.ParseDuration] does, and knows days of 24 hours and weeks.
func parseTime(s string) (time.Duration, error) {
	return time.ParseDuration(inLongUnit.ReplaceAllStringFunc(s, func(part string) string {
		unit := part[len(part)-1:]
		n, err := strconv.ParseFloat(part[:len(part)-1], 64)
		if err != nil {
			return part
		}
		return strconv.FormatFloat(n*longUnits[unit], 'f', -1, 64) + "h"
	}))
}

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

// patterns are regular expressions, one for each use of the flag. An empty one removes those
// before.
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

// proxy is the URL of a proxy.
type proxy struct{ p **url.URL }

func (v proxy) Set(s string) error {
	u, err := url.Parse(s)
	if err == nil && u.Host != "" {
		switch u.Scheme {
		case "http", "https", "socks5", "socks5h":
			*v.p = u
			return nil
		}
	}
	return fmt.Errorf("an address such as http://127.0.0.1:3128 is allowed (http, https, socks5)")
}

func (v proxy) String() string { return "as http_proxy, https_proxy and no_proxy say" }

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

// address is an IP address of this machine.
type address struct{ p *netip.Addr }

func (v address) Set(s string) error {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return fmt.Errorf("an IP address such as 192.0.2.7 is allowed")
	}
	*v.p = a
	return nil
}

func (v address) String() string {
	if !v.p.IsValid() {
		return "any"
	}
	return v.p.String()
}
