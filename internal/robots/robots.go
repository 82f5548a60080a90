// Package robots reads robots.txt and says what a crawler may ask for, as RFC 9309 has it. It
// is fed by answers to /robots.txt; it feeds the decision before each fetch.
//
// The groups that name the crawler are merged into one; where there are none, the groups for
// "*". The longest rule that matches decides, and allow wins a tie. A line that says nothing
// known is skipped; it never spoils the rest.
package robots

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// MaxBytes is how much of a file counts, in bytes. A line that it cuts does not count.
const MaxBytes = 500 << 10

// maxDelay is the longest CrawlDelay: the longest that we ever back off.
const maxDelay = 24 * time.Hour

// AllowAll is the answer of an origin without such a file. It must not be changed.
var AllowAll = &Rules{}

// Rules are what one robots.txt says to one crawler. They may be used concurrently.
type Rules struct {
	CrawlDelay time.Duration // longest of the group, at most 24 h; 0: none
	Sitemaps   []string      // as written, for whomever they are

	rules []rule // longest first; of two alike the one that allows
	size  int64
}

// Size returns the bytes of memory that the rules take: of a file made for it twenty times its own.
func (r *Rules) Size() int64 { return r.size }

// A rule matches a path that begins with parts in order, with anything between them.
type rule struct {
	allow bool
	parts []string // normal text between the asterisks
	end   bool     // the last part must end the path ("$")
	size  int      // bytes of the normal pattern
	line  string   // as written
}

// Token returns the product token of a User-Agent header: the letters, hyphens and underscores
// that it begins with.
func Token(userAgent string) string {
	for i := range len(userAgent) {
		switch c := userAgent[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c == '-', c == '_':
		default:
			return userAgent[:i]
		}
	}
	return userAgent
}

// A group collects what all groups for one crawler say.
type group struct {
	named bool
	in    bool // the present group is one of them
	delay time.Duration
	rules []rule
}

// Parse reads a robots.txt for the crawler with this product token. It takes any bytes.
func Parse(body []byte, token string) *Rules {
	if len(body) > MaxBytes {
		body = body[:MaxBytes]
		body = body[:bytes.LastIndexAny(body, "\r\n")+1]
	}
	text := strings.TrimPrefix(string(body), "\ufeff")

	r := &Rules{}
	var own, all group // for token, for "*"
	both := []*group{&own, &all}
	inAgents := false // between the user-agent lines of a group
	for line := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == '\r' }) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch key = strings.ToLower(strings.TrimSpace(key)); key {
		case "user-agent":
			if !inAgents {
				inAgents, own.in, all.in = true, false, false
			}
			if agent, _, _ := strings.Cut(value, " "); agent == "*" {
				all.in, all.named = true, true
			}
			if agent := Token(value); agent != "" && strings.EqualFold(agent, token) {
				own.in, own.named = true, true
			}
		case "allow", "disallow":
			inAgents = false
			if value == "" {
				continue // says nothing
			}
			for _, g := range both {
				if g.in {
					g.rules = append(g.rules, newRule(key == "allow", value, line))
				}
			}
		case "crawl-delay":
			for _, g := range both {
				if g.in {
					g.delay = max(g.delay, delay(value))
				}
			}
		case "sitemap":
			if value != "" {
				r.Sitemaps = append(r.Sitemaps, value)
			}
		}
	}
	if !own.named {
		own = all
	}
	r.CrawlDelay, r.rules = own.delay, own.rules
	r.size = int64(unsafe.Sizeof(*r)) + int64(len(text)) // which all strings are parts of
	r.size += int64(cap(r.Sitemaps))*int64(unsafe.Sizeof("")) + int64(cap(r.rules))*int64(unsafe.Sizeof(rule{}))
	for i := range r.rules {
		r.size += int64(cap(r.rules[i].parts)) * int64(unsafe.Sizeof(""))
	}
	slices.SortStableFunc(r.rules, func(a, b rule) int {
		switch {
		case a.size != b.size, a.allow == b.allow:
			return cmp.Compare(b.size, a.size)
		case a.allow:
			return -1
		}
		return 1
	})
	return r
}

// Allowed reports whether the path and query of a canonical URL, such as /a?b, may be asked for,
// and the line that says so, "" if none does. The file itself is always allowed.
func (r *Rules) Allowed(pathAndQuery string) (ok bool, line string) {
	if pathAndQuery == "/robots.txt" || len(r.rules) == 0 {
		return true, ""
	}
	path := normal(pathAndQuery)
	for i := range r.rules {
		if r.rules[i].matches(path) {
			return r.rules[i].allow, r.rules[i].line
		}
	}
	return true, ""
}

func newRule(allow bool, pattern, line string) rule {
	r := rule{allow: allow, line: line}
	pattern, r.end = strings.CutSuffix(pattern, "$")
	for part := range strings.SplitSeq(pattern, "*") {
		part = normal(part)
		r.parts = append(r.parts, part)
		r.size += len(part)
	}
	r.size += len(r.parts) - 1
	if r.end {
		r.size++
	}
	return r
}

// matches looks for each part at the first place where it can be, which leaves the most for
// those that follow: time in the length of path and rule, whatever the asterisks.
func (r *rule) matches(path string) bool { return r.match(path, strings.Index) }

func (r *rule) match(path string, index func(s, part string) int) bool {
	rest, ok := strings.CutPrefix(path, r.parts[0])
	if !ok {
		return false
	}
	if len(r.parts) == 1 {
		return !r.end || rest == ""
	}
	last := len(r.parts) - 1
	for _, part := range r.parts[1:last] {
		i := index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	if r.end {
		return strings.HasSuffix(rest, r.parts[last])
	}
	return index(rest, r.parts[last]) >= 0
}

// normal returns the one spelling in which paths, and parts of rules, are compared:
// escapes of unreserved characters undone, other escapes in capitals, and escapes for all that
// a URL may hold escaped in one place and bare in another, or that means something in a rule.
func normal(s string) string {
	if !strings.ContainsFunc(s, func(c rune) bool { return c == '%' || isEscaped(c) }) {
		return s
	}
	b := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); i++ {
		c := s[i]
		bare := c != '%' && !isEscaped(rune(c))
		if c == '%' && i+2 < len(s) {
			if escaped, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				c = byte(escaped)
				i += 2
				bare = isUnreserved(c)
			}
		}
		if bare {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}

const digits = "0123456789ABCDEF"

// isEscaped reports whether normal writes a byte, or the bytes of a character, as escapes.
func isEscaped(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("\"'<>^`{}*$", c) }

func isUnreserved(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// delay reads a number of seconds; it is 0 for anything else.
func delay(s string) time.Duration {
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil || !(seconds > 0) { // not a number fails too
		return 0
	}
	return time.Duration(min(seconds, maxDelay.Seconds()) * float64(time.Second))
}
